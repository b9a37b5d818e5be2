//! What a scenario can choose from besides the registered parts: published distributions of flow
//! sizes and kinds of topology.

use crate::cdf::{Cdf, SizeUnit};

/// How sizes between the points of a table are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// Uniform between two points. The other reading (always the upper point) gives means that are up to
    /// 80 % larger.
    Linear,
}

/// A published distribution of flow sizes. Different tables circulate under one name, so these are
/// named by their lineage.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// As a scenario names it.
    pub name: &'static str,
    /// What was measured, and whose table of it this is.
    pub lineage: &'static str,
    /// What its sizes count.
    pub unit: SizeUnit,
    /// How sizes between the points are meant.
    pub interpolation: Interpolation,
    /// (size in `unit`, share of flows that are no larger).
    pub points: &'static [(f64, f64)],
}

impl Workload {
    /// Mean size under the interpolation rule; loads are computed from it.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.cdf().mean_bytes()
    }

    /// The distribution.
    ///
    /// # Panics
    /// Never for the tables of this module.
    #[must_use]
    pub fn cdf(&self) -> Cdf {
        Cdf::new(self.points, self.unit).expect("the built-in tables are distributions, as a test shows")
    }
}

/// Packets of the ns-2 lineage.
const PACKETS: SizeUnit = SizeUnit::Packets { payload_bytes: 1460 };

/// The built-in distributions of flow sizes.
#[must_use]
pub const fn workloads() -> &'static [Workload] {
    WORKLOADS
}

/// The built-in distribution of this name.
#[must_use]
pub fn workload(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "websearch-dctcp",
        lineage: "web search cluster of the DCTCP paper, in the table of HKUST's traffic generator, also used with HPCC",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (0.0, 0.0),
            (10_000.0, 0.15),
            (20_000.0, 0.20),
            (30_000.0, 0.30),
            (50_000.0, 0.40),
            (80_000.0, 0.53),
            (200_000.0, 0.60),
            (1_000_000.0, 0.70),
            (2_000_000.0, 0.80),
            (5_000_000.0, 0.90),
            (10_000_000.0, 0.97),
            (30_000_000.0, 1.0),
        ],
    },
    Workload {
        name: "websearch-pfabric",
        lineage: "web search cluster of the DCTCP paper, in packets, as the ns-2 scripts of pFabric and PIAS have it",
        unit: PACKETS,
        interpolation: Interpolation::Linear,
        points: &[
            (6.0, 0.0),
            (6.0, 0.15),
            (13.0, 0.2),
            (19.0, 0.3),
            (33.0, 0.4),
            (53.0, 0.53),
            (133.0, 0.6),
            (667.0, 0.7),
            (1333.0, 0.8),
            (3333.0, 0.9),
            (6667.0, 0.97),
            (20_000.0, 1.0),
        ],
    },
    Workload {
        name: "datamining-hkust",
        lineage: "data mining cluster of the VL2 paper, in the table of HKUST's traffic generator, also used with MQ-ECN",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (0.0, 0.0),
            (180.0, 0.1),
            (216.0, 0.2),
            (560.0, 0.3),
            (900.0, 0.4),
            (1100.0, 0.5),
            (1870.0, 0.6),
            (3160.0, 0.7),
            (10_000.0, 0.8),
            (400_000.0, 0.9),
            (3_160_000.0, 0.95),
            (100_000_000.0, 0.98),
            (1_000_000_000.0, 1.0),
        ],
    },
    Workload {
        name: "datamining-pfabric",
        lineage: "data mining cluster of the VL2 paper, in packets, as the ns-2 scripts of pFabric and PIAS have it",
        unit: PACKETS,
        interpolation: Interpolation::Linear,
        points: &[
            (1.0, 0.0),
            (1.0, 0.5),
            (2.0, 0.6),
            (3.0, 0.7),
            (7.0, 0.8),
            (267.0, 0.9),
            (2107.0, 0.95),
            (66_667.0, 0.99),
            (666_667.0, 1.0),
        ],
    },
    Workload {
        name: "datamining-opera",
        lineage: "data mining cluster of the VL2 paper, in the table of the Opera simulator and ns3-datacenter",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (100.0, 0.0),
            (180.0, 0.085),
            (250.0, 0.14),
            (560.0, 0.33),
            (900.0, 0.47),
            (1100.0, 0.55),
            (1870.0, 0.65),
            (3160.0, 0.7),
            (10_000.0, 0.8),
            (100_001.0, 0.874),
            (400_000.0, 0.9),
            (1_850_000.0, 0.95),
            (10_000_000.0, 0.97),
            (30_000_000.0, 0.98),
            (100_000_000.0, 0.99),
            (250_000_000.0, 0.995),
            (1_000_000_000.0, 1.0),
        ],
    },
    Workload {
        name: "hadoop-hpcc",
        lineage: "Hadoop cluster at Facebook, in the table of the HPCC simulator",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (0.0, 0.0),
            (100.0, 0.01),
            (200.0, 0.02),
            (300.0, 0.05),
            (350.0, 0.15),
            (400.0, 0.20),
            (500.0, 0.30),
            (600.0, 0.40),
            (700.0, 0.50),
            (1000.0, 0.60),
            (2000.0, 0.67),
            (7000.0, 0.70),
            (30_000.0, 0.72),
            (50_000.0, 0.82),
            (80_000.0, 0.87),
            (120_000.0, 0.90),
            (300_000.0, 0.95),
            (1_000_000.0, 0.975),
            (2_000_000.0, 0.99),
            (10_000_000.0, 1.0),
        ],
    },
    Workload {
        name: "hadoop-opera",
        lineage: "traffic between racks of a Hadoop cluster at Facebook, in the table of the Opera simulator",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (325.0, 0.0),
            (1177.0, 0.017_285_94),
            (4264.0, 0.022_426_176),
            (15_443.0, 0.027_658_305),
            (28_000.0, 0.06),
            (37_323.0, 0.104_879_491),
            (51_067.0, 0.335_908_276),
            (74_908.0, 0.515_476_971),
            (93_293.0, 0.641_894_623),
            (141_819.0, 0.772_500_294),
            (237_853.0, 0.889_446_481),
            (573_344.0, 0.957_208_265),
            (2_076_744.0, 0.965_639_401),
            (7_521_945.0, 0.968_717_8),
            (27_244_995.0, 0.974_237_092),
            (98_686_787.0, 0.983_862_831),
            (223_092_956.0, 1.0),
        ],
    },
    Workload {
        name: "alistorage-hpcc",
        lineage: "storage cluster at Alibaba (2019), in the table of the HPCC simulator",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (0.0, 0.0),
            (4000.0, 0.2293),
            (8000.0, 0.6921),
            (16_000.0, 0.8061),
            (32_000.0, 0.9047),
            (64_000.0, 0.9353),
            (128_000.0, 0.9677),
            (256_000.0, 0.9753),
            (2_000_000.0, 1.0),
        ],
    },
    Workload {
        name: "facebook-kv",
        lineage: "values of Facebook's key-value stores, in the table of HKUST's traffic generator",
        unit: SizeUnit::Bytes,
        interpolation: Interpolation::Linear,
        points: &[
            (0.0, 0.0),
            (3.0, 0.28),
            (10.0, 0.32),
            (12.0, 0.44),
            (75.0, 0.5),
            (250.0, 0.75),
            (350.0, 0.9),
            (1000.0, 0.965),
            (2515.0, 0.98),
            (6326.0, 0.99),
            (10_032.0, 0.995),
            (15_910.0, 0.997),
            (23_009.0, 0.9992),
            (24_094.0, 0.9996),
            (25_000.0, 0.9999),
            (100_000.0, 0.99999),
            (1_000_000.0, 1.0),
        ],
    },
];

