//! Bounded reading of small files, and the values in them: CPU lists and masks as the kernel writes them.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use hostsched::topology::{CPUS_MAX, CpuId, CpuSet};
use plan::CpuList;

use super::ImportError;

/// No attribute of sysfs is larger than a page; masks of 8192 CPUs are 2304 characters.
pub(super) const ATTRIBUTE_MAX: u64 = 64 << 10;

/// The text of a regular file of at most `limit` bytes. NULs and blanks at the end are dropped: copies of sysfs are
/// often padded.
pub(super) fn text(path: &Path, limit: u64) -> Result<String, ImportError> {
    let failed = |source| ImportError::Read { path: path.to_owned(), source };
    // A FIFO would block, a device might never end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ImportError::content(path, "not a regular file; name the file that the tool wrote"));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(ImportError::TooLarge { path: path.to_owned(), limit });
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned())
}

/// As [`text`], for an attribute that need not exist.
pub(super) fn attribute(path: &Path) -> Result<Option<String>, ImportError> {
    match text(path, ATTRIBUTE_MAX) {
        Err(ImportError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// A number in an attribute.
pub(super) fn number(path: &Path, wanted: &'static str) -> Result<Option<u32>, ImportError> {
    let Some(text) = attribute(path)? else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| value(path, 1, 1, wanted, &text))
}

/// A CPU list (`0-3,8`) in an attribute; empty text is the empty set.
pub(super) fn list(path: &Path) -> Result<Option<CpuSet>, ImportError> {
    let Some(text) = attribute(path)? else { return Ok(None) };
    if text.trim().is_empty() {
        return Ok(Some(CpuSet::new()));
    }
    let list: CpuList = text.trim().parse().map_err(|source| ImportError::List { path: path.to_owned(), source })?;
    Ok(Some(list.as_slice().iter().copied().map(CpuId).collect()))
}

/// A set of CPUs in the attribute `NAME_list`, or as a mask in `NAME` where the kernel was too old to write lists.
pub(super) fn list_or_mask(dir: &Path, list_name: &str, mask_name: &str) -> Result<Option<CpuSet>, ImportError> {
    if let Some(set) = list(&dir.join(list_name))? {
        return Ok(Some(set));
    }
    let path = dir.join(mask_name);
    let Some(text) = attribute(&path)? else { return Ok(None) };
    const WANTED: &str = "a mask such as 00000000,000000ff with CPUs below 8192";
    mask(&text).map(Some).ok_or_else(|| value(&path, 1, 1, WANTED, &text))
}

/// A mask: words of 32 bits, the highest first, in hexadecimal; hwloc writes `0x` before each.
pub(super) fn mask(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for (at, word) in (0u32..).zip(text.trim().rsplit(',')) {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let word = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).ok()? };
        // `from_str_radix` takes a sign; a mask has none.
        if digits.starts_with('+') || (word != 0 && at >= CPUS_MAX / 32) {
            return None;
        }
        set.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| CpuId(at * 32 + bit)));
    }
    Some(set)
}

/// The error for a value at a place.
pub(super) fn value(path: &Path, line: usize, column: usize, wanted: &'static str, found: &str) -> ImportError {
    let found = found.chars().take(40).collect();
    ImportError::Value { path: path.to_owned(), line, column, wanted, found }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn masks_are_read_as_the_kernel_and_hwloc_write_them() {
        for (text, want) in [
            ("00000000,000aaaa0", "5,7,9,11,13,15,17,19"),
            ("ff", "0-7"),
            ("0x000000ff,0x0", "32-39"),
            ("0x0000000f,,0x1", "0,64-67"),
            ("0", ""),
        ] {
            assert_eq!(mask(text).map(|set| set.to_string()).as_deref(), Some(want), "{text}");
        }
        let beyond = format!("1{}", ",0".repeat(256));
        for text in ["0xf...f", "-1", "+1", "xyz", "100000000", &beyond] {
            assert_eq!(mask(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mask_says_what_the_set_holds(cpus in prop::collection::btree_set(0u32..CPUS_MAX, 0..50)) {
            let set: CpuSet = cpus.iter().copied().map(CpuId).collect();
            let word = |at: u32| (0..32).filter(|bit| set.contains(CpuId(at * 32 + bit))).map(|bit| 1u32 << bit).sum::<u32>();
            let words: Vec<String> = (0..CPUS_MAX / 32).rev().map(|at| format!("{:08x}", word(at))).collect();
            prop_assert_eq!(mask(&words.join(",")), Some(set));
        }

        #[test]
        fn any_mask_is_answered(text in "[0-9a-fx,.+ -]{0,40}|.{0,20}") {
            let _ = mask(&text);
        }
    }
}
