//! `vmmlab gang list|set`: the gang flag of cgroups, the extended attribute `user.cpu.gang`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use vmm::cgroup::{GANG_ATTRIBUTE, list_gangs, set_gang_flag};

use super::print;
use crate::exit::{Error, Exit};

/// Options of `vmmlab gang`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  vmmlab gang list
  vmmlab gang set /sys/fs/cgroup/user.slice/my-vm on

The flag is the extended attribute user.cpu.gang, so setfattr and getfattr read and write the same.")]
pub struct GangArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the cgroups that carry the flag
    List {
        /// Where to look [default: the whole cgroup v2 hierarchy]
        root: Option<PathBuf>,
    },
    /// Set or clear the flag of a cgroup
    Set {
        /// Directory of the cgroup
        cgroup: PathBuf,
        /// on or off
        #[arg(value_enum)]
        flag: Flag,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flag {
    On,
    Off,
}

pub(super) fn gang(args: &GangArgs) -> Result<Exit, Error> {
    match &args.action {
        Action::List { root } => print(&list(root.as_deref())?)?,
        Action::Set { cgroup, flag } => set(cgroup, *flag == Flag::On)?,
    }
    Ok(Exit::Ok)
}

fn list(root: Option<&Path>) -> Result<String, Error> {
    let gangs = list_gangs(root).map_err(|e| match root {
        Some(root) => Error::Usage(format!("gang list {}: {e}; name a cgroup v2 directory", root.display())),
        None => Error::Unavailable(format!("{e}: gangs need a cgroup v2 mount; mount -t cgroup2 none DIR makes one")),
    })?;
    let mut page = String::from("gang  threads  cgroup\n");
    for entry in &gangs {
        let flag = if entry.gang { "on" } else { "off" };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{flag:<5} {:>7}  {}", entry.threads, entry.path.display());
    }
    Ok(if gangs.is_empty() { "no cgroup carries user.cpu.gang\n".into() } else { page })
}

fn set(cgroup: &Path, gang: bool) -> Result<(), Error> {
    let shown = cgroup.display();
    // Any directory can carry the attribute; only a cgroup means something by it.
    if !cgroup.join("cgroup.threads").is_file() {
        return Err(Error::Usage(format!("gang set {shown}: no cgroup v2 directory; `vmmlab gang list` shows some")));
    }
    set_gang_flag(cgroup, gang)
        .map_err(|e| Error::Usage(format!("gang set {shown}: cannot change {GANG_ATTRIBUTE} ({e}); own the cgroup")))
}
