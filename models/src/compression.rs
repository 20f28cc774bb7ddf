//! Objects that a tier stores in fewer bytes than they have.
//!
//! A [`Format`] says which objects a tier stores so, at which ratio, and who packs and unpacks: the
//! device or the host's processors. Packed, an object takes its stored bytes of the tier, and links
//! carry these. Packing and unpacking is a link of the machine from a tier to itself, one per
//! format, which a copy crosses on its way with all its bytes ([`Stage`]): so copies queue for it,
//! and it may work on one chunk while a link carries the next. The device packs what leaves HBM and
//! unpacks what comes there; the processors unpack in the first memory of the host that a copy
//! comes to, and pack in the last. Between two tiers that store an object in one format it goes as
//! it is.
//! Invariant: an object is stored in at most one format per tier, never in more bytes than it has,
//! and never packed in HBM.

mod choice;
mod format;
mod storing;
mod way;

pub use choice::Choice;
pub use format::{Format, MAX_FORMATS, MOST_RATIO, Packer, RATIO_UNIT};
pub use storing::{Packed, Storing};
pub use way::{NoPlace, Stage, pieces, problem};
