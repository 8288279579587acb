//! Reads the header and the symbols out of the ELF image. Whatever the bytes are, the answer is a value or an error.

use std::sync::OnceLock;

use abi::header::{ImageHeader, MAGIC};
use abi::layout;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// Why an image cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Not an ELF file that can be read.
    #[error("the guest image is no readable ELF file: {0}")]
    Elf(object::Error),
    /// Nothing is loaded where the header should stand.
    #[error("the guest image has no header at {:#x}: it must be linked to that address", layout::IMAGE)]
    NoHeader,
    /// Something else stands there.
    #[error("the guest image's header begins with {0:#x}, not with the lab's magic {MAGIC:#x}")]
    Magic(u64),
    /// Another ABI.
    #[error("the guest image speaks ABI version {0}, this host speaks {ours}", ours = abi::VERSION)]
    Version(u64),
    /// An entry point or handler outside the image.
    #[error("the guest image's header names the address {0:#x}, which is outside the image")]
    Address(u64),
}

/// A function of the guest kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Address of its first instruction.
    pub address: u64,
    /// Size in bytes; 0 if the image does not say.
    pub size: u64,
    /// Its name without path and hash, as `flush_wait`.
    pub name: String,
}

/// The checked header of [`IMAGE`](crate::IMAGE).
///
/// # Errors
/// If the image is not one that this host can start.
pub fn header() -> Result<ImageHeader, ImageError> {
    header_of(crate::IMAGE)
}

/// The functions of [`IMAGE`](crate::IMAGE) by ascending address, one an address.
pub fn symbols() -> &'static [Symbol] {
    static SYMBOLS: OnceLock<Vec<Symbol>> = OnceLock::new();
    SYMBOLS.get_or_init(|| symbols_of(crate::IMAGE))
}

/// The header of any image.
///
/// # Errors
/// What is wrong with it.
pub fn header_of(image: &[u8]) -> Result<ImageHeader, ImageError> {
    let elf = ElfFile64::<object::LittleEndian>::parse(image).map_err(ImageError::Elf)?;
    let size = size_of::<ImageHeader>() as u64;
    let bytes = elf
        .segments()
        .find_map(|segment| segment.data_range(layout::IMAGE, size).transpose())
        .ok_or(ImageError::NoHeader)?
        .map_err(ImageError::Elf)?;
    let mut words = bytes.chunks_exact(8).map(|word| word.iter().rfold(0, |value, byte| value << 8 | u64::from(*byte)));
    let mut word = || words.next().ok_or(ImageError::NoHeader);
    let header = ImageHeader {
        magic: word()?,
        version: word()?,
        entry: word()?,
        flush: word()?,
        flush_lost: word()?,
        timer: word()?,
        exceptions: word()?,
    };
    if header.magic != MAGIC {
        return Err(ImageError::Magic(header.magic));
    }
    if header.version != u64::from(abi::VERSION) {
        return Err(ImageError::Version(header.version));
    }
    for address in [header.entry, header.flush, header.flush_lost, header.timer, header.exceptions] {
        if !(layout::IMAGE..layout::STACKS).contains(&address) {
            return Err(ImageError::Address(address));
        }
    }
    Ok(header)
}

/// The functions of any image by ascending address, one an address; none of what is no ELF file.
#[must_use]
pub fn symbols_of(image: &[u8]) -> Vec<Symbol> {
    let Ok(elf) = ElfFile64::<object::LittleEndian>::parse(image) else { return Vec::new() };
    let mut symbols: Vec<Symbol> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some(Symbol { address: symbol.address(), size: symbol.size(), name: short_name(name) })
        })
        .collect();
    // At one address the symbol with a size is the better one.
    symbols.sort_by_key(|symbol| (symbol.address, u64::MAX - symbol.size));
    symbols.dedup_by_key(|symbol| symbol.address);
    symbols
}

/// `_RNv..5flush10flush_wait` and `_ZN..5flush10flush_wait17h..E` become `flush_wait`; a plain name stays.
fn short_name(name: &str) -> String {
    let full = format!("{:#}", rustc_demangle::demangle(name));
    full.rsplit("::").next().unwrap_or(&full).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_can_be_started() {
        let header = header().unwrap();
        let name_at = |address| symbols().iter().find(|symbol| symbol.address == address).map(|s| s.name.as_str());
        assert_eq!(name_at(header.entry), Some("_start"));
        assert_eq!(name_at(header.flush), Some("flush_handler"));
        assert_eq!(name_at(header.flush_lost), Some("flush_handler_lost"));
        assert_eq!(name_at(header.timer), Some("timer_handler"));
        assert_eq!(name_at(header.exceptions), Some("exception_stubs"));
    }

    #[test]
    fn the_profile_finds_the_flush_wait() {
        for name in ["flush_wait", "flush_wait_halt", "search"] {
            let found: Vec<_> = symbols().iter().filter(|symbol| symbol.name == name).collect();
            assert!(matches!(found[..], [one] if one.size > 0), "{name}: {found:?}");
        }
        assert!(symbols().is_sorted_by(|a, b| a.address < b.address));
    }

    #[test]
    fn the_bytes_do_not_depend_on_where_they_were_built() {
        let contains = |text: &str| crate::IMAGE.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(contains("kernel/"), "panic messages name the sources");
        assert!(!contains(env!("CARGO_MANIFEST_DIR")) && !contains(env!("OUT_DIR")));
    }

    #[test]
    fn damaged_images_are_errors() {
        assert!(matches!(header_of(b"no ELF"), Err(ImageError::Elf(_))));
        let at = |image: &[u8], bytes: &[u8]| image.windows(bytes.len()).position(|window| window == bytes).unwrap();
        let mut image = crate::IMAGE.to_vec();
        let magic = at(&image, &MAGIC.to_le_bytes());
        image[magic + 8] = 99;
        assert_eq!(header_of(&image).unwrap_err(), ImageError::Version(99));
        image[magic + 8] = u8::try_from(abi::VERSION).unwrap();
        image[magic + 16 + 3] = 0xff;
        assert!(matches!(header_of(&image), Err(ImageError::Address(_))));
        image[magic] = 0;
        assert!(matches!(header_of(&image), Err(ImageError::Magic(_))));
        for length in 0..crate::IMAGE.len().min(4096) {
            let _ = header_of(&crate::IMAGE[..length]);
            let _ = symbols_of(&crate::IMAGE[..length]);
        }
    }
}
