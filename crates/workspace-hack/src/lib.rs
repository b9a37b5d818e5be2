//! Nothing but dependencies: see its manifest.
