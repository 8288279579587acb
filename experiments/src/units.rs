//! Typed values of the command line: a number with its unit cannot be mistaken for another one.

use std::fmt;
use std::str::FromStr;

use plan::format_ns;

/// A time, written as `3s`, `500ms`, `5us` or `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// In nanoseconds.
    pub ns: u64,
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ns = humantime::parse_duration(text).ok().and_then(|time| u64::try_from(time.as_nanos()).ok());
        match ns {
            // humantime lets a bare 0 pass.
            Some(ns) if text.ends_with(char::is_alphabetic) => Ok(Self { ns }),
            _ => Err("a time needs a number and a unit, as in 3s, 500ms or 5us".into()),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_ns(self.ns))
    }
}

/// A seed: decimal, or hexadecimal after `0x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Seeds that we choose have 53 bits, so that every JSON reader keeps them whole.
    pub const CHOSEN_BITS: u32 = 53;

    /// Asks the kernel for a seed.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 8];
        // The kernel's generator cannot fail for 8 bytes once the machine is up; should it, the bytes stay 0, which
        // is a seed like any other and is printed like any other.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        Self(u64::from_le_bytes(bytes) >> (u64::BITS - Self::CHOSEN_BITS))
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        }
        .map(Self)
        .map_err(|_| "a seed is a whole number below 2^64, as in 42 or 0x2a".into())
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!("1500us".parse(), Ok(Time { ns: 1_500_000 }));
        assert_eq!("1h30m".parse::<Time>().unwrap().to_string(), "5400s");
        for wrong in ["", "3", "0", "-3s", "s", "3 parsecs", "99999999999999999h"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!("0x2a".parse(), "42".parse::<Seed>());
        assert!("-1".parse::<Seed>().is_err() && "0x".parse::<Seed>().is_err());
        assert!(Seed::random().0 < 1 << Seed::CHOSEN_BITS);
    }

    proptest! {
        #[test]
        fn printed_times_read_back(ns in 0..u64::MAX) {
            prop_assert_eq!(Time { ns }.to_string().parse::<Time>().unwrap(), Time { ns });
        }

        #[test]
        fn any_text_is_answered(text in ".{0,30}") {
            let _ = (text.parse::<Time>(), text.parse::<Seed>());
        }
    }
}
