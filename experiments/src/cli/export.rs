//! `vmmlab export hlog`: a run directory's histograms as an HdrHistogram interval log.
//!
//! One interval a run, tagged with its mode: what HistogramLogProcessor and HdrHistogram's plotters read. An experiment has no
//! clock that all runs share, so a log's time is the measured time, run after run, in the order of the blocks.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use plan::{RunRecord, metric};

use super::print;
use crate::exit::{Error, Exit};

/// Options of `vmmlab export`.
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// What to write
    #[command(subcommand)]
    pub command: ExportCommand,
}

/// Formats of other tools.
#[derive(Debug, Clone, Subcommand)]
pub enum ExportCommand {
    /// HdrHistogram interval log (V2), a tag a mode
    Hlog(HlogArgs),
}

/// Options of `vmmlab export hlog`.
#[derive(Debug, Clone, Args)]
pub struct HlogArgs {
    /// Run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Which histogram: flush_wait, ipi_delivery, runqueue_wait, dispatch, ...
    #[arg(long, value_name = "NAME", default_value = metric::FLUSH_WAIT)]
    pub histogram: String,
    /// File to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The largest file of a block that is read: far above any that was written.
const BLOCK_MAX_BYTES: u64 = 1 << 30;

pub(super) fn export(args: &ExportArgs) -> Result<Exit, Error> {
    let ExportCommand::Hlog(args) = &args.command;
    let mut log = Vec::new();
    hlog(&args.dir, &args.histogram, &mut log)?;
    match &args.output {
        // The format is ASCII.
        None => print(&String::from_utf8_lossy(&log))?,
        Some(path) => {
            let mut file = fs::File::create(path).map_err(Error::file("write", path))?;
            file.write_all(&log).map_err(Error::file("write", path))?;
        }
    }
    Ok(Exit::Ok)
}

/// Writes the log of one histogram of a run directory.
fn hlog(dir: &Path, name: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    let runs = runs(dir)?;
    let found: Vec<(&RunRecord, Histogram<u64>)> =
        runs.iter().filter_map(|run| run.histograms.get(name)?.whole().map(|histogram| (run, histogram))).collect();
    if found.is_empty() {
        let mut known: Vec<&str> = runs.iter().flat_map(|run| run.histograms.keys().map(String::as_str)).collect();
        known.sort_unstable();
        known.dedup();
        let (dir, known) = (dir.display(), known.join(", "));
        return Err(Error::Usage(format!("--histogram {name}: no run in {dir} has its values; there are: {known}")));
    }
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(&format!("vmmlab {name}, values in ns, Interval_Max in ms, a tag a mode"));
    builder.with_max_value_divisor(1e6);
    let write = || -> io::Result<()> {
        let mut log = builder.begin_log_with(out, &mut serializer)?;
        let mut start = Duration::ZERO;
        for (run, histogram) in found {
            let duration = Duration::from_nanos(run.duration_ns);
            let tag = Tag::new(&run.mode);
            log.write_histogram(&histogram, start, duration, tag).map_err(|e| io::Error::other(format!("{e:?}")))?;
            start += duration;
        }
        Ok(())
    };
    write().map_err(Error::file("write", Path::new("the interval log")))
}

/// The records of all blocks, in order.
fn runs(dir: &Path) -> Result<Vec<RunRecord>, Error> {
    let blocks = dir.join("blocks");
    let entries = fs::read_dir(&blocks).map_err(|error| {
        Error::Usage(format!("{} is no run directory: cannot read {} ({error})", dir.display(), blocks.display()))
    })?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.sort();
    let mut runs = Vec::new();
    for path in files {
        let too_large = fs::metadata(&path).is_ok_and(|data| data.len() > BLOCK_MAX_BYTES);
        let text = if too_large { Err(io::ErrorKind::FileTooLarge.into()) } else { fs::read_to_string(&path) };
        let text = text.map_err(Error::file("read", &path))?;
        let of_block: Vec<RunRecord> = serde_json::from_str(&text)
            .map_err(|error| Error::Usage(format!("{} holds no records: {error}", path.display())))?;
        runs.extend(of_block);
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use plan::{HistogramSummary, Mode};

    use super::*;
    use crate::experiment::tests::sample;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 1 << 36, 3).unwrap();
        values.iter().for_each(|ns| histogram.record(*ns).unwrap());
        histogram
    }

    /// A directory with two blocks of two modes; the values of block b and mode m are 1000 b + m + {1, 2}.
    fn directory() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("blocks")).unwrap();
        let experiment = sample(&[Mode::Base, Mode::Gang], 2);
        for block in 0..2 {
            let record = |(m, plan): (u64, &plan::RunPlan)| {
                let mut record = RunRecord::empty(plan);
                record.duration_ns = 3_000_000_000;
                let base = u64::from(block) * 1000 + m;
                let summary = HistogramSummary::of(&histogram(&[base + 1, base + 2]));
                record.histograms.insert(metric::FLUSH_WAIT.into(), summary);
                record
            };
            let records: Vec<_> = (0..).zip(&experiment.block(block)).map(record).collect();
            let text = serde_json::to_string(&records).unwrap();
            fs::write(dir.path().join(format!("blocks/{block:04}.json")), text).unwrap();
        }
        dir
    }

    #[test]
    fn the_log_is_read_back_by_the_reader_of_the_format() {
        let dir = directory();
        let mut log = Vec::new();
        hlog(dir.path(), metric::FLUSH_WAIT, &mut log).unwrap();
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&log) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            let bytes = base64(interval.encoded_histogram());
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            let tag = interval.tag().unwrap().as_str().to_owned();
            found.push((tag, interval.start_timestamp().as_secs(), interval.duration().as_secs(), histogram));
        }
        let expected = [
            ("base", 0, [1, 2]),
            ("gang", 3, [2, 3]),
            // Odd blocks run the modes in reverse.
            ("gang", 6, [1001, 1002]),
            ("base", 9, [1002, 1003]),
        ];
        assert_eq!(found.len(), expected.len());
        for ((tag, start, duration, got), (mode, at, values)) in found.iter().zip(expected) {
            assert_eq!((tag.as_str(), *start, *duration), (mode, at, 3));
            assert_eq!(*got, histogram(&values), "{mode}");
        }
    }

    #[test]
    fn what_is_not_there_is_a_usage_error_that_says_what_is() {
        let dir = directory();
        let error = hlog(dir.path(), "dispatch", &mut Vec::new()).unwrap_err();
        assert!(error.to_string().ends_with("there are: flush_wait"), "{error}");
        let error = hlog(&dir.path().join("blocks"), "dispatch", &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("is no run directory"), "{error}");
        fs::write(dir.path().join("blocks/0002.json"), "[1]").unwrap();
        let error = hlog(dir.path(), "dispatch", &mut Vec::new()).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage, "{error}");
    }

    /// RFC 4648, with padding.
    fn base64(text: &str) -> Vec<u8> {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text.trim_end_matches('=').bytes();
        let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
        for digit in digits {
            let value = alphabet.iter().position(|c| *c == digit).unwrap();
            bits = bits << 6 | u32::try_from(value).unwrap();
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
            }
        }
        bytes
    }
}
