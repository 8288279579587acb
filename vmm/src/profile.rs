//! The guest profile: sampled instruction pointers, resolved against the guest's symbols.

use std::collections::BTreeMap;

use guest::Symbol;

/// The function that `rip` is in, by symbols sorted by address; `None` before the first and behind the last's end.
#[must_use]
pub fn resolve(symbols: &[Symbol], rip: u64) -> Option<&str> {
    let after = symbols.partition_point(|symbol| symbol.address <= rip);
    let symbol = symbols.get(after.checked_sub(1)?)?;
    // A symbol without a size reaches to the next one, the last without a size nowhere.
    let end = if symbol.size > 0 { symbol.address + symbol.size } else { symbols.get(after)?.address };
    (rip < end).then_some(symbol.name.as_str())
}

/// Share of the samples in each function, 0 to 1; what belongs to none is `[unknown]`. Empty without samples.
#[must_use]
pub fn shares(symbols: &[Symbol], samples: &[u64]) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for rip in samples {
        *counts.entry(resolve(symbols, *rip).unwrap_or("[unknown]")).or_default() += 1;
    }
    let total: u32 = counts.values().sum();
    counts.into_iter().map(|(name, count)| (name.to_owned(), f64::from(count) / f64::from(total))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_between_functions_belong_to_none() {
        let symbol = |address, size, name: &str| Symbol { address, size, name: name.into() };
        let symbols = [symbol(100, 10, "a"), symbol(120, 0, "b"), symbol(130, 0, "end")];
        assert_eq!(resolve(&symbols, 99), None);
        assert_eq!(resolve(&symbols, 109), Some("a"));
        assert_eq!(resolve(&symbols, 110), None);
        assert_eq!(resolve(&symbols, 129), Some("b"), "without a size, up to the next");
        assert_eq!(resolve(&symbols, 130), None);
        let shares = shares(&symbols, &[100, 101, 120, 5]);
        assert_eq!(shares["a"], 0.5);
        assert_eq!(shares["[unknown]"], 0.25);
    }
}
