//! What `incast-host attach` is asked for: one line of JSON.

use std::path::PathBuf;

use incast_bpf::{EinParameters, SENDERS, SenderParameters};
use incast_protocols::Rate;
use incast_protocols::sender::SenderChoice;
use incast_protocols::switch::marker::ein;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::receivers::Receiver;

/// The whole request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// A cgroup (version 2) whose sockets count and echo incast marks; none if nobody does.
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) senders: Vec<Sender>,
    pub(crate) ports: Vec<Port>,
    /// At most one, for all sockets of the cgroup.
    pub(crate) receivers: Vec<Receiver>,
    /// Network namespaces whose drops, marks, retransmissions, probes, timeouts and recoveries are wanted, one by one.
    #[serde(default)]
    pub(crate) events: Vec<PathBuf>,
    /// Ports of them whose packets are followed.
    #[serde(default)]
    pub(crate) followed: Vec<Followed>,
}

/// A device at which each packet that comes and leaves is told of: one end of a veth pair, and the other end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Followed {
    pub(crate) netns: PathBuf,
    pub(crate) device: String,
    pub(crate) peer_netns: PathBuf,
    pub(crate) peer_device: String,
}

/// A congestion control to register.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sender {
    pub(crate) algorithm: String,
    /// What sockets name it by.
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) parameters: Map<String, Value>,
}

/// An output port: one end of a veth pair with a queueing discipline, and the other end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    pub(crate) netns: PathBuf,
    pub(crate) device: String,
    pub(crate) peer_netns: PathBuf,
    pub(crate) peer_device: String,
    rate_bps: u64,
    /// CE is set on packets that find at least so much.
    pub(crate) ce_threshold_bytes: Option<u64>,
    /// Parameters of the marker "ein", for incast marks.
    ein: Option<Map<String, Value>>,
}

impl Request {
    /// Reads a request and checks what can be checked without the kernel.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let request: Self = serde_json::from_str(line).map_err(|error| format!("the request: {error}"))?;
        if request.receivers.len() > 1 {
            return Err("receivers has several entries; allowed: one, which sets all windows of the cgroup".into());
        }
        if let Some(receiver) = request.receivers.first() {
            receiver.parameters().map_err(|error| format!("receivers[0].{error}"))?;
            request
                .cgroup
                .as_ref()
                .ok_or("cgroup is null; allowed: a directory, since receivers[0] sets its windows")?;
        }
        if request.events.is_empty() && !request.followed.is_empty() {
            return Err("events is empty; allowed: the namespaces of all devices in followed".into());
        }
        for (index, sender) in request.senders.iter().enumerate() {
            let key = |key: &str| format!("senders[{index}].{key}");
            let named = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if sender.name.is_empty() || sender.name.len() > 15 || !named(&sender.name) {
                let (key, found) = (key("name"), &sender.name);
                return Err(format!("{key} is {found:?}; allowed: 1 to 15 letters, digits and underscores"));
            }
            if request.senders[..index].iter().any(|other| other.name == sender.name) {
                let (key, found) = (key("name"), &sender.name);
                return Err(format!("{key} is {found:?}, as another's; allowed: a name for each"));
            }
            sender.parameters().map_err(|error| key(&error))?;
        }
        for (index, port) in request.ports.iter().enumerate() {
            port.ein().map_err(|error| format!("ports[{index}].{error}"))?;
        }
        Ok(request)
    }
}

impl Sender {
    /// One whose parameters have been checked.
    pub(crate) fn new(algorithm: &str, name: String, parameters: Map<String, Value>) -> Result<Self, String> {
        let sender = Self { algorithm: algorithm.to_owned(), name, parameters };
        sender.parameters().map(|_| sender)
    }

    /// The parameters for the kernel.
    pub(crate) fn parameters(&self) -> Result<SenderParameters, String> {
        if !SENDERS.contains(&self.algorithm.as_str()) {
            return Err(format!("algorithm is {:?}; allowed: {}", self.algorithm, SENDERS.join(", ")));
        }
        let mut keys = self.parameters.clone();
        if keys.insert("name".into(), self.algorithm.clone().into()).is_some() {
            return Err("parameters.name is no parameter".into());
        }
        let choice = SenderChoice::deserialize(Value::Object(keys)).map_err(|error| format!("parameters: {error}"))?;
        SenderParameters::of(&choice).map_err(|error| format!("parameters.{error}"))
    }
}

impl Port {
    /// The detector's parameters, where the port has one. Without a threshold of its own the high-water mark is a multiple
    /// of that for CE.
    pub(crate) fn ein(&self) -> Result<Option<EinParameters>, String> {
        let Some(keys) = &self.ein else { return Ok(None) };
        detector(keys.clone(), self.ce_threshold_bytes, self.rate_bps).map(Some)
    }
}

