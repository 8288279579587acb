//! The console of a VM: what its guest prints, line by line, into the log.
//!
//! A serial port of vm-superio takes the bytes, as it would from a driver that writes its data register; behind it
//! stands a writer that cuts lines. The last lines are kept for the message of a guest that panicked.

use std::collections::VecDeque;
use std::io::{self, Write};

use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};

/// Offset of the transmit register.
const DATA: u8 = 0;
/// Longest line that is kept together, in bytes.
const LINE_MAX: usize = 512;
/// Lines that are remembered.
const LINES_KEPT: usize = 4;

/// The serial port's interrupt line, which nobody listens to: the guest only prints.
#[derive(Debug)]
struct NoInterrupt;

impl Trigger for NoInterrupt {
    type E = std::convert::Infallible;
    fn trigger(&self) -> Result<(), Self::E> {
        Ok(())
    }
}

#[derive(Debug)]
struct Lines {
    vm: u32,
    line: Vec<u8>,
    last: VecDeque<String>,
}

impl Lines {
    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        tracing::info!(vm = self.vm, "guest: {text}");
        if self.last.len() == LINES_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                byte => self.line.push(*byte),
            }
            if self.line.len() == LINE_MAX {
                self.end_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The console of one VM.
#[derive(Debug)]
pub struct Console {
    port: Serial<NoInterrupt, NoEvents, Lines>,
}

impl Console {
    /// A silent console of VM `vm`.
    #[must_use]
    pub fn new(vm: u32) -> Self {
        Self { port: Serial::new(NoInterrupt, Lines { vm, line: Vec::new(), last: VecDeque::new() }) }
    }

    /// Prints.
    pub fn print(&mut self, text: &[u8]) {
        for byte in text {
            // Neither the writer nor the interrupt line can fail.
            let _ = self.port.write(DATA, *byte);
        }
    }

    /// The last lines and what follows them, joined; empty if nothing was printed.
    #[must_use]
    pub fn tail(&self) -> String {
        let lines = self.port.writer();
        let rest = String::from_utf8_lossy(&lines.line);
        let all = lines.last.iter().map(String::as_str).chain((!rest.is_empty()).then_some(rest.as_ref()));
        all.collect::<Vec<_>>().join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_no_line_grows_without_bound() {
        let mut console = Console::new(0);
        assert_eq!(console.tail(), "");
        console.print(b"a\nb\nc\nd\ne\nrest");
        assert_eq!(console.tail(), "b | c | d | e | rest");
        console.print(&vec![b'x'; 10 * LINE_MAX]);
        assert!(console.tail().len() < (LINES_KEPT + 1) * (LINE_MAX + 3));
    }
}
