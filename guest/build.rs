//! Builds the guest kernel with the compiler that cargo uses: `abi` as a library, then the kernel as a static
//! executable.
//!
//! Cargo cannot do this itself in one build: the kernel needs other code-generation and link options than the rest of
//! the workspace. No other target is installed either: the kernel is built for the host's Linux target, without start
//! files, by the linker script `kernel/link.ld`. Paths are remapped, so that the bytes depend on the sources and the
//! compiler only.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const COMMON: [&str; 7] = [
    "--edition=2024",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Cpanic=abort",
    "-Crelocation-model=static",
    "-Cforce-unwind-tables=no",
    // Keeps the symbol table, which the guest profile reads.
    "-Cstrip=debuginfo",
];

const LINK: [&str; 6] = ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,norelro"];

fn main() {
    let root = variable("CARGO_MANIFEST_DIR");
    let out = variable("OUT_DIR");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernel");
    println!("cargo::rerun-if-changed=abi/src");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    assert!(
        target.starts_with("x86_64-") && target.contains("-linux-gnu"),
        "the guest kernel is built for an x86_64 Linux target; this build is for '{target}'"
    );

    let library = out.join("libabi.rlib");
    rustc(&root, &["--crate-name=abi", "--crate-type=rlib"], |command| {
        command.arg("-o").arg(&library).arg("abi/src/lib.rs");
    });
    rustc(&root, &["--crate-name=kernel", "--crate-type=bin"], |command| {
        let script = root.join("kernel/link.ld");
        command.args(LINK.map(|arg| format!("-Clink-arg={arg}")));
        command.arg(format!("-Clink-arg=-Wl,-T,{}", script.display()));
        command.arg("--extern").arg(format!("abi={}", library.display()));
        command.arg("-o").arg(out.join("kernel.elf")).arg("kernel/main.rs");
    });
}

fn variable(name: &str) -> PathBuf {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")).into()
}

/// Runs the compiler in `root`, so that the sources have relative names.
fn rustc(root: &Path, args: &[&str], rest: impl FnOnce(&mut Command)) {
    let mut command = Command::new(variable("RUSTC"));
    command.current_dir(root).args(COMMON).args(args);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg("-Clinker").arg(linker);
    }
    rest(&mut command);
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} failed: {status}");
}
