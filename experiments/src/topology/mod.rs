//! Where a topology comes from: this host, a file of another tool, a name, or a text; and how it is shown.
//!
//! ```text
//!   auto            the live /sys            hwloc:FILE.xml   hwloc's XML export (lstopo FILE.xml)
//!   sysfs:DIR       a copy of a /sys         e5620            a preset
//!   lscpu:FILE      output of lscpu -p       2s:4c:2t         a text, see `hostsched::topology`
//! ```
//!
//! Every importer reads into the same [`Import`]: a [`Machine`] (whose normal form is what results carry), what is
//! known beyond it, and notices: what was missing or assumed. Files are untrusted: sizes are bounded, nothing panics,
//! and an error names the file, the place, the value found and what would be right.
//!
//! Only `auto` looks at the host. Nothing here decides how CPUs are scheduled; that a topology can be scheduled at all
//! is asked of [`build_sched_domains`](hostsched::topology::build_sched_domains) by the command.

mod command;
mod draw;
mod hwloc;
mod lscpu;
mod masks;
mod read;
mod sysfs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hostsched::topology::{CpuId, CpuSet, Machine, MachineError, TextError};
use plan::CpuListError;

pub use command::{TopologyAnswer, TopologyArgs, TopologyError, topology_command};

/// A machine and what its source said beyond it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The machine.
    pub machine: Machine,
    /// Level of each CPU's last-level cache, where the source told.
    pub llc_level: BTreeMap<CpuId, u8>,
    /// CPUs that exist and are offline, so that nothing else is known of them.
    pub offline: CpuSet,
    /// CPUs that could ever exist (`/sys/devices/system/cpu/possible`), where the source told.
    pub possible: Option<CpuSet>,
    /// What was missing, assumed or contradictory: one sentence each.
    pub notices: Vec<String>,
}

impl From<Machine> for Import {
    fn from(machine: Machine) -> Self {
        Self { machine, llc_level: BTreeMap::new(), offline: CpuSet::new(), possible: None, notices: Vec::new() }
    }
}

/// Why a topology could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A text or a preset's name.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A file that cannot be read.
    #[error("Cannot read {}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is not plausible.
    #[error("{} is larger than {limit} bytes; no topology file is", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        limit: u64,
    },
    /// A value that cannot be right.
    #[error("{}:{line}:{column}: expected {wanted}, found '{found}'", .path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// What would be right.
        wanted: &'static str,
        /// What stands there, at most 40 characters.
        found: String,
    },
    /// A CPU list that cannot be read.
    #[error("{}: {source}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CpuListError,
    },
    /// Readable, but it contradicts itself or lacks what is needed.
    #[error("{}: {what}", .path.display())]
    Content {
        /// The file or directory.
        path: PathBuf,
        /// One sentence.
        what: String,
    },
    /// Consistent, but no machine.
    #[error("{}: {source}", .path.display())]
    Machine {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: MachineError,
    },
}

impl ImportError {
    fn content(path: &Path, what: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), what: what.into() }
    }

    fn machine(path: &Path) -> impl FnOnce(MachineError) -> Self {
        move |source| Self::Machine { path: path.to_owned(), source }
    }
}

/// Reads the topology that `spec` names.
///
/// With `allow_broken`, sibling lists that contradict each other are taken CPU by CPU, with a notice.
///
/// # Errors
/// When the file cannot be read or understood, or the text is no topology.
pub fn import(spec: &str, allow_broken: bool) -> Result<Import, ImportError> {
    match spec.split_once(':') {
        _ if spec == "auto" => sysfs::import(Path::new("/sys"), allow_broken),
        Some(("sysfs", dir)) => sysfs::import(Path::new(dir), allow_broken),
        Some(("lscpu", file)) => lscpu::import(Path::new(file)),
        Some(("hwloc", file)) => hwloc::import(Path::new(file)),
        _ => Ok(Import::from(spec.parse::<Machine>()?)),
    }
}
