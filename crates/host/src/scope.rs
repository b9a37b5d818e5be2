//! Whose connections are put under a sender, and whose incast marks are believed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// As many as `kernel/sockets.bpf.c` has room for.
pub(crate) const MOST_PREFIXES: usize = 32;

/// Peers, and a port of either end if there is one: `10.0.0.0/8`, `10.1.2.3`, `10.0.0.0/8:9000`, `[fd00::/8]:9000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    address: IpAddr,
    length: u8,
    port: Option<u16>,
}

impl Prefix {
    /// `struct prefix` of `kernel/sockets.bpf.c`: IPv4 is a part of IPv6 there.
    fn bytes(self) -> Vec<u8> {
        let (address, all) = match self.address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), 128 - 32),
            IpAddr::V6(address) => (address, 0),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length) - all).unwrap_or(0);
        let port = u32::from(self.port.unwrap_or(0));
        [&(address.to_bits() & mask).to_be_bytes()[..], &mask.to_be_bytes(), &port.to_ne_bytes()].concat()
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: an address, a length and a port, the last two if wanted, such as 10.0.0.0/8, \
                       10.0.0.0/8:9000 or [fd00::/8]:9000";
        let failed = |what: String| format!("{what}; {allowed}");
        let (prefix, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((prefix, "")) => (prefix, None),
            Some((prefix, rest)) => {
                (prefix, Some(rest.strip_prefix(':').ok_or_else(|| failed(format!("\"{rest}\" follows a bracket")))?))
            }
            // More than one colon is an address of IPv6.
            None => match text.split_once(':') {
                Some((prefix, port)) if !port.contains(':') => (prefix, Some(port)),
                _ => (text, None),
            },
        };
        let port = match port {
            None => None,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(failed(format!("the port is \"{port}\", and not 1 to 65535"))),
                Ok(port) => Some(port),
            },
        };
        let (address, length) = prefix.split_once('/').map_or((prefix, None), |(address, rest)| (address, Some(rest)));
        let address: IpAddr = address.parse().map_err(|_| failed(format!("\"{address}\" is no address")))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(length) => {
                let parsed = length.parse().ok().filter(|length| *length <= most);
                parsed.ok_or_else(|| failed(format!("the length is \"{length}\", and not 0 to {most}")))?
            }
        };
        Ok(Self { address, length, port })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (address, None) => write!(out, "{address}/{}", self.length),
            (IpAddr::V4(address), Some(port)) => write!(out, "{address}/{}:{port}", self.length),
            (IpAddr::V6(address), Some(port)) => write!(out, "[{address}/{}]:{port}", self.length),
        }
    }
}

/// `scope` of `kernel/sockets.bpf.c`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Whether incast marks are believed, and told of.
    pub(crate) believes: bool,
    /// Whether totals are counted, and connections may be moved.
    pub(crate) counts: bool,
    /// All connections, if there are none.
    pub(crate) prefixes: Vec<Prefix>,
}

impl Scope {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let head = [u32::from(self.believes), u32::from(self.counts), self.prefixes.len() as u32];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(self.prefixes.iter().flat_map(|prefix| prefix.bytes()));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mutated_prefixes_are_read_as_they_are_written_or_refused(
            text in prop_oneof![
                r"[0-9a-f:./\[\]]{0,24}",
                r"\[?(10\.1\.2\.3|fd00::1|::|1\.2\.3)(/[0-9]{1,4})?\]?(:[0-9]{1,6})?",
                ".{0,20}",
            ],
        ) {
            match text.parse::<Prefix>() {
                Ok(prefix) => {
                    prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
                    prop_assert_eq!(prefix.bytes().len(), 36);
                }
                Err(error) => prop_assert!(error.contains("; allowed: "), "{}", error),
            }
        }
    }

    #[test]
    fn a_prefix_is_written_as_it_is_read() {
        for text in ["10.0.0.0/8", "10.0.0.0/8:9000", "fd00::/8", "[fd00::/8]:9000", "0.0.0.0/0", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3".parse::<Prefix>().unwrap().to_string(), "10.1.2.3/32");
        assert_eq!("[::1]:80".parse::<Prefix>().unwrap().to_string(), "[::1/128]:80");
    }

    #[test]
    fn a_prefix_that_is_none_is_refused_by_its_part() {
        for (text, why) in [
            ("10.0.0.0/33", "the length is \"33\", and not 0 to 32"),
            ("fd00::/129", "the length is \"129\", and not 0 to 128"),
            ("10.0.0/8", "\"10.0.0\" is no address"),
            ("", "\"\" is no address"),
            ("10.0.0.0/8:0", "the port is \"0\""),
            ("10.0.0.0/8:http", "the port is \"http\""),
            ("[fd00::/8]9", "\"9\" follows a bracket"),
        ] {
            let error = text.parse::<Prefix>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// What the program in the kernel compares: bits of the address under the mask.
    #[test]
    fn the_kernels_form_has_ipv4_in_ipv6() {
        let of = |text: &str| text.parse::<Prefix>().unwrap().bytes();
        let bytes = of("10.1.2.3/8:258");
        assert_eq!(bytes[..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0]);
        assert_eq!(bytes[16..32], [[0xff; 13].as_slice(), &[0; 3]].concat());
        assert_eq!(bytes[32..], 258_u32.to_ne_bytes());
        assert_eq!(of("::/0"), [0; 36]);
        let all_of_ipv4 = of("0.0.0.0/0");
        assert_eq!((&all_of_ipv4[10..12], &all_of_ipv4[16..28]), (&[0xff; 2][..], &[0xff; 12][..]));
        assert_eq!(of("::1")[..32], [[0; 15].as_slice(), &[1], &[0xff; 16]].concat());
    }
}
