//! `--event-log FILE`: every event of simulated runs, a line each, with its legend on top.
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim::EventLog;
use sim::observe::Watch;

use super::engine::Place;
use crate::exit::Error;

/// The most events that a file takes: some 30 MB.
const LINES_MAX: u64 = 1_000_000;

/// The log and its file.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    log: EventLog,
}

impl Log {
    /// A new file, made now, so that a place that cannot be written to is known before the runs.
    ///
    /// # Errors
    /// Runs that are not simulated; a file that is there already or cannot be made.
    pub(super) fn create(path: &Path, place: &Place) -> Result<Self, Error> {
        if matches!(place, Place::Kvm) {
            let why = "a real host does not tell every event: add --engine sim, or leave it out";
            return Err(Error::Usage(format!("--event-log {}: {why}", path.display())));
        }
        Self::open(path)
    }

    /// The same for runs that are simulated in any case.
    ///
    /// # Errors
    /// A file that is there already or cannot be made.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::create_new(path).map_err(|source| {
            let path = path.display();
            Error::Usage(format!("--event-log {path}: cannot create it ({source}); name a new file"))
        })?;
        Ok(Self { path: path.to_owned(), file, log: EventLog::new(LINES_MAX) })
    }

    /// What runs show their events to.
    pub(super) fn watch(&self) -> Arc<dyn Watch> {
        Arc::new(self.log.clone())
    }

    /// Writes what there is.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn write(&self) -> Result<(), Error> {
        (&self.file).write_all(self.log.render().as_bytes()).map_err(Error::file("write", &self.path))?;
        let left_out = self.log.left_out();
        if left_out > 0 {
            let path = self.path.display();
            anstream::eprintln!("notice: {path} has the first {LINES_MAX} events; {left_out} more do not fit");
        }
        Ok(())
    }
}
