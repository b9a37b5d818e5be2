//! Compiles the programs for the kernel with clang. libbpf-sys has the headers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    let sources = Path::new("../bpf");
    println!("cargo::rerun-if-changed={}", sources.join("algorithms").display());
    println!("cargo::rerun-if-changed={}", sources.join("kernel").display());
    println!("cargo::rerun-if-env-changed=INCAST_CLANG");
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let clang = env::var("INCAST_CLANG").unwrap_or_else(|_| "clang".into());
    let register_names = match variable("CARGO_CFG_TARGET_ARCH").to_string_lossy().as_ref() {
        "aarch64" => "arm64".to_owned(),
        "x86_64" => "x86".to_owned(),
        other => other.to_owned(),
    };
    for name in ["sender", "sockets", "port", "flows", "sample", "sweep", "receiver", "swift", "events"] {
        let out = PathBuf::from(variable("OUT_DIR")).join(format!("{name}.bpf.o"));
        let mut command = Command::new(&clang);
        // From version 3 of its instructions on, BPF has comparisons of 32 bits and atomics.
        command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
        command.args(["-Wno-unused-parameter", "-fno-stack-protector"]);
        command.arg(format!("-D__TARGET_ARCH_{register_names}"));
        command.arg("-I").arg(variable("DEP_BPF_INCLUDE"));
        command.arg("-c").arg(sources.join(format!("kernel/{name}.bpf.c"))).arg("-o").arg(out);
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => fail(&format!("{clang} does not compile kernel/{name}.bpf.c")),
            Err(error) => fail(&format!("{clang} does not start: {error} (Debian, Ubuntu: apt-get install clang)")),
        }
    }
}

fn fail(why: &str) -> ! {
    println!("cargo::error={why}");
    exit(1);
}
