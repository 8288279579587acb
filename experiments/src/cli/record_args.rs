//! Options of `vmmlab run` that record traces: which block, into which files, and how much.

use std::path::PathBuf;

use clap::Args;
use trace::Limits;

use crate::exit::Error;
use crate::traced::Request;

/// Options of `vmmlab run` that record traces.
#[derive(Debug, Clone, Args)]
pub struct TraceOptions {
    /// Record one block: FILE.pftrace (Perfetto) or FILE.txt (ftrace); repeatable
    ///
    /// With several modes each gets a file of its own, FILE-MODE.txt. Open .pftrace at ui.perfetto.dev; .txt is read by
    /// `vmmlab trace summary`, `vmmlab report`, and tools for trace-cmd and perf.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Vec<PathBuf>,
    /// Block to record, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Output", hide_short_help = true)]
    pub trace_block: u32,
    /// Events to keep, from the start of the measured time; 24 bytes each [1000 to 100000000]
    #[arg(
        long, value_name = "N", default_value_t = Limits::EVENTS_DEFAULT as u64, help_heading = "Output", hide_short_help = true,
        value_parser = clap::value_parser!(u64).range(1_000..=100_000_000)
    )]
    pub trace_max_events: u64,
}

impl TraceOptions {
    /// What is to be recorded of an experiment of so many modes and blocks; `None` if nothing is.
    ///
    /// # Errors
    /// A file name without a known ending, or a block that the experiment does not have.
    pub fn request(&self, modes: usize, blocks: u32) -> Result<Option<Request>, Error> {
        if self.trace.is_empty() {
            return Ok(None);
        }
        if self.trace_block >= blocks {
            let (block, last) = (self.trace_block, blocks.saturating_sub(1));
            return Err(Error::Usage(format!("--trace-block {block} is out of range: the run has blocks 0 to {last}")));
        }
        let events_max = usize::try_from(self.trace_max_events).unwrap_or(usize::MAX);
        Request::new(&self.trace, self.trace_block, events_max, modes).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_not_there_is_refused() {
        let options = |block| TraceOptions { trace: vec!["a.txt".into()], trace_block: block, trace_max_events: 1000 };
        assert!(options(5).request(1, 6).unwrap().is_some());
        let error = options(6).request(1, 6).unwrap_err().to_string();
        assert_eq!(error, "--trace-block 6 is out of range: the run has blocks 0 to 5");
    }
}
