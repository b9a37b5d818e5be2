//! A program with the C side, which answers each line by numbers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program, while it runs.
pub(crate) struct Replay {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Replay {
    /// Starts a program that the build script has compiled.
    pub(crate) fn start(program: &str) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the build script has compiled it");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output }
    }

    /// What it says after each line.
    pub(crate) fn answers<const N: usize>(&mut self, script: &str) -> Vec<[u64; N]> {
        self.input.write_all(script.as_bytes()).and_then(|()| self.input.write_all(b"end\n")).expect("it reads all");
        self.input.flush().expect("it reads all");
        let mut line = String::new();
        script
            .lines()
            .map(|event| {
                line.clear();
                self.output.read_line(&mut line).expect("a line for each event");
                let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
                numbers.try_into().unwrap_or_else(|_| panic!("\"{event}\" was answered by \"{line}\""))
            })
            .collect()
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // It may have ended already, by a trap that a test reports.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
