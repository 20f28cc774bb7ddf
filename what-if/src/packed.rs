//! Bytes as small as a page can have them: by LZMA, which the module of `what-if/unpack` unpacks.
//!
//! Invariant: what is unpacked is what was packed, and takes memory by its own size.

use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::io::Write;

/// The largest dictionary, of 64 MiB.
const MOST: usize = 64 << 20;

/// The bytes as a file of LZMA whose head says their number.
pub fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut options = LzmaOptions::with_preset(9);
    // A dictionary is memory of both sides. Neither WebAssembly nor text is made of words of four
    // bytes, and code has long stretches that come again.
    options.dict_size = bytes.len().next_power_of_two().clamp(4096, MOST) as u32;
    options.lc = 4;
    options.pb = 0;
    options.nice_len = LzmaOptions::NICE_LEN_MAX;
    let size = Some(bytes.len() as u64);
    let mut writer =
        LzmaWriter::new_use_header(Vec::new(), &options, size).expect("they are options of LZMA");
    writer.write_all(bytes).expect("a vector takes all");
    writer.finish().expect("a vector takes all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_unpack::unpacked;

    #[test]
    fn what_is_packed_is_what_a_page_unpacks() {
        let bytes: Vec<u8> = (0..40_000u32).flat_map(|n| (n * n / 7).to_le_bytes()).collect();
        for length in [0, 1, 4096, bytes.len()] {
            let packed = packed(&bytes[..length]);
            assert_eq!(unpacked(&packed).as_deref(), Some(&bytes[..length]));
        }
        let text: Vec<u8> =
            (0..4_000u32).flat_map(|n| format!("object {n}\n").into_bytes()).collect();
        assert!(packed(&text).len() < text.len() / 2);
    }
}
