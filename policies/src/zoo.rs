//! The policies, one file each.

pub mod clairvoyant_offload;