/// A kind of topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyInfo {
    /// As a scenario names it (`kind`).
    pub name: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    /// The keys it needs.
    pub keys: &'static [&'static str],
}

/// The kinds of topology.
#[must_use]
pub const fn topologies() -> &'static [TopologyInfo] {
    &[
        TopologyInfo {
            name: "star",
            summary: "one switch with all hosts around it: the port to the receiver is the bottleneck",
            keys: &["hosts", "link"],
        },
        TopologyInfo {
            name: "dumbbell",
            summary: "two switches with hosts on either side and one link between them",
            keys: &["left", "right", "edge_link", "core_link"],
        },
        TopologyInfo {
            name: "leaf-spine",
            summary: "racks of hosts under leaf switches, every leaf connected to every spine",
            keys: &["leaves", "hosts_per_leaf", "spines", "host_link", "fabric_link"],
        },
        TopologyInfo {
            name: "fat-tree",
            summary: "pods of edge and aggregation switches under core switches, all with the same number of ports",
            keys: &["ports", "hosts_per_edge", "host_link", "fabric_link", "core_link"],
        },
        TopologyInfo {
            name: "hpcc",
            summary: "nodes and links of a file in the format of the HPCC simulator's topology.txt",
            keys: &["file"],
        },
        TopologyInfo {
            name: "custom",
            summary: "hosts, switches and links one by one",
            keys: &["hosts", "switches", "links"],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    /// The figures that others compute from the same tables by linear interpolation; scripts of MQ-ECN
    /// and PIAS have the first and the second two of them as constants.
    #[test]
    fn means_are_those_published_for_linear_interpolation() {
        let published = [
            ("websearch-dctcp", 1_711_250.0),
            ("datamining-hkust", 12_658_199.0),
            ("datamining-pfabric", 7_470_236.0),
            ("websearch-pfabric", 1_665_831.0),
            ("datamining-opera", 5_036_535.0),
            ("hadoop-hpcc", 120_421.0),
            ("hadoop-opera", 3_423_728.0),
            ("alistorage-hpcc", 40_870.0),
        ];
        for (name, mean) in published {
            let computed = workload(name).unwrap().mean_bytes();
            assert!((computed - mean).abs() <= 1.0, "{name}: {computed} is not {mean}");
        }
        // Nobody publishes this one; it is the sum of the trapezoids.
        let computed = workload("facebook-kv").unwrap().mean_bytes();
        assert!((computed - 342.0).abs() <= 1.0, "facebook-kv: {computed}");
    }

    #[test]
    fn the_sample_mean_of_web_search_is_within_three_percent() {
        let workload = workload("websearch-dctcp").unwrap();
        let cdf = workload.cdf();
        let mut stream = Stream::new(1, "sample");
        let mean = (0..200_000).map(|_| cdf.draw(&mut stream) as f64).sum::<f64>() / 200_000.0;
        assert!((mean / workload.mean_bytes() - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn every_kind_of_topology_the_schema_knows_is_described_and_no_other() {
        let schema = crate::schema::own();
        let variants = schema.pointer("/definitions/Topology/oneOf").unwrap().as_array().unwrap();
        let mut known: Vec<&str> =
            variants.iter().map(|one| one.pointer("/properties/kind/const").unwrap().as_str().unwrap()).collect();
        let mut described: Vec<&str> = topologies().iter().map(|topology| topology.name).collect();
        known.sort_unstable();
        described.sort_unstable();
        assert_eq!(known, described);
        for topology in topologies() {
            let variant =
                variants.iter().find(|one| one.pointer("/properties/kind/const").unwrap() == topology.name).unwrap();
            for key in topology.keys {
                assert!(variant.pointer(&format!("/properties/{key}")).is_some(), "{key}");
            }
        }
    }
}
