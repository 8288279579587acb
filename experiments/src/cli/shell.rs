//! `vmmlab completions` and `vmmlab man`: what a shell and man(1) read, made from the options themselves.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, print};
use crate::exit::{Error, Exit};

/// Options of `vmmlab completions`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab completions bash > ~/.local/share/bash-completion/completions/vmmlab
  vmmlab completions zsh > ~/.zfunc/_vmmlab
  vmmlab completions fish > ~/.config/fish/completions/vmmlab.fish")]
pub struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_enum, value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

/// Options of `vmmlab man`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Directory for vmmlab.1 and a page for each command; it is made if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vmmlab", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}

pub(super) fn man(args: &ManArgs) -> Result<Exit, Error> {
    fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.dir))
        .map_err(Error::file("write", &args.dir))?;
    Ok(Exit::Ok)
}
