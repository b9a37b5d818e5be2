//! The tables `[tcp]`: a profile's keys, overlaid by those of the scenario, overlaid by those of the class. The keys
//! themselves are those of [`Tcp`].

use std::borrow::Cow;
use std::sync::LazyLock;

use incast_plan::{Handshake, Tcp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::node::read_table;

/// Profiles, the default first: name and file.
const PROFILES: [(&str, &str); 5] = [
    // The newest.
    ("linux", include_str!("../../profiles/linux-6.toml")),
    ("linux-6", include_str!("../../profiles/linux-6.toml")),
    ("linux-no-rack", include_str!("../../profiles/linux-no-rack.toml")),
    ("ns3", include_str!("../../profiles/ns3.toml")),
    ("paper", include_str!("../../profiles/paper.toml")),
];

/// What keys that need SACK are without it.
const WITHOUT_SACK: [(&str, &str); 4] =
    [("loss_detection", "\"duplicates\""), ("tail_loss_probe", "false"), ("dsack", "false"), ("undo", "false")];
/// What keys that need RACK are without it.
const WITHOUT_RACK: [(&str, &str); 1] = [("undo", "false")];
/// What keys that need DSACK are without it.
const WITHOUT_DSACK: [(&str, &str); 1] = [("undo", "false")];

/// A profile of TCP: a value for every key of the table `[tcp]`.
#[derive(Clone, Debug)]
pub struct TcpProfile {
    /// Name, as `tcp.profile` has it.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: String,
    /// All keys with their values, as a scenario would write them.
    pub settings: Vec<(String, &'static str)>,
    table: TcpTable,
}

/// All profiles; the first is the default.
#[must_use]
pub fn profiles() -> &'static [TcpProfile] {
    static READ: LazyLock<Vec<TcpProfile>> =
        LazyLock::new(|| PROFILES.iter().map(|(name, text)| TcpProfile::read(name, text)).collect());
    &READ
}

impl TcpProfile {
    fn read(name: &'static str, text: &'static str) -> Self {
        #[derive(Deserialize)]
        struct File {
            summary: String,
            tcp: TcpTable,
        }
        let file = toml_edit::Document::parse(text).expect("profiles are TOML, as a test shows");
        let keys = file["tcp"].as_table().into_iter().flat_map(toml_edit::Table::iter);
        let settings = keys.filter_map(|(key, item)| Some((key.to_owned(), &text[item.span()?]))).collect();
        let File { summary, tcp } = File::deserialize(&read_table(file.as_table())).expect("a test shows this too");
        Self { name, summary, settings, table: tcp }
    }

    /// The TCP that this profile stands for.
    ///
    /// # Panics
    /// Never for the profiles of this crate.
    #[must_use]
    pub fn tcp(&self) -> Tcp {
        let profile = TcpTable(Map::from_iter([("profile".to_owned(), self.name.into())]));
        TcpTable::resolve([None, Some(&profile)]).expect("profiles are whole, as a test shows").tcp
    }
}

/// The TCP of a table `[tcp]` with these keys, as JSON writes them.
///
/// # Errors
/// What is wrong with the first key that does not fit.
pub fn tcp_of(keys: &Map<String, Value>) -> Result<Tcp, String> {
    let tcp = TcpTable::resolve([None, Some(&TcpTable(keys.clone()))]).map_err(|error| error.to_string())?.tcp;
    let known = |key: &&String| *key == "profile" || profiles()[0].settings.iter().any(|(known, _)| known == *key);
    if let Some(unknown) = keys.keys().find(|key| !known(key)) {
        return Err(format!("the table tcp has no key \"{unknown}\""));
    }
    match tcp.unfit().first() {
        Some(unfit) => Err(format!("{}: {}; allowed: {}", unfit.key, unfit.found, unfit.allowed)),
        None => Ok(tcp),
    }
}

/// Keys of the table `[tcp]` as they are written.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct TcpTable(Map<String, Value>);

/// How TCP behaves: a profile, and the keys that differ from it.
///
/// Keys of a class override those of all traffic, and both override the profile. If both have a profile, the one of the
/// class counts.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Tcp", transform = make_optional)]
pub(crate) struct ResolvedTcp {
    /// Sets every key of this table at once. Default: "linux".
    #[schemars(extend("default" = PROFILES[0].0))]
    #[expect(dead_code, reason = "looked up before its keys are overlaid")]
    profile: Option<ProfileName>,
    /// Whether the handshake is part of a message's completion time. Default: "counted" for fresh connections, "before"
    /// for persistent ones.
    pub(crate) handshake: Option<Handshake>,
    #[serde(flatten)]
    pub(crate) tcp: Tcp,
}

impl TcpTable {
    /// The keys of all tables, each overriding those before it, and the profile's where there is none.
    pub(crate) fn resolve(tables: [Option<&Self>; 2]) -> Result<ResolvedTcp, serde_json::Error> {
        let written: Map<_, _> = tables.into_iter().flatten().flat_map(|table| table.0.clone()).collect();
        let name = written.get("profile").map_or(Some(PROFILES[0].0), Value::as_str);
        let profile = profiles().iter().find(|profile| Some(profile.name) == name);
        let mut keys = profile.map_or_else(Map::new, |profile| profile.table.0.clone());
        let chosen: Vec<String> = written.keys().cloned().collect();
        keys.extend(written);
        let sack = keys.get("sack") == Some(&Value::Bool(true));
        // What works with another key only goes with it, where a profile has chosen it.
        let without = |keys: &mut Map<String, Value>, others: &[(&str, &str)]| {
            for (key, value) in others {
                if !chosen.iter().any(|chosen| chosen == key) {
                    keys.insert((*key).into(), serde_json::from_str(value)?);
                }
            }
            Ok(())
        };
        // Without SACK, Linux keeps its rate reduction, and the bunches of segments that it sends.
        let reduces = keys.get("partial_ack").is_some_and(|key| key == "waits");
        if !sack {
            without(&mut keys, &WITHOUT_SACK)?;
            if !reduces {
                without(&mut keys, &[("recovery", "\"rfc\"")])?;
            }
        }
        if keys.get("loss_detection").is_some_and(|key| key == "duplicates") {
            without(&mut keys, &WITHOUT_RACK)?;
            if sack || !reduces {
                without(&mut keys, &[("tso_divisor", "0")])?;
            }
        }
        if keys.get("dsack") == Some(&Value::Bool(false)) {
            without(&mut keys, &WITHOUT_DSACK)?;
        }
        // SACK or rate reduction tell what has left the network; without them, duplicate ACKs have to.
        let inflates = !sack && keys.get("recovery").is_none_or(|key| key != "prr");
        keys.insert("inflate_in_recovery".into(), inflates.into());
        ResolvedTcp::deserialize(Value::Object(keys))
    }
}

impl JsonSchema for TcpTable {
    fn schema_name() -> Cow<'static, str> {
        ResolvedTcp::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ResolvedTcp::json_schema(generator)
    }
}

