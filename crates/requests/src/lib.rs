//! Asks many servers at once without TCP incast.
//!
//! When many servers answer one client at the same moment, the last switch port overflows, and a query waits 200 ms for a
//! retransmission timeout. Here the requests of a program share a budget of bytes: each waits for its [`Slot`], in the order in
//! which they were asked for, until what it can have under way fits.
//!
//! ```
//! use incast_requests::{Credit, Expect};
//!
//! # async fn ask(_server: u32) -> Vec<u8> { vec![0; 32_768] }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // One for each link over which responses come in, for as long as the program runs: 70 % of the buffer of the port to it.
//! let credit = Credit::with_budget(90_000);
//!
//! // One request: dropping the slot gives its credit back.
//! let slot = credit.slot(Expect::bytes(32_768)).await;
//! let response = ask(1).await;
//! slot.finish(response.len() as u64);
//!
//! // Many: the results come in the order of the requests.
//! let responses = credit.gather((0..40).map(|server| (Expect::bytes(32_768), ask(server)))).await;
//! assert_eq!(responses.len(), 40);
//! # }
//! ```
//!
//! **What to expect.** A request costs the bytes that its response is expected to have, or less if the receive window of its
//! connection lets less be under way at once: [`Expect::window`], and [`Tcp`](socket::Tcp) on Linux. With windows limited, more servers
//! work at the same time. A response of unknown size goes alone, unless its window is known.
//!
//! **Cancellation.** Every future here may be dropped at any time. A request that waits is withdrawn. One that was sent gives
//! its credit back when its slot is dropped, so drop the slot *after* the connection is closed or has run dry: until then
//! its server may still fill the port. Told which connection a response [comes over](Slot::comes_over), a slot sees to that itself on
//! Linux.
//!
//! **Deadlocks.** Who holds a slot must not wait for another of the same [`Credit`]: all credit may be held by others who do the same.
//! So read the body of a response before you wait for other responses.
//!
//! **Several runtimes.** While requests wait, tasks of tokio look for responses that never come and keep the pace of servers that think, and they look
//! at connections, in the runtime that needed them first. If several runtimes share one [`Credit`], each has to be driven: one that is
//! between two calls of `block_on` lets the others wait. One that ends does not.
//!
//! **One scheduler per link.** All gathers of a program whose responses share a link share one [`Credit`]; it is cheap to clone.
//!
//! **When not to use it.** Where nothing collapses, a budget can only cost: measure first. Beside long flows at the same port
//! a fixed budget may leave the link to them; [`Credit::adaptive`] looks whether no limit is better. It wants to hear of lost segments, as it
//! does from [`Tcp`](socket::Tcp): with [`gather`](Credit::gather), [`run`](Credit::run) and a layer that
//! knows no connections it notices only stalls.

#[cfg(all(feature = "tower", target_os = "linux"))]
pub mod connections;
mod credit;
mod events;
mod gather;
#[cfg(all(feature = "hyper", target_os = "linux"))]
pub mod hyper;
mod places;
#[cfg(target_os = "linux")]
pub mod socket;
#[cfg(feature = "tower")]
pub mod tower;
#[doc(hidden)]
pub mod under_way;

pub use credit::{Builder, Credit, Decision, Expect, Slot, Waiting};
pub use incast_protocols::application::credit::{Search, Why};
pub use incast_protocols::application::{ApplicationChoice, ApplicationContext, Status};
