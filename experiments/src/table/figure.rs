//! Numbers as people read them: three digits that matter, a unit, no digits that pretend.

/// What stands where there is no value: never a zero.
pub(crate) const MISSING: &str = "-";

/// A time of `ns` nanoseconds with three digits: `850 ns`, `36.1 us`, `1.24 ms`, `12.0 s`.
pub(crate) fn time(ns: f64) -> String {
    let (unit, name) =
        [(1e9, "s"), (1e6, "ms"), (1e3, "us")].into_iter().find(|(unit, _)| ns >= unit * 0.9995).unwrap_or((1.0, "ns"));
    format!("{} {name}", three_digits(ns / unit))
}

/// A setting of `ns` nanoseconds, exact: `12 ms`, `1.5 ms`.
pub(crate) fn setting(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ns >= *unit).unwrap_or((1, "ns"));
    let (whole, rest) = (ns / unit, ns % unit);
    let digits = format!("{:0width$}", rest, width = unit.ilog10() as usize);
    match digits.trim_end_matches('0') {
        "" => format!("{whole} {name}"),
        decimals => format!("{whole}.{decimals} {name}"),
    }
}

/// A number of things per second: `0.50`, `12.3`, `123`, `12,345`.
pub(crate) fn rate(per_s: f64) -> String {
    three_digits(per_s)
}

/// A share 0..1 in percent, `61 %`; below 10 % with a decimal.
pub(crate) fn share(share: f64) -> String {
    // An empty sum is -0.0.
    let percent = share * 100.0 + 0.0;
    if percent == 0.0 || percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// A signed change in percent, without the sign of percent: `+241`, `-3.1`.
pub(crate) fn signed(percent: f64) -> String {
    if percent.abs() >= 99.95 { grouped(&format!("{percent:+.0}")) } else { format!("{percent:+.1}") }
}

/// A ratio: `7.00`.
pub(crate) fn ratio(value: f64) -> String {
    three_digits(value)
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

/// `-1234567` as `-1,234,567`.
pub(crate) fn grouped(integer: &str) -> String {
    let digits_at = integer.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let (sign, digits) = integer.split_at(digits_at);
    let mut text = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let times = [0.0, 850.0, 999.9, 36_149.0, 999_950.0, 1_240_000.0, 12_000_000_000.0].map(time);
        assert_eq!(times, ["0.00 ns", "850 ns", "1.00 us", "36.1 us", "1.00 ms", "1.24 ms", "12.0 s"]);
        let settings = [0, 999, 1_500_000, 12_000_000, 3_000_000_001].map(setting);
        assert_eq!(settings, ["0 ns", "999 ns", "1.5 ms", "12 ms", "3.000000001 s"]);
        assert_eq!([0.5, 12.34, 99.97, 1234567.8].map(rate), ["0.50", "12.3", "100", "1,234,568"]);
        assert_eq!([-0.0, 0.0312, 0.612, 1.0].map(share), ["0 %", "3.1 %", "61 %", "100 %"]);
        assert_eq!([241.04, -3.12, 0.0, 12345.0, -99.0].map(signed), ["+241", "-3.1", "+0.0", "+12,345", "-99.0"]);
    }
}
