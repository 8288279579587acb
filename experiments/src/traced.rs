//! Traces of an experiment: an engine that records the runs of one block and writes each to files.
//!
//! ```text
//!   --trace a.pftrace --trace a.txt, modes base,gang, --trace-block 0
//!
//!   block 0, base ──► a-base.pftrace, a-base.txt        with one mode: a.pftrace, a.txt
//!   block 0, gang ──► a-gang.pftrace, a-gang.txt
//!   other blocks      are not recorded, and cost nothing
//! ```
//! A file is made before its run begins, so that a place that cannot be written to is told before anything was measured,
//! and gets its name when it is complete. What is there under that name is replaced, as other tracers do.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use plan::{Control, Engine, EngineError, RunPlan, RunRecord};
use trace::{Limits, Trace, ftrace, pftrace};

use crate::exit::Error;

/// The form of a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `.pftrace`.
    Perfetto,
    /// `.txt`.
    Text,
}

/// Which runs are recorded, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    files: Vec<(PathBuf, Form)>,
    block: u32,
    limits: Limits,
    /// Files are named after the mode.
    several_modes: bool,
}

impl Request {
    /// Records block `block` of `modes` modes into `files`.
    ///
    /// # Errors
    /// A file whose name says no form, or that cannot be written: better now than after the first run.
    pub fn new(files: &[PathBuf], block: u32, events_max: usize, modes: usize) -> Result<Self, Error> {
        let form = |path: &PathBuf| {
            let form = match path.extension().and_then(|ext| ext.to_str()) {
                Some("pftrace") => Form::Perfetto,
                Some("txt") => Form::Text,
                _ => {
                    let name = path.display();
                    let text =
                        format!("--trace {name}: the name ends in neither .pftrace (Perfetto) nor .txt (ftrace text)");
                    return Err(Error::Usage(text));
                }
            };
            // Made and dropped, which takes it away again.
            Part::create(path, form).map_err(|source| {
                let name = path.display();
                Error::Usage(format!(
                    "--trace {name} cannot be written ({source}); name a file in a writable directory"
                ))
            })?;
            Ok((path.clone(), form))
        };
        let files = files.iter().map(form).collect::<Result<_, _>>()?;
        Ok(Self { files, block, limits: Limits { events_max }, several_modes: modes > 1 })
    }

    /// Where a mode's trace goes.
    fn path(&self, file: &Path, mode: &str) -> PathBuf {
        if !self.several_modes {
            return file.to_owned();
        }
        let mut name: OsString = file.file_stem().unwrap_or_default().to_owned();
        name.push("-");
        name.push(mode);
        name.push(".");
        name.push(file.extension().unwrap_or_default());
        file.with_file_name(name)
    }
}

/// An engine whose runs of one block are recorded.
#[derive(Debug)]
pub struct Traced<E> {
    engine: E,
    request: Request,
}

impl<E> Traced<E> {
    /// `engine`, with its runs recorded as `request` says.
    #[must_use]
    pub fn new(engine: E, request: Request) -> Self {
        Self { engine, request }
    }
}

impl<E: Engine> Engine for Traced<E> {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn run(&self, plan: &RunPlan, control: &Control) -> Result<RunRecord, EngineError> {
        if plan.block != self.request.block || self.request.files.is_empty() {
            return self.engine.run(plan, control);
        }
        let opened = self.request.files.iter().map(|(file, form)| {
            let path = self.request.path(file, &plan.mode);
            Part::create(&path, *form).map_err(|source| failed(&path, source))
        });
        let parts: Vec<Part> = opened.collect::<Result<_, _>>()?;
        let (mut record, mut trace) = self.engine.run_traced(plan, control, self.request.limits)?;
        trace.title = format!("{}, mode {}, block {}, seed {}", self.name(), plan.mode, plan.block, plan.seed);
        for part in parts {
            let path = part.path.clone();
            part.finish(&trace).map_err(|source| failed(&path, source))?;
            record.notices.push(notice(&path, &trace));
        }
        Ok(record)
    }
}

/// `engine`, with its runs recorded if that is asked for.
#[must_use]
pub fn traced<'a, E: Engine + Sync + 'a>(engine: E, request: Option<Request>) -> Box<dyn Engine + Sync + 'a> {
    match request {
        Some(request) => Box::new(Traced::new(engine, request)),
        None => Box::new(engine),
    }
}

fn failed(path: &Path, source: io::Error) -> EngineError {
    EngineError::Internal { what: format!("Cannot write the trace {}", path.display()), source: Some(Box::new(source)) }
}

/// One line about a trace that was written.
fn notice(path: &Path, trace: &Trace) -> String {
    let kept = trace.events.len();
    let dropped = if trace.dropped == 0 {
        "none dropped".to_owned()
    } else {
        format!("the {} after them dropped (--trace-max-events)", trace.dropped)
    };
    format!("trace {}: {kept} events, {dropped}", path.display())
}

/// A trace file that is not complete: it has another name, and vanishes if it never is.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    part: PathBuf,
    form: Form,
    file: Option<File>,
}

impl Part {
    fn create(path: &Path, form: Form) -> io::Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part)?;
        Ok(Self { path: path.to_owned(), part, form, file: Some(file) })
    }

    fn finish(mut self, trace: &Trace) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut out = BufWriter::new(file);
        let written = match self.form {
            Form::Perfetto => pftrace::write(trace, &mut out),
            Form::Text => ftrace::write(trace, &mut out),
        };
        let moved = written.and_then(|()| out.flush()).and_then(|()| fs::rename(&self.part, &self.path));
        if moved.is_err() {
            let _ = fs::remove_file(&self.part);
        }
        moved
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(files: &[&str], modes: usize) -> Result<Request, String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        Request::new(&files, 0, 10, modes).map_err(|error| error.to_string())
    }

    #[test]
    fn files_of_several_modes_are_named_after_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.b.txt");
        let path = |modes| Request::new(std::slice::from_ref(&file), 0, 10, modes).unwrap().path(&file, "gang+pin=no");
        assert_eq!(path(1), file);
        assert_eq!(path(2), dir.path().join("a.b-gang+pin=no.txt"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "asking leaves nothing behind");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_before_the_run() {
        let error = request(&["/nowhere/at/all/t.txt"], 1).unwrap_err();
        assert!(error.starts_with("--trace /nowhere/at/all/t.txt cannot be written"), "{error}");
    }

    #[test]
    fn the_name_says_the_form() {
        for bad in ["a", "a.json", "pftrace", ".txt"] {
            let error = request(&[bad], 1).unwrap_err();
            assert!(error.starts_with(&format!("--trace {bad}: ")), "{error}");
        }
        assert!(request(&["a.txt", "b.pftrace"], 1).is_ok());
    }

    #[test]
    fn a_file_that_is_never_finished_vanishes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        drop(Part::create(&path, Form::Text).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Part::create(&path, Form::Text).unwrap().finish(&Trace::default()).unwrap();
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.txt"]);
    }
}
