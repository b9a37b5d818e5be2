//! How a process that has enabled something and the commands find each other: a UNIX socket for each such process, in
//! a directory that only its owner writes. One line of JSON asks, one answers, and descriptors may go with either.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};

/// More than any message has.
const MOST_DESCRIPTORS: usize = 32;
/// Who asks and says nothing, or is asked and does not answer, is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the sockets are.
pub(crate) fn directory() -> PathBuf {
    std::env::var_os("INCAST_HOST_RUN").map_or_else(|| "/run/incast".into(), PathBuf::from)
}

/// The socket of this process, which goes with this.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
}

impl Listening {
    pub(crate) fn open() -> Result<Self, String> {
        let directory = directory();
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&directory)
            .map_err(|error| failed(&directory, error) + " (INCAST_HOST_RUN names another directory)")?;
        let path = directory.join(format!("{}.sock", std::process::id()));
        // An earlier process had the same number.
        let _ = fs::remove_file(&path);
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&path);
        rustix::process::umask(before);
        Ok(Self { listener: listener.map_err(|error| failed(&path, error))?, path })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// One line of JSON and what came with it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) value: Value,
    pub(crate) descriptors: Vec<OwnedFd>,
}

pub(crate) fn send(mut stream: &UnixStream, value: &Value, descriptors: &[BorrowedFd]) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = format!("{value}\n");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(line.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    stream.write_all(&line.as_bytes()[sent..])
}

pub(crate) fn receive(stream: &UnixStream) -> io::Result<Message> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut line, mut descriptors, mut part) = (vec![], vec![], vec![0; 1 << 16]);
    while line.last() != Some(&b'\n') {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut part)];
        let received = rustix::net::recvmsg(stream, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end has closed the connection"));
        }
        line.extend_from_slice(&part[..received.bytes]);
    }
    Ok(Message { value: serde_json::from_slice(&line)?, descriptors })
}

/// A process that has enabled something.
#[derive(Debug)]
pub(crate) struct Peer {
    process: u32,
    path: PathBuf,
}

impl Peer {
    /// Asks it; an answer `{"error": ...}` is an error.
    pub(crate) fn ask(&self, value: &Value, descriptors: &[BorrowedFd]) -> Result<Message, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.path.display());
        let stream = UnixStream::connect(&self.path).map_err(failed)?;
        send(&stream, value, descriptors).map_err(failed)?;
        let answer = receive(&stream).map_err(failed)?;
        match answer.value.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }

    /// Has it end, and waits until it has.
    pub(crate) fn end(&self) -> Result<String, String> {
        const LONGEST: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
        let failed = |error: rustix::io::Errno| format!("process {}: {error}", self.process);
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        let process = process.ok_or(format!("{} is not a process number", self.process))?;
        let process = pidfd_open(process, PidfdFlags::empty()).map_err(failed)?;
        let answer = self.ask(&json!({ "ask": "disable" }), &[])?;
        if poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&LONGEST)).map_err(failed)? == 0 {
            return Err(format!("process {} has not ended after 10 s", self.process));
        }
        Ok(answer.value["disabled"].as_str().unwrap_or_default().to_owned())
    }
}

/// All such processes, by number. What one that was killed has left of its socket is removed.
pub(crate) fn peers() -> Result<Vec<Peer>, String> {
    let directory = directory();
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(|error| failed(&directory, error))?,
    };
    let mut found = vec![];
    for entry in entries {
        let path = entry.map_err(|error| failed(&directory, error))?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u32>().ok());
        let (Some(number), Some("sock")) = (number, path.extension().and_then(|end| end.to_str())) else { continue };
        match UnixStream::connect(&path) {
            Ok(_) => found.push(Peer { process: number, path }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(|error| failed(&path, error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    found.sort_by_key(|peer| peer.process);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::mutated_text;
    use proptest::prelude::*;
    use std::os::fd::AsFd as _;

    proptest! {
        /// Of any bytes and of JSON that is nearly right.
        #[test]
        fn mutated_messages_arrive_or_are_refused(
            line in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                mutated_text(vec![json!({ "ask": "switch", "sender": { "algorithm": "dctcp" }, "list": [1, "a\nb"] })])
                    .prop_map(String::into_bytes),
            ],
        ) {
            let (mut here, there) = UnixStream::pair().unwrap();
            here.write_all(&line).unwrap();
            drop(here);
            match receive(&there) {
                Ok(message) => prop_assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), message.value),
                Err(error) => {
                    let cut = line.last() != Some(&b'\n');
                    let broken = error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::UnexpectedEof;
                    prop_assert!(cut || broken, "{error}");
                }
            }
        }

        #[test]
        fn mutated_values_arrive_as_they_are(
            value in crate::mutations::mutated(vec![json!({ "ask": "status", "of": [1, 2.5, null, { "a": "b" }] })]),
        ) {
            let (here, there) = UnixStream::pair().unwrap();
            send(&here, &value, &[]).unwrap();
            prop_assert_eq!(receive(&there).unwrap().value, value);
        }
    }

    #[test]
    fn a_message_of_any_length_arrives_with_its_descriptors() {
        let (here, there) = UnixStream::pair().unwrap();
        let long: Value = (0..100_000).collect();
        let file = fs::File::open("/proc/self/status").unwrap();
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| send(&here, &long, &[file.as_fd(), here.as_fd()]).unwrap());
            receive(&there).unwrap()
        });
        assert_eq!((sent.value, sent.descriptors.len()), (long, 2));
        drop((here, sent.descriptors));
        assert_eq!(receive(&there).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
