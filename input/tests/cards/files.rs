//! Files of this suite's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// An empty folder that no other test has.
pub(crate) fn folder(name: &str) -> PathBuf {
    let number = MADE.fetch_add(1, Ordering::Relaxed).to_string();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cards").join(number).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder is made");
    folder
}

/// A file in a folder of its own.
pub(crate) fn file(folder_name: &str, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder(folder_name).join(name);
    fs::write(&path, bytes).expect("the file is written");
    path
}

/// A `.safetensors` file: the header and its data.
pub(crate) fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// The header of these tensors, one after the other, and the bytes of their data.
pub(crate) fn header(tensors: &[(String, &str, Vec<u64>)]) -> (String, usize) {
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            let width = match *dtype {
                "F32" => 4,
                "F16" | "BF16" => 2,
                _ => 1,
            };
            let bytes = shape.iter().product::<u64>() * width;
            let entry = format!(
                "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{at},{}]}}",
                at + bytes
            );
            at += bytes;
            entry
        })
        .collect();
    (format!("{{{}}}", entries.join(",")), at as usize)
}
