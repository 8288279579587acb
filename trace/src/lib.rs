//! Scheduling events of a run: recorded, written, read back, summed up.
//!
//! ```text
//!   sim ──┐  Recorder          Trace            ┌──► ftrace text (.txt)      any reader of ftrace or perf output
//!         ├──► Buffer ──merge──► events, names ──┤
//!   vmm ──┘  one a thread      of one run       └──► Perfetto (.pftrace)     ui.perfetto.dev
//!
//!   .txt, ours or a kernel's ──► lines ──► Timeline (what a report draws), Summary (runtimes, waits, switches)
//! ```
//! Units: nanoseconds of the run's clock (virtual time in the simulator, CLOCK_MONOTONIC on KVM); CPUs by the host
//! kernel's own numbers. Recording takes no lock and, once its [`Buffer`] is made, allocates nothing. What does not fit
//! is counted, never silently lost. The text form is the one that is read back: it streams, in bounded memory.
#![forbid(unsafe_code)]

mod buffer;
mod event;
pub mod ftrace;
mod names;
pub mod perfetto;
pub mod pftrace;
pub mod read;
mod recorder;
pub mod summary;
pub mod timeline;
mod whole;

pub use buffer::Buffer;
pub use event::{Event, ExitReason, PrevState, What, Who};
pub use names::{Names, Task};
pub use recorder::Recorder;
pub use whole::{Limits, Trace};
