//! The gang flag: extended attribute `user.cpu.gang` on a cgroup's directory.
//!
//! The way systemd marks cgroups; so `setfattr`, `getfattr` and `vmmlab gang list|set` all read and write the same.
//! Off is an absent attribute or the value `0`, everything else is on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;

use super::CgroupError;
use super::home::mount_point;

/// Name of the attribute.
pub const GANG_ATTRIBUTE: &str = "user.cpu.gang";

/// A cgroup that carries the attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangEntry {
    /// Its directory.
    pub path: PathBuf,
    /// The flag.
    pub gang: bool,
    /// How many threads are in it.
    pub threads: usize,
}

/// The gang flag of the cgroup at `dir`.
///
/// # Errors
/// The errno of the read.
pub fn gang_flag(dir: &Path) -> io::Result<bool> {
    Ok(attribute(dir)?.unwrap_or(false))
}

/// Sets or clears the gang flag of the cgroup at `dir`.
///
/// # Errors
/// The errno of the change.
pub fn set_gang_flag(dir: &Path, gang: bool) -> io::Result<()> {
    let changed =
        if gang { setxattr(dir, GANG_ATTRIBUTE, b"1", XattrFlags::empty()) } else { removexattr(dir, GANG_ATTRIBUTE) };
    match changed {
        Err(Errno::NODATA) => Ok(()),
        other => other.map_err(io::Error::from),
    }
}

/// The cgroups at and below `root` that carry the attribute, in order of path; without a root, of the whole hierarchy.
///
/// # Errors
/// When there is no hierarchy, or `root` cannot be read.
pub fn list_gangs(root: Option<&Path>) -> Result<Vec<GangEntry>, CgroupError> {
    let root = match root {
        Some(root) => root.to_owned(),
        None => mount_point()?,
    };
    fs::read_dir(&root).map_err(CgroupError::refused("read", &root))?;
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(dir) = todo.pop() {
        // A cgroup may vanish while it is looked at: then it is not in the list.
        if let Ok(Some(gang)) = attribute(&dir) {
            let threads = fs::read_to_string(dir.join("cgroup.threads")).map_or(0, |text| text.lines().count());
            found.push(GangEntry { path: dir.clone(), gang, threads });
        }
        let children = fs::read_dir(&dir).into_iter().flatten().flatten();
        todo.extend(children.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The attribute's value, `None` where there is none.
fn attribute(dir: &Path) -> io::Result<Option<bool>> {
    let mut value = [0; 16];
    match getxattr(dir, GANG_ATTRIBUTE, &mut value) {
        Ok(len) => Ok(Some(!matches!(value[..len].trim_ascii(), b"" | b"0"))),
        Err(Errno::NODATA) => Ok(None),
        // A value longer than the buffer is not `0`.
        Err(Errno::RANGE) => Ok(Some(true)),
        Err(other) => Err(other.into()),
    }
}
