//! Without it the features of dependencies of build scripts would not count.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
