//! Reading traces in text form, line by line: ours, `trace-cmd report`, the kernel's `trace` file, `perf sched script`.
//!
//! ```text
//!       vcpu0.3-4     [002] d.h. 1.500000: sched_switch: prev_comm=...      ftrace; flags and tgid may be there
//!       swapper     0 [001] 9246430.572061: sched:sched_wakeup: comm=...    perf
//! ```
//! A trace is untrusted input. It is read once, in bounded memory: a line longer than [`LINE_MAX`] is damaged and
//! skipped, bytes that are no UTF-8 are replaced, and nothing that a line says is used as an index or a size. A damaged
//! line is a value ([`Damage`]) beside the good ones, never an error: real traces have some.
mod fields;
mod line;

use std::io::{self, BufRead};

pub use line::{Body, Damage, Line, State, Thread};

/// The longest line that is looked at, in bytes.
pub const LINE_MAX: usize = 64 * 1024;

/// What one line of a trace is.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event.
    Event(Line<'a>),
    /// The tracer lost that many events here.
    Lost(u64),
    /// Looks like an event and cannot be read.
    Damaged(Damage),
}

/// Calls `each` with every event, loss and damage, and the number of its line, from 1. Comments, headers and empty
/// lines are passed over.
///
/// # Errors
/// Those of `input`.
pub fn read(mut input: impl BufRead, mut each: impl FnMut(u64, Item<'_>)) -> io::Result<()> {
    let mut buffer = Vec::new();
    for number in 1.. {
        let Some(fits) = next_line(&mut input, &mut buffer)? else { break };
        if !fits {
            each(number, Item::Damaged(Damage::TooLong));
            continue;
        }
        let text = String::from_utf8_lossy(&buffer);
        if let Some(item) = line::parse(text.trim_end()) {
            each(number, item);
        }
    }
    Ok(())
}

/// Reads the next line into `buffer`: `None` at the end, false if it is longer than [`LINE_MAX`] (and then skipped).
fn next_line(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Option<bool>> {
    buffer.clear();
    let mut fits = true;
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            return Ok((!buffer.is_empty() || !fits).then_some(fits));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        fits &= buffer.len() + part.len() <= LINE_MAX;
        if fits {
            buffer.extend_from_slice(part);
        } else {
            buffer.clear();
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(fits));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        let reader = io::BufReader::with_capacity(7, bytes);
        read(reader, |number, item| found.push((number, format!("{item:?}")))).unwrap();
        found
    }

    #[test]
    fn a_line_without_end_is_a_line_and_a_long_one_is_damaged_and_skipped() {
        let long = "x".repeat(LINE_MAX + 1);
        let text = format!("# comment\n{long}\n\n a-1 [000] 1.5: kvm_entry: vcpu 0");
        let found = all(text.as_bytes());
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(found[0].1, "Damaged(TooLong)");
        assert!(found[1].1.starts_with("Event("), "{}", found[1].1);
        assert_eq!(all(long.as_bytes()).len(), 1, "a long last line counts too");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            all(&bytes);
        }

        /// Near misses: lines made of the pieces that real lines are made of.
        #[test]
        fn shuffled_pieces_of_lines_never_panic(pieces in prop::collection::vec(prop::sample::select(vec![
            "a-1", " ", "[000]", "[99999999999999999999]", "1.5:", "18446744073709551616.999999999999:", "sched_switch:",
            "sched:", "prev_comm=", " prev_pid=", "prev_state=", " ==> ", "next_comm=", " next_pid=", "-1", ":", "é",
            "sched_wakeup:", "comm=x", " pid=", " target_cpu=", "tracing_mark_write:", "B|", "|", "kvm_exit:", "\n", "[",
            "reason", "ipi_raise:", "target_mask=", ",", "[LOST 5 EVENTS]", "CPU:1", "(1)", "4294967296", "kvm_hypercall:",
        ]), 0..40)) {
            all(pieces.concat().as_bytes());
        }
    }
}
