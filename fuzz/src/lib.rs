//! What the fuzz targets in `tests/` share: how often they run, what they are bounded by, and inputs that get past the
//! first check.
//!
//! # Problem
//! A guest may write any byte at any time, a result may come from anywhere, an option from a script. None of it may make
//! the lab panic, read out of bounds, or take memory or time without limit.
//!
//! # How
//! Every target is an ordinary test with an engine of bolero's behind it:
//!
//! ```text
//!   cargo test -p fuzz --release                                   500 random inputs each
//!   VMMLAB_FUZZ_ITERATIONS=500000 cargo test -p fuzz --release     as many as one likes
//!   cargo bolero test -p fuzz trace_text                           the same target under libFuzzer, AFL, honggfuzz
//! ```
//! At the end it prints how many inputs it has run and what the slowest cost. A failing input is shown, shrunk, with its
//! seed; `BOLERO_RANDOM_SEED` runs it again.
//!
//! # Inputs
//! Random bytes almost never pass a magic number, a schema, or a balanced bracket. So for most targets the bytes are no
//! document but a [`Script`]: which valid document to take, and how to [damage](mutate) it. A fuzzer that is guided by
//! coverage learns to write scripts as it learns to write documents.
//!
//! # Bounds
//! [`Target::run`] limits the CPU time of one input, and the address space of the process: an allocation in proportion to a
//! number in the input ends the test.
#![forbid(unsafe_code)]

mod json;
mod mutate;
mod scratch;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::ClockId;

pub use json::Documents;
pub use mutate::{LIST_WORDS, Script, bytes, mutate, text};
pub use scratch::Scratch;

/// Runs of a target without the environment variable.
const ITERATIONS: usize = 500;

/// The environment variable that says how many inputs each target runs.
pub const ITERATIONS_VARIABLE: &str = "VMMLAB_FUZZ_ITERATIONS";

/// Most CPU time that one input may take. The slowest honest ones take a tenth of it in a debug build.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Most memory of all targets that run side by side.
const DATA_MAX: u64 = 4 << 30;

/// Longest input in bytes.
pub const INPUT_MAX: usize = 4096;

/// How many inputs to run.
///
/// # Panics
/// If the environment says it with something else than a number.
#[must_use]
pub fn iterations() -> usize {
    std::env::var(ITERATIONS_VARIABLE).map_or(ITERATIONS, |text| {
        text.parse().unwrap_or_else(|_| panic!("{ITERATIONS_VARIABLE}={text}: it takes a whole number, such as 500000"))
    })
}

/// A file of the repository, by its path from the root.
///
/// # Panics
/// If it is not there.
#[must_use]
pub fn committed(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A target under its bounds.
#[derive(Debug)]
pub struct Target {
    name: &'static str,
    ran: u64,
    slowest: Duration,
}

impl Target {
    /// The target of that name. From now on the process cannot get more memory than its bound.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        let limit = getrlimit(Resource::Data);
        // Best effort: a lower limit that is there already is as good.
        let _ = setrlimit(Resource::Data, Rlimit { current: Some(DATA_MAX), maximum: limit.maximum });
        Self { name, ran: 0, slowest: Duration::ZERO }
    }

    /// Runs one input.
    ///
    /// # Panics
    /// If it takes too much time; and with whatever `input` panics with.
    pub fn run(&mut self, input: impl FnOnce()) {
        let before = cpu_time();
        input();
        let took = cpu_time().saturating_sub(before);
        self.ran += 1;
        self.slowest = self.slowest.max(took);
        assert!(took < TIME_MAX, "{}: one input took {took:?}", self.name);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        println!("fuzz {}: {} executions, the slowest took {:?} of CPU time", self.name, self.ran, self.slowest);
    }
}

/// What this thread has used.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Declares a target: `target!(name, setup, |state, input| ...)` runs the body for every input, with `&mut state` made once.
#[macro_export]
macro_rules! target {
    ($name:ident, $setup:expr, |$state:ident, $input:ident| $body:expr) => {
        #[test]
        fn $name() {
            let mut state = $setup;
            let mut target = $crate::Target::new(stringify!($name));
            let shared = std::sync::Mutex::new((&mut state, &mut target));
            bolero::check!().with_iterations($crate::iterations()).with_max_len($crate::INPUT_MAX).for_each(
                |$input: &[u8]| {
                    // A failing input poisons it, and is run again to be shrunk.
                    let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    let ($state, target) = &mut *shared;
                    target.run(|| $body);
                },
            );
        }
    };
}
