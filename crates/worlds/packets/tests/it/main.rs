//! All tests of this crate from outside, as one program.

mod arithmetic;
mod ars;
mod credit;
mod dcmrg;
mod drivers;
mod fork_join;
mod hpcc;
mod ictcp;
mod noise;
mod pilot;
mod places;
mod port_studies;
mod ports;
mod properties;
mod pulser;
mod rdtcp;
mod receiver_credit;
mod recording;
mod recovery;
mod shared_buffer;
mod snapshots;
mod static_window;
mod support;
mod swift;
mod threads;
mod timers;
