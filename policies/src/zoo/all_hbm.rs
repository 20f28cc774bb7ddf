//! Everything in HBM; runs out of memory where it does not fit.

use crate::entry::Entry;
use crate::policy::Policy;
use crate::recipe::{Recipe, Setting};
use crate::static_placement::StaticPlacement;

/// `all-hbm`, which has no parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllHbm;

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "AllHbm",
    about: "everything in HBM; out of memory where it does not fit",
    parameters: &[],
    make: |_| Ok(AllHbm.into()),
};

impl Recipe for AllHbm {
    fn name(&self) -> &'static str {
        "all-hbm"
    }

    fn details(&self) -> String {
        String::new()
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(StaticPlacement::all_in_hbm(&setting.workload.trace)))
    }
}
