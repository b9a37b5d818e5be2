//! Parts from outside the tree: for experiments, tests and crates of one's own.
//!
//! A part of the registry is called without a vtable. A custom part is called through one, so it is somewhat slower, and
//! everything else is the same: each place's choice has a variant `Custom`, made by its `custom` function.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use crate::registry::{Part, PartColumn, PartInfo, Place};

/// Makes a part from what its place tells it.
type Build<C, T> = dyn Fn(&C) -> Box<T> + Send + Sync;

/// A part that is built by a function. `C` is what the place tells its parts, `T` the place's trait, as `dyn`.
pub struct Custom<C, T: ?Sized> {
    info: PartInfo,
    column: Option<PartColumn>,
    build: Arc<Build<C, T>>,
}

impl<C, T: ?Sized> Custom<C, T> {
    /// A part that `build` makes for each port, connection or NIC anew.
    pub fn new(info: PartInfo, build: impl Fn(&C) -> Box<T> + Send + Sync + 'static) -> Self {
        Self { info, column: None, build: Arc::new(build) }
    }

    /// The same with a column of its own in the result table of its place.
    #[must_use]
    pub fn with_column(self, column: Option<PartColumn>) -> Self {
        Self { column, ..self }
    }

    /// Its own column, if it has one.
    #[must_use]
    pub const fn column(&self) -> Option<PartColumn> {
        self.column
    }

    /// What the part says about itself.
    #[must_use]
    pub const fn info(&self) -> PartInfo {
        self.info
    }

    /// The part.
    #[must_use]
    pub fn build(&self, context: &C) -> Box<T> {
        (self.build)(context)
    }
}

impl<C, T: ?Sized> Clone for Custom<C, T> {
    fn clone(&self) -> Self {
        Self { info: self.info, column: self.column, build: Arc::clone(&self.build) }
    }
}

impl<C, T: ?Sized> fmt::Debug for Custom<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.info.name).finish()
    }
}

/// The same function, or a part of another name.
impl<C, T: ?Sized> PartialEq for Custom<C, T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.build, &other.build)
    }
}

/// A part that a scenario can choose by name once it is registered: how it is made from its parameters.
pub trait CustomPart<C>: Part {
    /// The part for one port, connection or NIC.
    fn build(config: &Self::Config, context: &C) -> Self;
}

impl PartInfo {
    /// The description of a part that needs none: for tests.
    #[must_use]
    pub const fn bare(place: Place, name: &'static str) -> Self {
        Self { place, name, summary: "", source: "", requires: &[], provides: &[], deviations: &[] }
    }
}