/// The detector's parameters out of a marker's.
pub(crate) fn detector(
    mut keys: Map<String, Value>,
    ce_threshold_bytes: Option<u64>,
    rate_bps: u64,
) -> Result<EinParameters, String> {
    if let Some(bytes) = ce_threshold_bytes {
        keys.entry("ecn").or_insert_with(|| serde_json::json!({ "threshold": format!("{bytes}B") }));
    }
    let config = ein::Config::deserialize(Value::Object(keys)).map_err(|error| format!("ein: {error}"))?;
    EinParameters::of(&config, Rate(rate_bps)).map_err(|error| format!("ein.{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::{is_a_message, mutated_text};
    use proptest::prelude::*;
    use serde_json::json;

    fn requests() -> Vec<Value> {
        let sender = |algorithm: &str| json!({ "algorithm": algorithm, "name": "s", "parameters": {} });
        let all: Vec<Value> =
            SENDERS.iter().zip('a'..).map(|(name, c)| json!({ "algorithm": name, "name": c.to_string() })).collect();
        let port = json!({
            "netns": "a", "device": "p0", "peer_netns": "b", "peer_device": "eth0", "rate_bps": 100_000_000,
            "ce_threshold_bytes": 30_000, "ein": { "samples": 20, "growth": 0.25, "high_water": 2.0 },
        });
        let receiver = json!({
            "algorithm": "ictcp", "parameters": {}, "mss_bytes": 1448, "header_bytes": 66,
            "hosts": [{ "netns": "a", "rate_bps": 1_000_000_000 }, { "netns": "b", "rate_bps": 1_000_000 }],
        });
        let swift = json!({ "algorithm": "swift", "name": "w", "parameters": { "base_target": "50us", "beta": 0.8 } });
        let one = |senders: Value, ports: Value, receivers: Value| json!({ "cgroup": "/c", "senders": senders, "ports": ports, "receivers": receivers, "events": ["n"], "followed": [{ "netns": "n", "device": "p0", "peer_netns": "m", "peer_device": "p1" }] });
        vec![
            one(json!(all), json!([]), json!([])),
            one(json!([sender("dctcp"), swift]), json!([port, port]), json!([receiver])),
            one(json!([]), json!([port]), json!([])),
        ]
    }

    #[test]
    fn requests_before_their_mutation_are_valid() {
        for request in requests() {
            if let Err(error) = Request::parse(&request.to_string()) {
                panic!("{request}: {error}");
            }
        }
    }

    proptest! {
        /// Whatever comes, the answer is parameters for the kernel or a sentence.
        #[test]
        fn a_mutated_request_is_understood_or_refused_with_a_message(text in mutated_text(requests())) {
            match Request::parse(&text) {
                Ok(request) => {
                    for sender in &request.senders {
                        prop_assert!(!sender.parameters().unwrap().bytes().is_empty());
                    }
                    for port in &request.ports {
                        prop_assert!(port.ein().is_ok());
                    }
                    for receiver in &request.receivers {
                        prop_assert!(receiver.parameters().is_ok());
                    }
                }
                Err(error) => prop_assert!(is_a_message(&error), "{error:?}"),
            }
        }
    }

    fn request(senders: &str, ports: &str) -> Result<Request, String> {
        let line = format!(r#"{{"cgroup": null, "senders": [{senders}], "ports": [{ports}], "receivers": []}}"#);
        Request::parse(&line)
    }

    fn port(keys: &str) -> String {
        format!(
            r#"{{"netns": "a", "device": "p0", "peer_netns": "b", "peer_device": "eth0", "rate_bps": 100000000, {keys}}}"#
        )
    }

    #[test]
    fn keys_that_are_left_out_have_the_simulators_defaults() {
        let asked = request(r#"{"algorithm": "dctcp", "name": "d1", "parameters": {"shift": 5}}"#, "").unwrap();
        let SenderParameters::Window(parameters) = asked.senders[0].parameters().unwrap() else {
            panic!("it has a window");
        };
        assert_eq!((parameters.initial_alpha, parameters.shift), (1024, 5));
        let asked = request("", &port(r#""ce_threshold_bytes": 30000, "ein": {"samples": 20}"#)).unwrap();
        let ein = asked.ports[0].ein().unwrap().unwrap();
        assert_eq!((ein.samples, ein.growth_kbps, ein.high_water), (20, 25_000, 30_000));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let sender = |text: &str| request(text, "").unwrap_err();
        let shift = sender(r#"{"algorithm": "dctcp", "name": "d", "parameters": {"shift": 0}}"#);
        assert_eq!(shift, "senders[0].parameters.shift is 0; allowed: 1 to 10");
        let hpcc = sender(r#"{"algorithm": "hpcc", "name": "h"}"#);
        assert_eq!(hpcc, "senders[0].algorithm is \"hpcc\"; allowed: dctcp, d2tcp, mrg, dcmrg, pulser, rdtcp, swift");
        let key = sender(r#"{"algorithm": "dctcp", "name": "d", "parameters": {"shif": 4}}"#);
        assert!(key.starts_with("senders[0].parameters: unknown field `shif`"), "{key}");
        let long = sender(r#"{"algorithm": "dctcp", "name": "a_name_too_long_"}"#);
        assert!(long.contains("allowed: 1 to 15"), "{long}");
        let twice = sender(r#"{"algorithm": "dctcp", "name": "d"}, {"algorithm": "mrg", "name": "d"}"#);
        assert_eq!(twice, "senders[1].name is \"d\", as another's; allowed: a name for each");
        let samples = request("", &port(r#""ein": {"samples": 0}"#)).unwrap_err();
        assert_eq!(samples, "ports[0].ein.samples is 0; allowed: 1 to 65536");
        let ictcp =
            r#"{"algorithm": "ictcp", "mss_bytes": 1448, "header_bytes": 66, "hosts": [{"rate_bps": 1000000}]}"#;
        let receivers = |list: &str| {
            Request::parse(&format!(r#"{{"cgroup": null, "senders": [], "ports": [], "receivers": [{list}]}}"#))
                .unwrap_err()
        };
        let followed = r#"{"cgroup": null, "senders": [], "ports": [], "receivers": [], "followed": [{"netns": "a", "device": "b", "peer_netns": "c", "peer_device": "d"}]}"#;
        assert!(Request::parse(followed).unwrap_err().starts_with("events is empty"));
        assert!(receivers(ictcp).starts_with("cgroup is null; allowed: a directory"));
        assert!(receivers(&format!("{ictcp}, {ictcp}")).starts_with("receivers has several entries; allowed: one"));
        assert!(receivers(&ictcp.replace("ictcp", "dctcp")).starts_with("receivers[0].algorithm is \"dctcp\""));
    }
}
