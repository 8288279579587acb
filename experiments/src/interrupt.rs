//! Ctrl-C in two stages: the first ends the current run and keeps a partial result, the second does not wait long.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plan::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::exit::Exit;

/// How long a second signal leaves to the clean end that the first one has asked for.
const GRACE: Duration = Duration::from_secs(1);

/// Watches SIGINT, SIGTERM and SIGHUP as long as it lives.
#[derive(Debug)]
pub struct Watch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch: the first signal aborts `control`.
    ///
    /// # Errors
    /// When the kernel refuses a handler or a thread.
    pub fn start(control: Control) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                if control.aborted() {
                    anstream::eprintln!("interrupted again: leaving within {} s", GRACE.as_secs());
                    thread::sleep(GRACE);
                    std::process::exit(i32::from(Exit::Interrupted as u8));
                }
                anstream::eprintln!("interrupted: ending this run and keeping what was measured");
                control.abort();
            }
        })?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, there is nothing left for it to do.
            let _ = thread.join();
        }
    }
}
