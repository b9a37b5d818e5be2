//! What a script says, line by line.

use crate::python::Statement;

/// Picoseconds since the script began.
pub(crate) type Instant = u64;

/// Why a script cannot be carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is not written in the language.
    Syntax { line: u32, message: String },
    /// It needs something that is not there.
    Missing { line: u32, feature: String },
    /// The endpoint did something else.
    Differs { line: u32, expected: String, found: String },
}

impl Stop {
    pub(crate) fn missing(line: u32, feature: impl Into<String>) -> Self {
        Self::Missing { line, feature: feature.into() }
    }

    pub(crate) fn syntax(line: u32, message: impl Into<String>) -> Self {
        Self::Syntax { line, message: message.into() }
    }
}

/// A script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// `--name=value` in its head.
    pub(crate) flags: Vec<Setting>,
    /// `// incast: key = value` in its head: keys of the simulator's own.
    pub(crate) keys: Vec<Setting>,
    pub(crate) events: Vec<Event>,
}

/// A name and its value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Something that happens, or is to happen.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) line: u32,
    pub(crate) when: When,
    pub(crate) action: Action,
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// At any time from now on.
    Any,
    /// Between two times, counted from the beginning of the script.
    Absolute(Instant, Instant),
    /// Between two times, counted from the event before.
    Relative(Instant, Instant),
}

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A packet arrives.
    Arrives(Packet),
    /// A packet leaves.
    Leaves(Packet),
    /// The application calls the kernel; a call that blocks returns in the second half of its time.
    Call(Call),
    /// Statements about `tcp_info`.
    Python(Vec<Statement>),
    /// A command line.
    Shell(String),
}

/// A packet, with the script's own sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// As it is written.
    pub(crate) text: String,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) flags: Flags,
    pub(crate) start: u32,
    pub(crate) payload: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) window: Option<u32>,
    /// Of a packet that leaves: none if any will do (`<...>`).
    pub(crate) options: Option<TcpOptions>,
}

/// The ECN field of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ecn {
    NotEct,
    Ect0,
    Ect1,
    Ce,
    /// ECT(0) or ECT(1).
    Ect,
}

/// Flags of a TCP header that matter here; PSH does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the header")]
pub(crate) struct Flags {
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) ack: bool,
    pub(crate) ece: bool,
    pub(crate) cwr: bool,
}

/// TCP options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpOptions {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: bool,
    pub(crate) sack: Vec<(u32, u32)>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    /// The number it returns; none for `...`.
    pub(crate) returns: Option<i64>,
    /// The error it sets, such as `EAGAIN`.
    pub(crate) error: Option<String>,
    /// It may block.
    pub(crate) blocks: bool,
}
