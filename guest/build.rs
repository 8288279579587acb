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
    let mut abi = rustc();
    abi.args(["--crate-name=abi", "--crate-type=rlib"]).arg("-o").arg(&library).arg("abi/src/lib.rs");
    run(&root, abi);

    let mut kernel = rustc();
    let script = root.join("kernel/link.ld");
    kernel.args(LINK.map(|arg| format!("-Clink-arg={arg}")));
    kernel.arg(format!("-Clink-arg=-Wl,-T,{}", script.display()));
    kernel.arg("-o").arg(out.join("kernel.elf"));
    run(&root, of_kernel(kernel, &library));

    // Set by `cargo clippy`, which sees only cargo's own targets otherwise.
    if let Some(clippy) = env::var_os("RUSTC_WORKSPACE_WRAPPER") {
        let mut lint = Command::new(clippy);
        lint.arg(variable("RUSTC")).args(COMMON).arg("--emit=metadata").arg("-o").arg(out.join("kernel.rmeta"));
        run(&root, of_kernel(lint, &library));
    }
}

fn variable(name: &str) -> PathBuf {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")).into()
}

fn rustc() -> Command {
    let mut command = Command::new(variable("RUSTC"));
    command.args(COMMON);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg("-Clinker").arg(linker);
    }
    command
}

fn of_kernel(mut command: Command, library: &Path) -> Command {
    command.args(["--crate-name=kernel", "--crate-type=bin", "--extern"]).arg(format!("abi={}", library.display()));
    command.arg("kernel/main.rs");
    command
}

/// Runs a compiler in `root`, so that the sources have relative names.
fn run(root: &Path, mut command: Command) {
    let status = command.current_dir(root).status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} failed: {status}");
}
