//! Which node an object without a pin goes to.

use tiersim_models::ids::TierId;

/// Where objects in DRAM go that are not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To the node with the fewest links to the device, among these the widest; to the next one
    /// when it is full.
    NearGpu,
    /// Object by object to the node that was given the fewest bytes so far. The kernel interleaves
    /// pages of 4 KiB, which is finer: there one copy comes from all nodes.
    Interleave,
    /// To the node where the thread runs that writes it first; to others, nearest first, when it is
    /// full.
    FirstTouch(TierId),
}
