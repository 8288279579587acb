//! The run directory: made once, never overwritten, complete after each block.
//!
//! ```text
//!   vmmlab-runs/run/20260102T030405Z-1a2b3c4d/
//!     manifest.json      what was asked, and the command that asks it again
//!     environment.json   host fingerprint and versions
//!     blocks/0000.json   the records of block 0 with their whole histograms; one file a block
//!     result.json        vmmlab.result/1, rewritten after each block
//! ```
//! Every file is written beside its place and then renamed: a reader finds the old one or the new one, never half.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::Error;

/// Where results go that nobody named a place for.
const DEFAULT_ROOT: &str = "vmmlab-runs";

/// Longer files are not read, in bytes: a block of 50 modes with their histograms takes a few MB.
const FILE_MAX: u64 = 1 << 30;

/// An open run directory.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// The directories that were made for it, deepest first.
    made: Vec<PathBuf>,
}

impl Store {
    /// Makes the directory: `out`, or one below `vmmlab-runs` named after the experiment, the time and its digest.
    ///
    /// # Errors
    /// When it cannot be made, or holds something already.
    pub fn create(out: Option<&Path>, name: &str, stamp: &str, digest: &str) -> Result<Self, Error> {
        Self::create_with("blocks", out, name, stamp, digest)
    }

    /// The same with another directory inside it than `blocks`.
    ///
    /// # Errors
    /// When it cannot be made, or holds something already.
    pub fn create_with(inside: &str, out: Option<&Path>, name: &str, stamp: &str, digest: &str) -> Result<Self, Error> {
        let (dir, made) = match out {
            Some(out) => claim(out, inside).map_err(|source| Error::Out { path: out.to_owned(), source })?,
            None => {
                let id = digest.get(..8).unwrap_or(digest);
                let first = Path::new(DEFAULT_ROOT).join(name).join(format!("{stamp}-{id}"));
                // Two experiments of one second: the later ones are numbered.
                let candidates = (2..100).map(|n| PathBuf::from(format!("{}-{n}", first.display())));
                [first.clone()]
                    .into_iter()
                    .chain(candidates)
                    .map(|dir| claim(&dir, inside))
                    .find(|made| !matches!(made, Err(e) if e.kind() == io::ErrorKind::AlreadyExists))
                    .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
                    .map_err(|source| Error::Out { path: first, source })?
            }
        };
        Ok(Self { dir, made })
    }

    /// Opens one that was made before, to go on in it.
    #[must_use]
    pub fn open(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), made: Vec::new() }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the directory back, for when nothing could be run. Best effort: it is empty then.
    pub fn discard(self) {
        for dir in &self.made {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Reads a JSON file.
    ///
    /// # Errors
    /// When it cannot be read, or is something else.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let path = self.dir.join(name);
        let mut text = Vec::new();
        let file = fs::File::open(&path).map_err(Error::input(&path))?;
        let size = file.take(FILE_MAX + 1).read_to_end(&mut text).map_err(Error::input(&path))?;
        if size as u64 > FILE_MAX {
            return Err(Error::Usage(format!("{} is larger than {FILE_MAX} bytes; no result is", path.display())));
        }
        serde_json::from_slice(&text).map_err(|source| {
            Error::Usage(format!("{}: {source}; name a directory that vmmlab has made", path.display()))
        })
    }

    /// Writes `value` as pretty JSON to `name`, whole or not at all.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|source| Error::file("write", &self.dir.join(name))(source.into()))?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, name: &str, text: &[u8]) -> Result<(), Error> {
        let path = self.dir.join(name);
        let part = self.dir.join(format!("{name}.part"));
        let write = || -> io::Result<()> {
            let mut file = fs::File::create(&part)?;
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        };
        write().map_err(|error| {
            // The old file stays; half of a new one is of no use, and may be what the disk is full of.
            let _ = fs::remove_file(&part);
            Error::file("write", &path)(error)
        })
    }
}

/// Makes `dir`, which must not exist or be empty, and proves that it can be written to. Also answers what was made.
fn claim(dir: &Path, inside: &str) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let blocks = dir.join(inside);
    let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let made = blocks.ancestors().take_while(missing).map(Path::to_owned).collect();
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let empty = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
            if !empty {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not empty"));
            }
        }
        other => other?,
    }
    fs::create_dir(blocks)?;
    Ok((dir.to_owned(), made))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(dir: &Path) -> Result<Store, Error> {
        Store::create(Some(dir), "run", "20260102T030405Z", "1a2b3c4d5e")
    }

    #[test]
    fn a_directory_with_something_in_it_is_never_taken() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        create(&dir).unwrap().write_json("result.json", &1).unwrap();
        let error = create(&dir).unwrap_err();
        assert!(error.to_string().contains("exists and is not empty"), "{error}");
        assert_eq!(fs::read_to_string(dir.join("result.json")).unwrap(), "1\n");
    }

    #[test]
    fn an_unwritable_place_is_a_usage_error_that_names_it() {
        let error = create(Path::new("/proc/vmmlab")).unwrap_err();
        assert!(error.to_string().starts_with("--out /proc/vmmlab: cannot create it"), "{error}");
        assert_eq!(error.exit(), crate::exit::Exit::Usage);
        assert!(create(Path::new("/dev/null/x")).is_err());
    }

    #[test]
    fn a_discarded_store_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("mine")).unwrap();
        create(&root.path().join("mine/a/b")).unwrap().discard();
        assert_eq!(fs::read_dir(root.path().join("mine")).unwrap().count(), 0);
    }

    #[test]
    fn files_are_replaced_whole_and_leave_no_parts() {
        let root = tempfile::tempdir().unwrap();
        let store = create(&root.path().join("x")).unwrap();
        for value in 0..3 {
            store.write_json("blocks/0000.json", &value).unwrap();
        }
        let names: Vec<_> = fs::read_dir(store.dir().join("blocks")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["0000.json"]);
    }
}
