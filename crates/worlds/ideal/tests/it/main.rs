//! All tests of this crate from outside, as one program.

mod ideal;
