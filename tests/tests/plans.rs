//! Plans: what each policy decides, by hand, by brute force, and safe under any timing.

mod activation_offload;
mod appended;
mod arenas;
mod bounds;
mod clairvoyant_offload;
mod compaction;
mod cpu_ops;
mod degraded;
mod demand;
mod dynamic;
mod g10;
mod hazards;
mod in_place;
mod learned;
mod legs;
mod lru;
mod metamorphic;
mod noted;
mod numa;
mod optimal;
mod oracles;
mod plain;
mod pressure;
mod recorded;
mod static_placement;
mod steady;
