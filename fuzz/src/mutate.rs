//! From a valid document to one that is damaged in a few places.

/// Most damages of one document.
const DAMAGES_MAX: usize = 6;
/// Longest damaged document in bytes.
const DOCUMENT_MAX: usize = 256 << 10;
/// Most copies of a piece.
const COPIES_MAX: usize = 40;
/// What lists of CPUs are made of.
pub const LIST_WORDS: &[&str] = &["-", ",", ":", "0", "8191", "0-8191", " ", "0-8191:1,"];
/// Numbers at the edges of types.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e308",
    "1e-320",
    "-0.0",
    "0.1",
    "99999999999999999999999999999999999999999999",
    "8191",
    "8192",
    "65536",
    "+1",
    "0x10",
];

/// Random bytes, read as decisions. When they are used up, every decision is 0, so that short scripts are small damages.
#[derive(Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// The decisions in these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u8) -> bool {
        self.byte().is_multiple_of(n)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let number = (0..3).fold(0, |number, _| number << 8 | usize::from(self.byte()));
        if end == 0 { 0 } else { number % end }
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.below(from.len())]
    }

    /// A small number of words as they stand in the script: up to `most` bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// A 64-bit number: often a small one, sometimes one at the edge of a type.
    pub fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => self.byte().into(),
            1 => u64::MAX - u64::from(self.byte()),
            2 => 1 << (self.byte() % 64),
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }
}

/// Documents as bytes.
#[must_use]
pub fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// As [`mutate`], for readers of text.
#[must_use]
pub fn text(documents: &[Vec<u8>], words: &[&str], input: &[u8]) -> String {
    String::from_utf8_lossy(&mutate(documents, words, &mut Script::new(input))).into_owned()
}

/// One of `documents`, damaged as `script` says; `words` are what its language is made of.
///
/// # Panics
/// If there are no documents or no words.
#[must_use]
pub fn mutate(documents: &[Vec<u8>], words: &[&str], script: &mut Script<'_>) -> Vec<u8> {
    let mut text = script.pick(documents).clone();
    for _ in 0..=script.below(DAMAGES_MAX) {
        let at = script.below(text.len() + 1);
        let end = at + script.below(60).min(text.len() - at);
        let piece: Vec<u8> = match script.byte() % 9 {
            0 => Vec::new(),
            1 => script.pick(words).as_bytes().to_vec(),
            2 => script.bytes(8).to_vec(),
            3 => text[at..end].repeat(script.below(COPIES_MAX)),
            4 => {
                let other = script.pick(documents);
                let from = script.below(other.len());
                other[from..].iter().take(script.below(400)).copied().collect()
            }
            5 => {
                let (at, end) = number_after(&text, at);
                text.splice(at..end, script.pick(NUMBERS).bytes());
                continue;
            }
            6 => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << (script.byte() % 8);
                }
                continue;
            }
            7 => {
                text.truncate(at);
                continue;
            }
            _ => {
                let line = line_around(&text, at);
                let copy = text[line.clone()].to_vec();
                let to = line_around(&text, script.below(text.len() + 1)).start;
                text.splice(to..to, copy);
                continue;
            }
        };
        text.splice(at..end, piece);
        text.truncate(DOCUMENT_MAX);
    }
    text
}

/// The first run of digits at or after `at`; nothing at the end if there is none.
fn number_after(text: &[u8], at: usize) -> (usize, usize) {
    let begin = text[at..].iter().position(u8::is_ascii_digit).map_or(text.len(), |skip| at + skip);
    let digits = text[begin..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    (begin, begin + digits)
}

fn line_around(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end + 1);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_script_takes_the_first_document_and_removes_nothing() {
        assert_eq!(mutate(&[b"ab 1".to_vec()], &["w"], &mut Script::new(&[])), b"ab 1");
    }

    #[test]
    fn numbers_and_lines_are_found() {
        assert_eq!(number_after(b"a=12.5;", 1), (2, 6));
        assert_eq!(number_after(b"abc", 1), (3, 3));
        assert_eq!(line_around(b"x\nyz\n", 3), 2..5);
        assert_eq!(line_around(b"x", 1), 0..1);
    }
}
