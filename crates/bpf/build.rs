//! Compiles the programs that the differential tests drive. The library itself has no C in it.

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
    for name in ["replay", "detector", "receivers", "swift"] {
        let (source, program) = (format!("native/{name}.c"), out.join(name));
        let mut command = build.get_compiler().to_command();
        let status = command.arg(&source).arg("-o").arg(&program).status();
        let status = status.unwrap_or_else(|error| panic!("the C compiler does not start: {error}"));
        assert!(status.success(), "the C compiler refuses {source}");
        println!("cargo::rustc-env=INCAST_{}={}", name.to_uppercase(), program.display());
    }
}
