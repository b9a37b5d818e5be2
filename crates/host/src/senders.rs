//! Registering a sender with the kernel, under a name that sockets choose it by.

use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};

use incast_bpf::SenderParameters;
use incast_protocols::sender::{SenderChoice, pulser, swift};
use libbpf_rs::{Link, Object, OpenObject};

use crate::kernel;
use crate::request::Sender;

pub(crate) const SENDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sender.bpf.o"));
pub(crate) const SWIFT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/swift.bpf.o"));

/// Maps of `sockets.bpf.c` that senders read and write too.
pub(crate) const SHARED: [&str; 2] = ["sockets", "counters"];

/// The name in `sender.bpf.c`, which is replaced.
const PLACEHOLDER: &[u8; 16] = b"incast_unnamed\0\0";
const NON_RESTRICTED: u32 = 1;
const NEEDS_ECN: u32 = 2;

/// A name of a congestion control or a device as the kernel has it.
pub(crate) fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

/// Makes the parameters constants of an object that is not loaded yet.
fn set_parameters(open: &mut OpenObject, parameters: &SenderParameters) -> Result<(), String> {
    kernel::initialise(open, ".rodata.chosen", None, &parameters.bytes())
}

/// The program that has an algorithm.
const fn program(parameters: &SenderParameters) -> &'static [u8] {
    match parameters {
        SenderParameters::Window(_) => SENDER,
        SenderParameters::Swift(_) => SWIFT,
    }
}

/// The same with the defaults of one sender of a program, to see whether the kernel takes any.
pub(crate) fn set_default_parameters(open: &mut OpenObject, is_swift: bool) -> Result<(), String> {
    let choice = if is_swift {
        SenderChoice::Swift(swift::Config::default())
    } else {
        SenderChoice::Pulser(pulser::Config::default())
    };
    set_parameters(open, &SenderParameters::of(&choice)?)
}

/// Registers a sender that shares the maps with the programs at sockets.
pub(crate) fn register(sender: &Sender, shared: &[(&str, BorrowedFd)]) -> Result<(Object, Link), String> {
    let parameters = sender.parameters()?;
    let mut open = kernel::open(&sender.name, program(&parameters))?;
    set_parameters(&mut open, &parameters)?;
    let flags = NON_RESTRICTED | if parameters.ecn_capable() { NEEDS_ECN } else { 0 };
    let named = [&padded(&sender.name)[..], &flags.to_ne_bytes()].concat();
    kernel::initialise(&mut open, "incast_sender", Some(PLACEHOLDER), &named)?;
    let mut object = kernel::load(&sender.name, open, shared)?;
    let link = kernel::register(&mut object, &sender.name)?;
    Ok((object, link))
}

/// A registered sender, held by descriptors: this process may have got it from another.
#[derive(Debug)]
pub(crate) struct Registered {
    /// Which algorithm, and the name that sockets have.
    pub(crate) algorithm: String,
    pub(crate) name: String,
    pub(crate) needs_ecn: bool,
    /// It is registered as long as this is open.
    pub(crate) link: OwnedFd,
}

impl Registered {
    /// Registers a sender under a name that is free, whatever its own.
    pub(crate) fn new(mut sender: Sender, shared: &[(&str, BorrowedFd)]) -> Result<Self, String> {
        loop {
            sender.name = free_name(&sender.algorithm)?;
            let link = match register(&sender, shared) {
                Ok((_, link)) => kernel::descriptor(&link)?,
                // Somebody else was quicker.
                Err(_) if free_name(&sender.algorithm)? != sender.name => continue,
                Err(error) => return Err(error),
            };
            let needs_ecn = sender.parameters()?.ecn_capable();
            return Ok(Self { algorithm: sender.algorithm, name: sender.name, needs_ecn, link });
        }
    }
}

/// A name for an algorithm that the kernel has none of yet, since others may have enabled the same.
fn free_name(algorithm: &str) -> Result<String, String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let taken = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    first_free(algorithm, &taken).ok_or(format!("all names for \"{algorithm}\" are taken: {}", taken.trim()))
}

fn first_free(algorithm: &str, taken: &str) -> Option<String> {
    let plain = format!("incast_{algorithm}");
    let numbered = (2..=9).map(|number| format!("{plain}_{number}"));
    std::iter::once(plain.clone()).chain(numbered).find(|name| taken.split_whitespace().all(|other| other != name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_first_that_are_free_and_fit_into_the_kernels() {
        assert_eq!(first_free("dctcp", "reno cubic\n").unwrap(), "incast_dctcp");
        assert_eq!(first_free("dctcp", "reno incast_dctcp incast_dctcp_3\n").unwrap(), "incast_dctcp_2");
        for algorithm in incast_bpf::SENDERS {
            let all: String =
                (0..9).fold(String::new(), |taken, _| format!("{taken} {}", first_free(algorithm, &taken).unwrap()));
            assert!(all.split_whitespace().all(|name| name.len() <= 15), "{all}");
            assert_eq!(first_free(algorithm, &all), None);
        }
    }
}
