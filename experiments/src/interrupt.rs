//! Ctrl-C in two stages: the first one finishes the block and keeps a partial result, the second one does not wait long.
//!
//! ```text
//!   signal   what ends                              what is kept
//!   1st      nothing new begins after this block    every block, whole; marked partial if blocks are missing
//!   2nd      the run that is under way              the same, and what that run has measured, marked partial
//!   +1 s     the process                            what was on disk
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plan::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

use crate::exit::Exit;

/// How long a second signal leaves to the clean end that it has asked for.
const GRACE: Duration = Duration::from_secs(1);

/// What was asked for from outside; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    after_block: Arc<AtomicBool>,
    now: Control,
}

impl Stop {
    /// Asks that nothing begins after the present block.
    pub fn after_block(&self) {
        self.after_block.store(true, Ordering::Release);
    }

    /// Asks that the present run ends at once.
    pub fn now(&self) {
        self.after_block();
        self.now.abort();
    }

    /// True once anything was asked for.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.after_block.load(Ordering::Acquire) || self.now.aborted()
    }

    /// What an engine looks at during a run.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.now
    }
}

/// Watches SIGINT, SIGTERM and SIGHUP as long as it lives.
#[derive(Debug)]
pub struct Watch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    /// Never sent on: its end tells the thread that the clean end was reached.
    ended: Option<mpsc::Sender<()>>,
}

impl Watch {
    /// Starts to watch.
    ///
    /// # Errors
    /// When the kernel refuses a handler or a thread.
    pub fn start(stop: Stop) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let (ended, end) = mpsc::channel();
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                if stop.asked() {
                    anstream::eprintln!("interrupted again: leaving within {} s", GRACE.as_secs());
                    stop.now();
                    if end.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                        std::process::exit(i32::from(Exit::Interrupted as u8));
                    }
                    return;
                }
                anstream::eprintln!("interrupted: finishing this block, then ending; once more ends it at once");
                stop.after_block();
            }
        })?;
        Ok(Self { handle, thread: Some(thread), ended: Some(ended) })
    }
}

/// Lets a file that grows beyond the process's limit (`ulimit -f`) be an error of its write, instead of a signal that ends
/// the process with its cgroups and threads as they are.
///
/// # Errors
/// When the system refuses the handler.
pub fn outlive_file_limit() -> io::Result<()> {
    // What the handler stores is nobody's business: the write that fails says enough.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended = None;
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, there is nothing left for it to do.
            let _ = thread.join();
        }
    }
}
