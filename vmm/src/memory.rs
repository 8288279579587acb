//! Guest memory: one region from guest-physical 0, and the pages of it that guest and host share.
//!
//! # Trust
//! The guest may write any byte of its memory at any moment. So the host never makes a Rust reference to plain data
//! in it: it copies (vm-memory's [`Bytes`]) or looks through types that are made of atomics only ([`Shared`]), for
//! which "changed under our hands" is an ordinary event and every bit pattern a value.

use std::mem::{align_of, size_of};

use abi::results::Results;
use abi::vcpu::VcpuPage;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

/// What can go wrong with guest memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The host has not enough address space or memory.
    #[error("{bytes} bytes of guest memory cannot be mapped")]
    Map {
        /// What was asked for.
        bytes: u64,
        /// The mapping's error.
        #[source]
        source: vm_memory::mmap::FromRangesError,
    },
    /// An access left the region.
    #[error("guest-physical {address:#x} + {bytes} bytes is not inside the guest's memory")]
    Outside {
        /// Guest-physical address.
        address: u64,
        /// Length in bytes.
        bytes: usize,
    },
}

/// A type of which guest and host may hold references at once.
///
/// # Safety
/// The type consists of atomics (and padding) only, every bit pattern is a value of it, and it is not dropped.
pub unsafe trait Shared {}

// SAFETY: abi states and upholds that this page is made of atomics; integers have no invalid bit pattern. Unsafe
// because only the author of the type can promise it.
unsafe impl Shared for VcpuPage {}
// SAFETY: as above.
unsafe impl Shared for Results {}

/// The memory of one VM.
#[derive(Debug)]
pub struct GuestMemory {
    mmap: GuestMemoryMmap,
}

impl GuestMemory {
    /// Maps `bytes` of zeroed memory from guest-physical 0.
    ///
    /// # Errors
    /// [`MemoryError::Map`].
    pub fn new(bytes: u64) -> Result<Self, MemoryError> {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), len)])
            .map_err(|source| MemoryError::Map { bytes, source })?;
        Ok(Self { mmap })
    }

    /// For crates that load into guest memory.
    #[must_use]
    pub const fn mmap(&self) -> &GuestMemoryMmap {
        &self.mmap
    }

    /// What KVM_SET_USER_MEMORY_REGION wants to know: guest-physical start, length, host virtual address.
    pub fn regions(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.mmap.iter().map(|region| {
            let start = region.start_addr();
            let host = self.mmap.get_host_address(start).map_or(0, |p| p.addr() as u64);
            (start.0, region.len(), host)
        })
    }

    /// For tests: lets nobody use whole pages any more, so that a vCPU which does ends with an error of KVM_RUN. The host
    /// must not look at them later: it would be ended by SIGSEGV.
    pub(crate) fn forbid(&self, address: u64, bytes: u64) -> std::io::Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let slice = self.mmap.get_slice(GuestAddress(address), bytes).map_err(std::io::Error::other)?;
        // SAFETY: the range lies in the mapping that `self` owns; no reference to it is made after boot, because the
        // shared pages lie elsewhere. Unsafe because an access would be a fault.
        unsafe {
            rustix::mm::mprotect(slice.ptr_guard_mut().as_ptr().cast(), bytes, rustix::mm::MprotectFlags::empty())
        }?;
        Ok(())
    }

    /// Copies `bytes` to `address`.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.mmap
            .write_slice(bytes, GuestAddress(address))
            .map_err(|_| MemoryError::Outside { address, bytes: bytes.len() })
    }

    /// Writes 64-bit words from `address` on, as descriptor and page tables want them.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    pub fn write_words(&self, address: u64, words: &[u64]) -> Result<(), MemoryError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(address, &bytes)
    }

    /// The shared structure at `address`.
    ///
    /// # Errors
    /// [`MemoryError::Outside`], also for an address without the type's alignment.
    pub fn shared<T: Shared>(&self, address: u64) -> Result<&T, MemoryError> {
        let outside = || MemoryError::Outside { address, bytes: size_of::<T>() };
        let slice = self.mmap.get_slice(GuestAddress(address), size_of::<T>()).map_err(|_| outside())?;
        let pointer = slice.ptr_guard().as_ptr().cast::<T>();
        if pointer.addr() % align_of::<T>() != 0 {
            return Err(outside());
        }
        // SAFETY: vm-memory checked that the range lies in one mapped region, which lives as long as `self`; the
        // alignment is checked above; `Shared` says that any content, changing at any time, is a valid `T`. Unsafe
        // because the guest writes there while the reference lives.
        Ok(unsafe { &*pointer })
    }
}
