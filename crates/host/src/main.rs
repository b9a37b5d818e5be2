//! Remedies for TCP incast on the kernel of this machine, by eBPF.

mod attach;
mod doctor;
mod kernel;
mod request;

use std::io::{stdin, stdout};
use std::process::ExitCode;

use request::Request;

const USAGE: &str = "usage: incast-host doctor | enable ALGORITHM --cgroup PATH | attach
  doctor   says of each thing that is needed whether it is there, and what to do if not
  enable   puts all new connections in a cgroup (version 2) under dctcp, d2tcp, mrg, dcmrg or pulser, until it is ended
  attach   reads a request, one line of JSON, from standard input, attaches what it names, and answers in one line;
           after that a line \"report\" (with its quotes) is answered by counts; at the end of input everything is detached";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["attach"] => {
            kernel::keep_complaints();
            match attach::run(&mut stdin().lock(), &mut stdout().lock()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    println!("{}", serde_json::json!({ "error": error }));
                    ExitCode::FAILURE
                }
            }
        }
        ["enable", algorithm, "--cgroup", cgroup] => {
            kernel::keep_complaints();
            let enabled = Request::enable(algorithm, cgroup).and_then(|it| attach::enable(&it, &mut stdout().lock()));
            match enabled {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        }
        ["doctor"] => match doctor::run(&mut stdout().lock()) {
            Ok(true) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
