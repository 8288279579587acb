//! Every way in which `vmmlab` can end, and the exit code of each. The codes are an interface for scripts.

use std::path::{Path, PathBuf};

use plan::{EngineError, PlanError};

use crate::compare::CompareError;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// A run failed its own checks: stale read, lost kick, injected fault caught, watchdog, guest crash. Of `compare`: a
    /// regression.
    Failed = 1,
    /// The command line or a file asks for what cannot be.
    Usage = 2,
    /// Nothing can be concluded, or unlike things were to be compared.
    Inconclusive = 3,
    /// This host cannot run it: no usable KVM.
    Unsupported = 4,
    /// A fault of vmmlab itself.
    Internal = 70,
    /// `compare --bisect`: this commit says nothing; `git bisect run` skips it.
    Skip = 125,
    /// Stopped from outside.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that cannot be met as it stands: flag, value, and what would be right.
    #[error("{0}")]
    Usage(String),
    /// A plan outside its ranges.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What the engine says.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// This host lacks what the command is about.
    #[error("{0}")]
    Unavailable(String),
    /// What cgroups say.
    #[error(transparent)]
    Cgroup(#[from] vmm::cgroup::CgroupError),
    /// A topology that cannot be had.
    #[error(transparent)]
    Topology(#[from] crate::topology::TopologyError),
    /// The run directory cannot be made.
    #[error("--out {}: cannot create it ({source}); name a new directory in a place that you may write to", .path.display())]
    Out {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A result cannot be read.
    #[error(transparent)]
    Result(#[from] crate::result::ReadError),
    /// Results cannot be compared.
    #[error(transparent)]
    Compare(#[from] crate::compare::CompareError),
    /// A file cannot be read or written.
    #[error("Cannot {verb} {}", .path.display())]
    File {
        /// `read`, `write` or `lock`.
        verb: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The result cannot be printed.
    #[error("Cannot write the result to stdout")]
    Stdout(#[source] std::io::Error),
    /// Signals cannot be received.
    #[error("Cannot watch for Ctrl-C")]
    Signals(#[source] std::io::Error),
}

impl Error {
    /// A file that the user named, or that stands where the user pointed, cannot be read.
    pub(crate) fn input(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| {
            let path = path.display();
            Self::Usage(format!("cannot read {path} ({source}); name a file or directory that is there and readable"))
        }
    }

    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { verb, path: path.to_owned(), source }
    }

    /// The exit code of this error.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Compare(CompareError::NotAlike(_) | CompareError::NothingInCommon { .. }) => Exit::Inconclusive,
            Self::Usage(_)
            | Self::Result(_)
            | Self::Compare(_)
            | Self::Plan(_)
            | Self::Topology(_)
            | Self::Out { .. }
            | Self::Engine(EngineError::BadPlan(_)) => Exit::Usage,
            Self::Engine(EngineError::Unsupported(_)) | Self::Unavailable(_) | Self::Cgroup(_) => Exit::Unsupported,
            Self::Engine(EngineError::Internal { .. }) | Self::File { .. } | Self::Stdout(_) | Self::Signals(_) => {
                Exit::Internal
            }
        }
    }

    /// The error and its causes in one line: each sentence once.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let sentence = error.to_string();
            if !text.contains(&sentence) {
                text.push_str(": ");
                text.push_str(&sentence);
            }
            cause = error.source();
        }
        text
    }
}
