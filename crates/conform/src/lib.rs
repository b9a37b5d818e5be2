//! Holds the simulator's TCP to scripts in packetdrill's language: one end of a connection, in simulated time, against
//! packets that a script sends and expects.
//!
//! ```
//! use incast_conform::{Verdict, conform};
//!
//! let script = "
//!     `sysctl -q net.ipv4.tcp_congestion_control=reno`
//!     0   socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//!     +0  bind(3, ..., ...) = 0
//!     +0  listen(3, 1) = 0
//!     +0  < S 0:0(0) win 65535 <mss 1000>
//!     +0  > S. 0:0(0) ack 1 <mss 1460>
//!     +.1 < . 1:1(0) ack 1 win 65535
//!     +0  accept(3, ..., ...) = 4
//!     +0  write(4, ..., 20000) = 20000
//!     +0  > . 1:10001(10000) ack 1
//! ";
//! assert_eq!(conform(script, &|_| None).verdict, Verdict::Passes);
//! ```

mod flight;
mod host;
mod info;
mod parse;
mod python;
mod script;
mod settings;
mod shell;

use serde::Serialize;

use host::Host;
use python::Kind;
use script::{Action, Script, Stop};
use settings::Settings;

/// What became of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The endpoint did all that the script expects.
    Passes,
    /// It did something else.
    Fails {
        /// Where the script expects it.
        line: u32,
        /// What the script expects.
        expected: String,
        /// What the endpoint did.
        found: String,
    },
    /// The script is about something that the endpoint, or this program, does not have.
    NotApplicable {
        /// Where.
        line: u32,
        /// What is missing.
        feature: String,
    },
    /// It is no script.
    Unreadable {
        /// Where.
        line: u32,
        /// What is wrong.
        message: String,
    },
}

/// What is reported of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Settings of the script that have no meaning here, and were left out.
    pub not_understood: Vec<String>,
}

/// Carries out a script. `read` gives the text of a file that the script names, as it names it, if there is one.
#[must_use]
pub fn conform(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Report {
    let mut host = Host::new(Settings::default(), read);
    let verdict = match carry_out(text, &mut host) {
        Ok(()) => Verdict::Passes,
        Err(Stop::Differs { line, expected, found }) => Verdict::Fails { line, expected, found },
        Err(Stop::Missing { line, feature }) => Verdict::NotApplicable { line, feature },
        Err(Stop::Syntax { line, message }) => Verdict::Unreadable { line, message },
    };
    let mut not_understood = std::mem::take(&mut host.settings.not_understood);
    not_understood.sort_unstable();
    not_understood.dedup();
    Report { verdict, not_understood }
}

fn carry_out(text: &str, host: &mut Host<'_>) -> Result<(), Stop> {
    let script = parse::parse(text)?;
    refuse_unknown_names(&script)?;
    host.settings.take_head(&script.flags, &script.keys)?;
    script.events.iter().try_for_each(|event| host.carry_out(event))
}

/// A script whose assertions cannot be answered is not judged by what comes before them.
fn refuse_unknown_names(script: &Script) -> Result<(), Stop> {
    let mut assigned = Vec::new();
    for event in &script.events {
        let Action::Python(statements) = &event.action else { continue };
        for statement in statements {
            let (Kind::Assert(expression) | Kind::Assign(_, expression)) = &statement.kind;
            let mut names = Vec::new();
            expression.names(&mut names);
            if let Some(name) = names.into_iter().find(|name| !info::is_known(name) && !assigned.contains(name)) {
                return Err(Stop::missing(statement.line, format!("tcp_info's `{name}`")));
            }
            if let Kind::Assign(name, _) = &statement.kind {
                assigned.push(name.as_str());
            }
        }
    }
    Ok(())
}
