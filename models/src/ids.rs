//! Small integers that name things, one type per kind so that they cannot be confused.
//!
//! Everything a scenario names by text is resolved to one of these before a run starts.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub $inner);

        impl $name {
            /// The id of the `index`-th thing. Panics if there are too many to number.
            #[inline]
            pub fn at(index: usize) -> $name {
                $name(<$inner>::try_from(index).expect(concat!("too many for ", stringify!($name))))
            }

            /// Position in the table that this id belongs to.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A row of [`crate::workload::Trace::objects`].
    ObjectId(u32)
);
id!(
    /// A row of [`crate::workload::Trace::ops`].
    OpId(u32)
);
id!(
    /// A row of [`crate::workload::Trace::modules`].
    ModuleId(u32)
);
id!(
    /// A row of [`crate::hardware::Hardware::tiers`].
    TierId(u8)
);
id!(
    /// A tier, or behind all tiers a row of [`crate::hardware::Hardware::nodes`].
    NodeId(u8)
);
id!(
    /// A row of [`crate::hardware::Hardware::links`].
    LinkId(u16)
);
id!(
    /// One process of a parallel job; rank 0 is the only one in a single-GPU trace.
    RankId(u16)
);

impl From<TierId> for NodeId {
    fn from(tier: TierId) -> NodeId {
        NodeId(tier.0)
    }
}
