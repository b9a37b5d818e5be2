//! What to run: scenario files, their checks, and their expansion into a [`Plan`](incast_plan::Plan) that a world
//! carries out.
//!
//! ```
//! use incast_scenario::{Override, Scenario, example};
//!
//! let text = example("incast").unwrap();
//! let senders = Override::parse("traffic.requests.workers=40").unwrap();
//! let scenario = Scenario::parse(text, "incast.toml", &[senders]).unwrap();
//! let plan = scenario.plan(Some(7)).unwrap();
//! assert_eq!(plan.connections.len(), 40);
//! ```

pub mod catalog;
mod cdf;
mod check;
pub mod custom;
mod document;
mod expand;
mod files;
mod limits;
mod network;
mod node;
mod noise;
mod offered;
mod overrides;
mod random;
mod report;
mod scenario;
pub mod schema;
mod shape;
mod sizes;
mod spec;
mod top_level;
mod traffic;

pub use cdf::{Cdf, SizeUnit};
pub use files::{Reader, beside};
pub use overrides::Override;
pub use report::{Origin, Problem, Report};
pub use scenario::Scenario;
pub use spec::{TcpProfile, profiles, tcp_of};

/// The scenarios that come with the program: name and text.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("incast", include_str!("../scenarios/incast.toml")),
    ("dumbbell", include_str!("../scenarios/dumbbell.toml")),
    ("leaf-spine", include_str!("../scenarios/leaf-spine.toml")),
    ("fat-tree", include_str!("../scenarios/fat-tree.toml")),
    ("poisson", include_str!("../scenarios/poisson.toml")),
    ("fork-join", include_str!("../scenarios/fork-join.toml")),
    ("custom", include_str!("../scenarios/custom.toml")),
    ("swift", include_str!("../scenarios/swift.toml")),
    ("hpcc", include_str!("../scenarios/hpcc.toml")),
    ("linux", include_str!("../scenarios/linux.toml")),
    ("credit", include_str!("../scenarios/credit.toml")),
];

/// The text of a scenario that comes with the program.
#[must_use]
pub fn example(name: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|example| example.0 == name).map(|example| example.1)
}
