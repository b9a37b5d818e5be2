//! Remedies for TCP incast on the kernel of this machine, by eBPF.

mod attach;
mod bursts;
mod commands;
mod control;
mod daemon;
mod doctor;
mod enable;
mod ends;
mod events;
mod flows;
mod kernel;
mod metrics;
#[cfg(test)]
mod mutations;
mod openings;
mod qdisc;
mod receivers;
mod request;
mod rights;
mod sample;
mod scope;
mod senders;
mod status;
mod sweep;

use std::io::{stdin, stdout};
use std::process::ExitCode;

use clap::Parser as _;
use commands::{Arguments, Command};

fn main() -> ExitCode {
    kernel::keep_complaints();
    let done = match Arguments::parse().command {
        Command::Doctor => match doctor::run(&mut stdout().lock()) {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => Ok(ExitCode::FAILURE),
            Err(error) => Err(format!("standard output: {error}")),
        },
        Command::Attach => match attach::run(&mut stdin().lock(), &mut stdout().lock()) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => {
                println!("{}", serde_json::json!({ "error": error }));
                Ok(ExitCode::FAILURE)
            }
        },
        command => commands::run(command, &mut stdout().lock()).map(|end| {
            if let Some(message) = end.message() {
                eprintln!("{message}");
            }
            end.code()
        }),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{}", printable(&error));
        ExitCode::FAILURE
    })
}

/// Without what a terminal would obey: names in messages may be anything.
fn printable(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' { said.extend(c.escape_default()) } else { said.push(c) }
    }
    said
}
