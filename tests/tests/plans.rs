//! Plans: what each policy decides, by hand, by brute force, and safe under any timing.

mod activation_offload;
mod arenas;
mod bounds;
mod clairvoyant_offload;
mod compaction;
mod demand;
mod dynamic;
mod g10;
mod hazards;
mod host_ops;
mod in_place;
mod learned;
mod legs;
mod lru;
mod metamorphic;
mod numa;
mod oracles;
mod pressure;
mod static_placement;
mod steady;
