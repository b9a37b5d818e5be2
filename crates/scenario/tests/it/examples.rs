//! The scenarios that come with the program: users learn from them, so they must work.

use incast_scenario::{EXAMPLES, Override, Scenario, example};

#[test]
fn every_example_is_read_and_planned_without_a_warning() {
    for (name, text) in EXAMPLES {
        let scenario = Scenario::parse(text, &format!("{name}.toml"), &[]).unwrap_or_else(|report| panic!("{report}"));
        let plan = scenario.plan(None).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(plan.validate(), Ok(()), "{name}");
        assert!(!plan.sends.is_empty() || !plan.aggregators.is_empty(), "{name}");
        // The benchmark has hosts without noise, since the simulators that it is compared with have no other.
        let ties = usize::from(*name == "leaf-spine");
        assert_eq!(plan.warnings.len(), ties, "{name}: {:?}", plan.warnings);
        assert!(plan.warnings.iter().all(|warning| warning.contains("hosts.noise")), "{name}: {:?}", plan.warnings);
    }
}

#[test]
fn every_example_in_the_folder_is_built_in() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    files.sort_unstable();
    let mut names: Vec<&str> = EXAMPLES.iter().map(|example| example.0).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}

/// What the comments of `incast.toml` tell people to try.
#[test]
fn what_the_first_example_proposes_to_try_works() {
    for one in ["traffic.requests.workers=40", "stack.sender=dctcp", "tcp.rto_min=10ms", "traffic.requests.workers=100"]
    {
        let overrides = [Override::parse(one).unwrap()];
        let scenario = Scenario::parse(example("incast").unwrap(), "incast.toml", &overrides);
        scenario.unwrap_or_else(|report| panic!("{report}")).plan(None).unwrap();
    }
}

/// The work of the benchmark, counted.
#[test]
fn the_leaf_spine_example_is_the_benchmark() {
    let plan = Scenario::parse(example("leaf-spine").unwrap(), "leaf-spine.toml", &[]).unwrap().plan(None).unwrap();
    assert_eq!((plan.network.hosts, plan.network.switches.len()), (400, 30));
    assert_eq!(plan.network.links.len(), 2 * (400 + 20 * 10));
    assert_eq!((plan.sends.len(), plan.connections.len()), (20_000, 20_000));
    let sizes: Vec<u64> = plan.sends.iter().map(|send| send.size().unwrap().0).collect();
    let long = sizes.iter().filter(|&&size| size == 1 << 20).count();
    assert!(sizes.iter().all(|&size| size == 1 << 20 || (8192..=32_768).contains(&size)));
    // 7.246 % of 20,000 are 1449, standard deviation 37.
    assert!(long.abs_diff(1449) < 120, "{long}");
    // 0.6 of 2 Tbit/s, with a mean of 94,975 bytes, are 1.579 million messages per second.
    let (first, last) = (plan.sends[0].start, plan.sends[19_999].start);
    assert!(first.0 > 1_000_000_000, "{first}");
    let rate = 20_000.0 / (last.as_secs_f64() - 1e-3);
    assert!((rate / 1.5793e6 - 1.0).abs() < 0.03, "{rate}");
    let local = plan.connections.iter().filter(|one| one.client / 20 == one.server / 20).count();
    // 19 of 399 destinations are in the rack: 952, standard deviation 30.
    assert!(local.abs_diff(952) < 100, "{local}");
    assert!(plan.connections.iter().all(|one| one.client != one.server && one.close_when_done));
}
