//! Unpacks the simulator inside a page, and the files that it reads.
//!
//! Browsers unpack gzip by themselves, and the simulator packed with that is two fifths larger than
//! packed with LZMA: half a megabyte of every page. So a page carries this small module as gzip, and
//! the two that it unpacks with LZMA. For each of them the page asks for room with `input`, writes
//! the packed bytes there and calls `unpack`, which answers how many bytes then lie at `output`;
//! none where they are damaged.
//! Invariant: no memory is read or written through a raw pointer here; the page alone does that,
//! within a buffer whose length it was told.

use lzma_rust2::LzmaReader;
use std::io::Read;

/// More than any simulator has, unpacked, and 1 MiB more than all files that a page takes. What
/// claims more is damaged.
const MOST: usize = 65 << 20;

/// What was packed as a file of LZMA whose head says its size; nothing of what is damaged.
pub fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    // Five bytes of properties and size of the dictionary come first.
    let said = packed.get(5..13)?.try_into().ok()?;
    let size = usize::try_from(u64::from_le_bytes(said)).ok().filter(|size| *size <= MOST)?;
    let memory = u32::try_from(2 * MOST / 1024).ok()?;
    let mut reader = LzmaReader::new_mem_limit(packed, memory, None).ok()?;
    let mut bytes = vec![0; size];
    reader.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "names that a page can call are attributes which count as unsafe")]
mod page {
    use std::cell::RefCell;

    thread_local! {
        static INPUT: RefCell<Vec<u8>> = RefCell::default();
        static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
    }

    /// Room for so many bytes: where the page writes them.
    #[unsafe(no_mangle)]
    extern "C" fn input(length: usize) -> *mut u8 {
        INPUT.with_borrow_mut(|input| {
            *input = vec![0; length];
            input.as_mut_ptr()
        })
    }

    /// Unpacks them; how many bytes lie at `output`.
    #[unsafe(no_mangle)]
    extern "C" fn unpack() -> usize {
        let bytes = super::unpacked(&INPUT.take()).unwrap_or_default();
        let length = bytes.len();
        OUTPUT.set(bytes);
        length
    }

    /// Where they lie.
    #[unsafe(no_mangle)]
    extern "C" fn output() -> *const u8 {
        OUTPUT.with_borrow(|output| output.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{LzmaOptions, LzmaWriter};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let options = LzmaOptions::with_preset(6);
        let size = Some(bytes.len() as u64);
        let mut writer =
            LzmaWriter::new_use_header(Vec::new(), &options, size).expect("they are options");
        writer.write_all(bytes).expect("a vector takes all");
        writer.finish().expect("a vector takes all")
    }

    #[test]
    fn what_was_packed_comes_back_and_what_is_damaged_does_not() {
        let bytes: Vec<u8> = (0..40_000u32).flat_map(|n| (n * n / 7).to_le_bytes()).collect();
        for length in [0, 1, 13, bytes.len()] {
            assert_eq!(unpacked(&packed(&bytes[..length])).as_deref(), Some(&bytes[..length]));
        }
        let whole = packed(&bytes);
        assert!(whole.len() < bytes.len());
        for end in (0..whole.len() - 8).step_by(997) {
            assert_eq!(unpacked(&whole[..end]), None, "cut off at {end}");
        }
        // A size and a dictionary that nothing has.
        let mut large = whole.clone();
        large[5..13].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(unpacked(&large), None);
        let mut dictionary = whole;
        dictionary[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(unpacked(&dictionary), None);
    }
}
