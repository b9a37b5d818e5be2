//! The process that keeps something enabled: answers the commands and Prometheus, until it is ended.

use std::io::{self, BufRead as _, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::control::{self, Listening};
use crate::enable::Enabled;
use crate::ends::{self, End};
use crate::metrics;
use crate::rights;

/// Enables what `make` makes, and keeps it until this process is asked to end: by `disable`, which is what it is for, or
/// by a signal.
pub(crate) fn run<E: Enabled + 'static>(
    make: impl FnOnce() -> Result<E, String>,
    metrics_port: Option<u16>,
    output: &mut impl Write,
) -> Result<End, String> {
    let listening = Listening::open()?;
    let metrics = metrics_port.map(open_metrics).transpose()?;
    let mut signals = ends::listen()?;
    let enabled = Arc::new(make()?);
    // There is one thread up to here, and this is of threads.
    rights::drop_all()?;
    enabled.begin()?;
    let mut lines = vec![format!("{}; this ends with this process ({})", enabled.title(), std::process::id())];
    if let Some(listener) = metrics {
        let address = listener.local_addr().map_err(|error| format!("metrics: {error}"))?;
        lines.push(format!("metrics: http://{address}/metrics"));
        let enabled = Arc::clone(&enabled);
        std::thread::spawn(move || serve_metrics(&listener, &*enabled));
    }
    writeln!(output, "{}", lines.join("\n"))
        .and_then(|()| output.flush())
        .map_err(|error| format!("standard output: {error}"))?;
    // Without a systemd that waits for it this does nothing.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let listener = listening.listener.try_clone().map_err(|error| format!("{}: {error}", listening.path.display()))?;
    let (ended, end) = std::sync::mpsc::channel();
    let by_command = ended.clone();
    let answering = Arc::clone(&enabled);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if matches!(answer(&stream, &*answering), Ok(true)) {
                let _ = by_command.send(End::Done);
            }
        }
    });
    std::thread::spawn(move || {
        if let Some(number) = signals.forever().next() {
            let _ = ended.send(End::Signal(number));
        }
    });
    // Returning closes all that holds something in the kernel, and removes the socket.
    let by = end.recv().unwrap_or(End::Done);
    enabled.end();
    Ok(by)
}

/// Answers one request; whether it was to end.
fn answer(stream: &std::os::unix::net::UnixStream, enabled: &dyn Enabled) -> io::Result<bool> {
    let asked = control::receive(stream)?;
    let (answer, ends) = match asked.value["ask"].as_str() {
        Some("status") => (enabled.status().map(|status| (with_process(status), vec![])), false),
        Some("disable") => (Ok((json!({ "disabled": enabled.title() }), vec![])), true),
        _ => (enabled.answer(asked), false),
    };
    let (value, descriptors) = answer.unwrap_or_else(|error| (json!({ "error": error }), vec![]));
    let descriptors: Vec<_> = descriptors.iter().map(|each| each.as_fd()).collect();
    control::send(stream, &value, &descriptors)?;
    Ok(ends)
}

fn with_process(mut status: Value) -> Value {
    status["process"] = std::process::id().into();
    status
}

/// Nobody but this machine sees them.
fn open_metrics(port: u16) -> Result<TcpListener, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| format!("metrics at 127.0.0.1:{port}: {error}"))
}

fn serve_metrics(listener: &TcpListener, enabled: &dyn Enabled) {
    for stream in listener.incoming().flatten() {
        // One who went away has nothing to be told.
        let _ = answer_http(&stream, enabled);
    }
}

/// HTTP, as far as a scraper needs it.
fn answer_http(mut stream: &TcpStream, enabled: &dyn Enabled) -> io::Result<()> {
    const LONGEST_HEAD: u64 = 1 << 14;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut head = BufReader::new(io::Read::take(stream, LONGEST_HEAD)).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (status, kind, body) = match first.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", _] => match enabled.status() {
            Ok(status) => ("200 OK", "text/plain; version=0.0.4", metrics::text(&status)),
            Err(error) => ("500 Internal Server Error", "text/plain", error + "\n"),
        },
        ["GET", _, _] => ("404 Not Found", "text/plain", "metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is allowed\n".into()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes())
}
