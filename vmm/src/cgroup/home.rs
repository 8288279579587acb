//! Where a run's cgroups may stand.
//!
//! A thread can only be moved between cgroups of one *threaded domain*: a domain cgroup that holds the process, and the
//! threaded cgroups below it. So a run stands below the cgroup that this process is in, and where another one was asked
//! for, the process is moved there first and back at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::CgroupError;

/// Runs of this process that rely on its having been moved, and where it came from.
static MOVED: Mutex<Option<(u32, PathBuf)>> = Mutex::new(None);

/// The cgroup below which a run stands; while it lives, this process is in it.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    moved: bool,
}

impl Home {
    /// The directory `asked` for, or the process's own cgroup.
    pub(super) fn find(asked: Option<&Path>) -> Result<Self, CgroupError> {
        let own = own_cgroup()?;
        let Some(asked) = asked else { return Ok(Self { path: own, moved: false }) };
        let path = fs::canonicalize(asked).map_err(CgroupError::refused("use", asked))?;
        let mut moved = MOVED.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *moved {
            Some((runs, _)) if path == own => *runs += 1,
            _ if path == own => return Ok(Self { path, moved: false }),
            _ => {
                let (runs, origin) = moved.take().unwrap_or((0, own));
                enter(&path)?;
                *moved = Some((runs + 1, origin));
            }
        }
        Ok(Self { path, moved: true })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.moved {
            return;
        }
        let mut moved = MOVED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((runs, origin)) = moved.take() {
            if runs > 1 {
                *moved = Some((runs - 1, origin));
            } else if let Err(error) = enter(&origin) {
                tracing::warn!("cannot move this process back to cgroup {}: {error}", origin.display());
            }
        }
    }
}

/// Moves this process, with all its threads, to the cgroup at `dir`.
fn enter(dir: &Path) -> Result<(), CgroupError> {
    let procs = dir.join("cgroup.procs");
    fs::write(&procs, "0").map_err(CgroupError::refused("move this process with", &procs))
}

/// Where the cgroup v2 hierarchy is mounted.
pub(super) fn mount_point() -> Result<PathBuf, CgroupError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().find_map(parse_mount).map(|(_, point)| point).ok_or(CgroupError::NoHierarchy)
}

/// The directory of the cgroup that this process is in.
fn own_cgroup() -> Result<PathBuf, CgroupError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let (root, point) = mounts.lines().find_map(parse_mount).ok_or(CgroupError::NoHierarchy)?;
    directory(&groups, &root, &point).filter(|dir| dir.is_dir()).ok_or(CgroupError::NoHierarchy)
}

/// Root and mount point of a line of `/proc/self/mountinfo`, if it is a cgroup v2 mount. Fields: id, parent, device,
/// root, mount point, options, optional fields, `-`, type (Linux: Documentation/filesystems/proc.rst).
pub(super) fn parse_mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    if kind.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    // The kernel writes a space in a path as an octal escape.
    let path = |field: &str| PathBuf::from(field.replace("\\040", " "));
    Some((path(fields.next()?), path(fields.next()?)))
}

/// The directory of the v2 line (`0::/path`) of `/proc/self/cgroup` under a mount of `root` at `point`.
pub(super) fn directory(groups: &str, root: &Path, point: &Path) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(point.join(Path::new(path).strip_prefix(root).ok()?))
}
