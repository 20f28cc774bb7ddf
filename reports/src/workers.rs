//! Who makes the pieces of a long file.
//!
//! This crate starts no threads: it also runs in a browser. Whoever has some says so.

/// Something that makes pieces, perhaps several at a time.
pub trait Workers {
    /// So many pieces, in their order.
    fn each<T: Send>(&self, pieces: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T>;
}

/// Makes one piece after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

impl Workers for Alone {
    fn each<T: Send>(&self, pieces: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
        (0..pieces).map(of).collect()
    }
}
