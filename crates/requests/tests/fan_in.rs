//! The client of `validation/requests`, beside servers on this machine. `cargo test` builds it with the tests.
#![cfg(all(target_os = "linux", feature = "hyper"))]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::spawn;

/// Answers with as many bytes as it is asked for.
fn echo(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        let bytes = line.split(' ').next().unwrap().parse::<usize>().unwrap();
        stream.get_mut().write_all(&vec![0; bytes]).unwrap();
        line.clear();
    }
}

/// Answers a request of HTTP likewise.
fn http(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut bytes) = (String::new(), 0);
    while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        if let Some(path) = line.strip_prefix("GET /s") {
            bytes = path.split(' ').next().unwrap().parse::<usize>().unwrap();
        } else if line == "\r\n" {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            stream.get_mut().write_all(head.as_bytes()).unwrap();
            stream.get_mut().write_all(&vec![0; bytes]).unwrap();
        }
        line.clear();
    }
}

fn server(connection: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || listener.incoming().for_each(|stream| drop(spawn(move || connection(stream.unwrap())))));
    address
}

/// What it says when it is told so much, and whether it failed.
fn told(setting: &str, queries: usize) -> (Vec<String>, String, bool) {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join("fan_in");
    let mut client = Command::new(program);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = client.stdin.take().unwrap().write_all(format!("{setting}\n{}", "\n".repeat(queries)).as_bytes());
    let (mut said, mut error) = (String::new(), String::new());
    client.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    client.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    (said.lines().map(String::from).collect(), error, !client.wait().unwrap().success())
}

fn setting(server: &str, address: SocketAddr, policy: &str) -> String {
    format!(
        r#"{{"server": "{server}", "addresses": ["{address}", "{address}"], "sizes": [40000, 1000], "think_us": 1000,
        "policy": {policy}}}"#
    )
    .replace('\n', "")
}

#[test]
fn every_policy_asks_both_servers_and_says_how_long_each_took() {
    let policies = [
        r#"{"all": {}}"#,
        r#"{"semaphore": {"permits": 1}}"#,
        r#"{"tower": {"requests": 1}}"#,
        r#"{"clamp": {"window_bytes": 20000}}"#,
        r#"{"bytes": {"budget_bytes": 30000}}"#,
        r#"{"planned": {"rate_bps": 100000000, "buffer_bytes": 65536, "window_bytes": null}}"#,
        r#"{"told": {"rate_bps": 100000000, "buffer_bytes": 65536, "window_bytes": null}}"#,
        r#"{"think-learned": {"rate_bps": 100000000, "buffer_bytes": 65536, "window_bytes": null}}"#,
        r#"{"learned": {"window_bytes": 5792}}"#,
    ];
    for (name, connection) in [("echo", echo as fn(TcpStream)), ("http", http)] {
        let address = server(connection);
        for policy in policies {
            let (said, error, failed) = told(&setting(name, address, policy), 3);
            assert!(!failed, "{policy}: {error}");
            assert_eq!(said[0], "ready", "{policy}");
            for query in &said[1..4] {
                let words: Vec<_> = query.split(' ').collect();
                let seconds: Vec<f64> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
                assert_eq!((words[0], seconds.len()), ("query", 3), "{policy}");
                assert!(seconds[1..].iter().all(|&one| 0.0 < one && one <= seconds[0]), "{policy}: {query}");
            }
            assert_eq!(said[4].split(' ').count(), 3, "{policy}: {}", said[4]);
            // 70 % of the port.
            let budget = said.get(5).map(String::as_str);
            match policy {
                _ if policy.contains("rate_bps") => assert_eq!(budget, Some("budget 45871 0")),
                _ if policy.contains("bytes\": 30000") => assert_eq!(budget, Some("budget 30000 0")),
                _ => assert_eq!(budget.is_some(), policy.contains("learned"), "{policy}"),
            }
        }
    }
}

#[test]
fn what_goes_wrong_is_said() {
    let address = server(drop);
    let (said, error, failed) = told(&setting("echo", address, r#"{"all": {}}"#), 1);
    assert!(failed && said.is_empty() && error.starts_with("error: "), "{said:?} {error}");
    let (_, error, failed) = told(&setting("ftp", address, r#"{"all": {}}"#), 0);
    assert!(failed && error.contains("unknown variant `ftp`"), "{error}");
}