/// What is not written comes from the profile.
fn make_optional(schema: &mut Schema) {
    schema.remove("required");
    schema.insert("additionalProperties".into(), false.into());
}

/// The name of a profile.
#[derive(Deserialize)]
struct ProfileName(#[expect(dead_code, reason = "looked up before its keys are overlaid")] String);

impl JsonSchema for ProfileName {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = profiles()
            .iter()
            .map(|profile| json_schema!({ "type": "string", "const": profile.name, "description": profile.summary }));
        json_schema!({ "description": "A value for every key of `[tcp]`.", "oneOf": names.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incast_plan::{LossDetection, Reduction};
    use incast_protocols::Bytes;

    fn resolved(all: &str, class: &str) -> Tcp {
        let table = |text: &str| {
            TcpTable::deserialize(&read_table(toml_edit::Document::parse(text).unwrap().as_table())).unwrap()
        };
        TcpTable::resolve([Some(&table(all)), Some(&table(class))]).unwrap().tcp
    }

    fn profile(name: &str) -> Tcp {
        profiles().iter().find(|profile| profile.name == name).unwrap().tcp()
    }

    /// What needs SACK or RACK goes with it, unless the scenario has chosen otherwise, which is refused.
    #[test]
    fn without_sack_or_rack_what_needs_them_is_off() {
        let none = resolved("", "sack = false");
        assert!(!none.tail_loss_probe && !none.dsack && none.frto && !none.undo);
        assert_eq!((none.loss_detection, none.unfit()), (LossDetection::Duplicates, vec![]));
        let no_rack = resolved("", "loss_detection = \"duplicates\"");
        assert!(no_rack.tail_loss_probe && no_rack.dsack && no_rack.frto && !no_rack.undo);
        assert!(!resolved("", "dsack = false").undo);
        let refused = |text| resolved("", text).unfit().iter().map(|unfit| unfit.key).collect::<Vec<_>>();
        assert_eq!(refused("sack = false\ntail_loss_probe = true"), ["tail_loss_probe"]);
        assert_eq!(refused("sack = false\nloss_detection = \"rack\""), ["loss_detection"]);
        assert_eq!(refused("loss_detection = \"duplicates\"\nundo = true"), ["undo"]);
        let untimed = "loss_detection = \"duplicates\"\nrtt_samples = \"one-per-round\"\ntso_divisor = 0\n";
        assert_eq!(refused(untimed), ["frto"]);
        assert_eq!(refused("dsack = false\nundo = true"), ["undo"]);
        assert_eq!(refused("timer_tick = \"2s\""), ["timer_tick"]);
    }

    /// Nothing but the schema's keys, and all of them: over another profile, a profile's settings are that profile.
    #[test]
    fn a_profile_sets_every_key_of_the_table_and_no_other() {
        let schema = crate::schema::own();
        let schema = schema.pointer("/definitions/Tcp/properties").unwrap().as_object().unwrap();
        let mut known: Vec<&str> = schema.keys().map(String::as_str).collect();
        known.retain(|key| !["handshake", "profile"].contains(key));
        for profile in profiles() {
            let mut keys: Vec<&str> = profile.settings.iter().map(|(key, _)| key.as_str()).collect();
            keys.sort_unstable();
            assert_eq!(keys, known, "{}", profile.name);
            assert_eq!(profile.tcp().unfit(), [], "{}", profile.name);
            let settings: Vec<_> = profile.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            for other in profiles() {
                let text = format!("profile = \"{}\"\n{}", other.name, settings.join("\n"));
                assert_eq!(resolved("", &text), profile.tcp());
            }
        }
    }

    #[test]
    fn a_written_key_beats_the_profile_and_that_of_the_class_beats_all() {
        let linux = profile("linux-no-rack");
        assert_eq!(resolved("", ""), profiles()[0].tcp(), "the first is the default");
        assert_eq!(profile("linux"), profile("linux-6"));
        let tcp = resolved("initial_window = 5\nsack = false", "profile = \"linux-no-rack\"\ninitial_window = 3");
        let mut rules = linux.rules;
        rules.inflate_in_recovery = true;
        let (initial_window_segments, reduction) = (3, Reduction::Immediate);
        assert_eq!(tcp, Tcp { initial_window_segments, sack: false, reduction, rules, ..linux });
        assert_eq!(resolved("profile = \"paper\"", "profile = \"ns3\""), profile("ns3"));
    }

    #[test]
    fn the_profile_of_the_papers_is_tcp_of_the_rfcs_with_an_initial_window_of_one() {
        assert_eq!(profile("paper"), Tcp { initial_window_segments: 1, ..Tcp::default() });
    }

    #[test]
    fn full_packets_of_linux_fill_an_ethernet_mtu() {
        let tcp = profiles()[0].tcp();
        assert_eq!(tcp.mss + tcp.header, Bytes(1500));
    }
}
