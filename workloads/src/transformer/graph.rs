//! One graph of a block, which training, generation and serving walk.
//!
//! `pass` puts ops together, `sizes` says how large they are, `saved` is what they keep, `embedding`,
//! `block`, `forward` and `experts` are a model's ops, `eager` those of kernels that nothing has fused, `state`
//! is what one rank holds of the model, `network` where the others are, `ring` attention over several
//! of them, `cache` what is done with keys and values of past tokens, `kv` what there is of them,
//! `latent` compressed ones, `shards` those over several ranks.
//! Training adds the backward pass and what ranks share; generation walks the forward pass token by
//! token; serving sums up its kernels by group of layers.
//! Invariant: every op of the device says which kernels it is, with shapes of this rank.

mod block;
mod cache;
pub(crate) mod eager;
pub(crate) mod embedding;
pub(crate) mod experts;
pub(crate) mod forward;
pub(crate) mod kv;
pub(crate) mod latent;
pub(crate) mod network;
pub(crate) mod pass;
pub(crate) mod ring;
pub(crate) mod saved;
pub(crate) mod shards;
pub(crate) mod sizes;
pub(crate) mod state;
