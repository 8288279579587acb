//! A directory in memory, for readers that take a path.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where a file system in memory usually is.
const SHM: &str = "/dev/shm";

/// A directory that is removed with this value.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Default for Scratch {
    fn default() -> Self {
        let root = if Path::new(SHM).is_dir() { PathBuf::from(SHM) } else { std::env::temp_dir() };
        let made = tempfile::Builder::new().prefix("vmmlab-fuzz-").tempdir_in(&root);
        Self(made.unwrap_or_else(|error| panic!("{}: {error}", root.display())))
    }
}

impl Scratch {
    /// Its path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and makes the directories above it.
    ///
    /// # Panics
    /// If the file system refuses.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir().join(name);
        let above = path.parent().unwrap_or(self.dir());
        let written =
            if above.is_dir() { Ok(()) } else { fs::create_dir_all(above) }.and_then(|()| fs::write(&path, bytes));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}
