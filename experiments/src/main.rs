//! The binary: arguments in, exit code out. Everything else is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use vmmlab::cli::{self, Cli};
use vmmlab::exit::Exit;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(request) => {
            // Help and version are answers, the rest are mistakes; clap prints each to its stream.
            let exit = if request.use_stderr() { Exit::Usage } else { Exit::Ok };
            let _ = request.print();
            return exit.into();
        }
    };
    let command: Vec<String> = std::env::args().skip(1).collect();
    match cli::execute(&cli, &command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            anstream::eprintln!("vmmlab: {}", error.chain());
            error.exit().into()
        }
    }
}
