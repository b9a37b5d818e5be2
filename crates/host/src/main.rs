//! Remedies for TCP incast on the kernel of this machine, by eBPF.

mod attach;
mod bursts;
mod commands;
mod control;
mod daemon;
mod doctor;
mod enable;
mod events;
mod flows;
mod kernel;
mod metrics;
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
        Command::Doctor => doctor::run(&mut stdout().lock()).map_err(|error| format!("standard output: {error}")),
        Command::Attach => match attach::run(&mut stdin().lock(), &mut stdout().lock()) {
            Ok(()) => Ok(true),
            Err(error) => {
                println!("{}", serde_json::json!({ "error": error }));
                Ok(false)
            }
        },
        command => commands::run(command, &mut stdout().lock()).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
