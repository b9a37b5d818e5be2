//! Compiles the program that the differential test drives. The library itself has no C in it.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=algorithms");
    println!("cargo::rerun-if-changed=native");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut build = cc::Build::new();
    build.std("gnu11").opt_level(2).warnings(true).extra_warnings(true).flag("-Werror");
    // Overflow and bad shifts end the program instead of giving the numbers of this one machine.
    build.flag_if_supported("-fsanitize-undefined-trap-on-error").flag_if_supported("-fsanitize=undefined");
    let mut command = build.get_compiler().to_command();
    command.arg("native/replay.c").arg("-o").arg(out.join("replay"));
    let status = command.status().unwrap_or_else(|error| panic!("the C compiler does not start: {error}"));
    assert!(status.success(), "the C compiler refuses native/replay.c");
    println!("cargo::rustc-env=INCAST_REPLAY={}", out.join("replay").display());
}
