//! CPU lists as the kernel writes them: `0-3,8`, with stride `0-15:2` (every second CPU of the range).
//!
//! Parsing never looks at the host: whether a CPU exists is asked where the list is used. The order of the text is
//! kept out of the meaning: a list is an ascending set, and a text that says a CPU twice or a range backwards is an
//! error that names the position, because it is more often a slip than a wish.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest CPU number that a list may name (Linux: NR_CPUS is at most 8192).
const CPU_MAX: u32 = 8191;

/// An ascending set of CPU numbers, never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// Makes a list of CPU numbers in any order, duplicates removed; `None` if there are none.
    #[must_use]
    pub fn new(mut cpus: Vec<u32>) -> Option<Self> {
        cpus.sort_unstable();
        cpus.dedup();
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// The CPUs 0 to `count` - 1.
    #[must_use]
    pub fn first(count: NonZero<u32>) -> Self {
        Self((0..count.get()).collect())
    }

    /// The CPUs, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

/// Why a text is not a CPU list; positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Not a number where one must stand.
    #[error("CPU list '{text}': expected a CPU number from 0 to {CPU_MAX} at position {position}, as in '0-3,8'")]
    NotANumber {
        /// The list as given.
        text: String,
        /// Where.
        position: usize,
    },
    /// A range whose end is before its start.
    #[error("CPU list '{text}': the range at position {position} runs backwards; write the smaller CPU first")]
    Reversed {
        /// The list as given.
        text: String,
        /// Where.
        position: usize,
    },
    /// A CPU that was named before.
    #[error("CPU list '{text}': CPU {cpu} at position {position} is named twice; name each CPU once")]
    Duplicate {
        /// The list as given.
        text: String,
        /// Where.
        position: usize,
        /// Which.
        cpu: u32,
    },
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown: String = text.chars().take(80).collect();
        let mut seen = vec![false; CPU_MAX as usize + 1];
        let mut position = 1;
        for item in text.split(',') {
            let bad = |position| CpuListError::NotANumber { text: shown.clone(), position };
            let number = |digits: &str, position: usize| match digits.parse::<u32>() {
                Ok(n) if n <= CPU_MAX && digits.bytes().all(|b| b.is_ascii_digit()) => Ok(n),
                _ => Err(bad(position)),
            };
            let (range, stride) = match item.split_once(':') {
                Some((range, stride)) => {
                    let at = position + range.len() + 1;
                    let stride = number(stride, at)?;
                    // A stride of 0 would never end, one without a range means nothing.
                    if stride == 0 || !range.contains('-') {
                        return Err(bad(at));
                    }
                    (range, stride)
                }
                None => (item, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((a, b)) => (number(a, position)?, number(b, position + a.len() + 1)?),
                None => number(range, position).map(|n| (n, n))?,
            };
            if last < first {
                return Err(CpuListError::Reversed { text: shown, position });
            }
            for cpu in (first..=last).step_by(stride as usize) {
                if std::mem::replace(&mut seen[cpu as usize], true) {
                    return Err(CpuListError::Duplicate { text: shown, position, cpu });
                }
            }
            position += item.len() + 1;
        }
        Ok(Self((0..=CPU_MAX).filter(|cpu| seen[*cpu as usize]).collect()))
    }
}

impl fmt::Display for CpuList {
    /// The shortest form with ranges, without strides.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = CpuListError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_and_strides_are_read() {
        assert_eq!("0-3,8".parse::<CpuList>().unwrap().as_slice(), [0, 1, 2, 3, 8]);
        assert_eq!("0-15:5,1".parse::<CpuList>().unwrap().as_slice(), [0, 1, 5, 10, 15]);
    }

    #[test]
    fn errors_name_the_position() {
        for (text, want) in [
            ("", "position 1"),
            ("0,,1", "position 3"),
            ("3-1", "position 1 runs backwards"),
            ("0-3,2", "CPU 2 at position 5"),
            ("0-x", "position 3"),
            ("0-3:0", "position 5"),
            ("+1", "position 1"),
            ("9999", "position 1"),
        ] {
            let error = text.parse::<CpuList>().unwrap_err().to_string();
            assert!(error.contains(want), "'{text}' gave: {error}");
        }
    }

    proptest! {
        #[test]
        fn printing_reads_back(cpus in prop::collection::vec(0u32..=CPU_MAX, 1..40)) {
            let list = CpuList::new(cpus).unwrap();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn any_text_is_answered(text in ".{0,60}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
