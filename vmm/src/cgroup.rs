//! One threaded cgroup per VM: the kernel keeps the list of who belongs to which gang.
//!
//! # Problem
//! A gang scheduler must know which threads form a gang. The host already has a place for that: the cgroup. So the lab
//! does not decide it, it asks: the vCPU threads of a VM are moved to a cgroup of their own, and the groups of
//! `hostsched` are made from what the kernel then says.
//!
//! # Picture
//! ```text
//!   <home>                            the cgroup of this process, or the delegated one (--cgroup)
//!     └─ vmmlab-<pid>-<run>           threaded: lends its processes' threads, holds none itself
//!          ├─ vm0                     threaded: cgroup.threads = the vCPU threads of VM 0
//!          ├─ vm1                     attribute user.cpu.gang = 1: schedule its members together
//!          └─ neighbour               the neighbour's vCPU thread, if there is one: never a gang
//! ```
//! No controller is needed: only membership and the attribute are used, so any cgroup v2 mount will do.
//!
//! # Properties
//! - Everything that a run made is removed when its [`RunCgroup`] is dropped: after success, error and panic. What a
//!   killed process left is swept by the next one.
//! - Threads of the process that are no vCPU stay where they were.
//! - A process that had to be moved into a delegated subtree is moved back with the last run.

mod gang;
mod home;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use gang::{GANG_ATTRIBUTE, GangEntry, gang_flag, list_gangs, set_gang_flag};
use home::Home;

/// How often, and at what interval, a directory that still holds an exiting thread is tried again (1 s in all).
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// Why there are no cgroups for a run.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No cgroup v2 file system is mounted, or the process is in none.
    #[error("No cgroup v2 hierarchy holds this process")]
    NoHierarchy,
    /// The kernel refused a step.
    #[error("Cannot {step} {}", .path.display())]
    Refused {
        /// What was tried.
        step: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The errno.
        #[source]
        source: io::Error,
    },
}

impl CgroupError {
    fn refused(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Refused { step, path: path.to_owned(), source }
    }
}

/// The cgroups of one run.
#[derive(Debug)]
pub struct RunCgroup {
    dir: PathBuf,
    vms: Vec<PathBuf>,
    /// Dropped last, after the directories are gone.
    _home: Home,
}

impl RunCgroup {
    /// Makes the run's directory and one threaded cgroup for each VM, marked as gangs if `gang`, and for each neighbour, which
    /// is none.
    ///
    /// `asked` is the delegated directory to use; without one it is the cgroup of this process.
    ///
    /// # Errors
    /// The step that the kernel refused; nothing is left behind then.
    pub fn create(asked: Option<&Path>, vms: u32, neighbours: u32, gang: bool) -> Result<Self, CgroupError> {
        // Runs of one process are told apart by number, processes by id: no name is ever used twice.
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let home = Home::find(asked)?;
        sweep(home.path());
        let name = format!("vmmlab-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let dir = home.path().join(name);
        let mut made = Self { dir, vms: Vec::new(), _home: home };
        threaded(&made.dir)?;
        let names = (0..vms).map(|vm| (format!("vm{vm}"), gang));
        let beside = (0..neighbours).map(|_| ("neighbour".to_owned(), false));
        for (name, gang) in names.chain(beside) {
            let path = made.dir.join(name);
            made.vms.push(path.clone());
            threaded(&path)?;
            if gang {
                set_gang_flag(&path, true).map_err(CgroupError::refused("set user.cpu.gang on", &path))?;
            }
        }
        Ok(made)
    }

    /// The run's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Moves the calling thread to the cgroup of VM `vm`.
    ///
    /// # Errors
    /// The errno of the write.
    pub fn join(&self, vm: usize) -> io::Result<()> {
        // "0" names the writer itself. Any other id would make the kernel stop all forks of the machine for the move,
        // which costs about 10 ms a thread.
        let mut file = fs::OpenOptions::new().write(true).open(self.vms[vm].join("cgroup.threads"))?;
        file.write_all(b"0")
    }

    /// The thread ids that the kernel counts to VM `vm`.
    ///
    /// # Errors
    /// The errno of the read.
    pub fn members(&self, vm: usize) -> io::Result<Vec<i32>> {
        let text = fs::read_to_string(self.vms[vm].join("cgroup.threads"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The gang flag of VM `vm`, as it is now.
    ///
    /// # Errors
    /// The errno of the read.
    pub fn gang(&self, vm: usize) -> io::Result<bool> {
        gang_flag(&self.vms[vm])
    }
}

impl Drop for RunCgroup {
    fn drop(&mut self) {
        for dir in self.vms.iter().chain([&self.dir]) {
            if let Err(error) = remove(dir) {
                tracing::warn!("cannot remove cgroup {}: {error}", dir.display());
            }
        }
    }
}

/// How many directories of runs this process has below its cgroup: none when no run is under way.
#[must_use]
pub fn of_this_process() -> usize {
    let Ok(home) = Home::find(None) else { return 0 };
    let prefix = format!("vmmlab-{}-", std::process::id());
    let entries = fs::read_dir(home.path()).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

/// Makes one threaded cgroup.
fn threaded(dir: &Path) -> Result<(), CgroupError> {
    fs::create_dir(dir).map_err(CgroupError::refused("create", dir))?;
    fs::write(dir.join("cgroup.type"), "threaded").map_err(CgroupError::refused("make threaded", dir))
}

/// Removes one cgroup; waits for threads that have been joined but not yet reaped by the kernel.
fn remove(dir: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < REMOVE_TRIES => {
                tries += 1;
                std::thread::sleep(REMOVE_PAUSE);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
}

/// Removes the directories of runs whose process no longer exists. What cannot be removed is somebody's, and stays.
fn sweep(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix("vmmlab-")?.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            for child in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(child.path());
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
