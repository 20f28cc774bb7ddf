//! What the data pipeline keeps in the host's memory.

use super::{Overflow, product};

/// Bytes of one rank's data pipeline: `workers x prefetch x batch x sequence x bytes per token`,
/// the batches that PyTorch's `DataLoader` has ready (`num_workers`, `prefetch_factor`).
pub fn bytes(
    workers: u64,
    prefetch: u64,
    batch: u64,
    sequence: u64,
    token_bytes: u64,
) -> Result<u128, Overflow> {
    product(&[workers, prefetch, batch, sequence, token_bytes].map(u128::from))
}

#[cfg(test)]
mod tests {
    use super::bytes;
    use crate::memory::Overflow;

    #[test]
    fn every_worker_has_its_batches_ready() {
        assert_eq!(bytes(4, 2, 8, 2048, 8), Ok(4 * 2 * 8 * 2048 * 8));
        assert_eq!(bytes(0, 2, 8, 2048, 8), Ok(0));
        assert_eq!(bytes(u64::MAX, u64::MAX, 2, 1, 1), Err(Overflow));
    }
}
