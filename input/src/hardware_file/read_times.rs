//! Files of op times that one machine names, read once however often its numbers change.
//!
//! Invariant: what is shared is equal to what would have been read anew.

use crate::op_times::{DeviceTimes, read_op_times};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::op_times::OpTimes;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadTimes(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    files: BTreeMap<PathBuf, Result<Arc<DeviceTimes>, Diagnostics>>,
    /// What came of one for the device that was asked for last.
    last: Option<Arc<OpTimes>>,
}

impl ReadTimes {
    /// What a file says.
    pub(super) fn read(&self, file: &Path) -> Result<Arc<DeviceTimes>, Diagnostics> {
        let mut known = self.0.lock().expect("nobody panics with it");
        let read = || read_op_times(file).map(Arc::new);
        known.files.entry(file.to_owned()).or_insert_with(read).clone()
    }

    /// `times`, or those of before if they are equal: points of a sweep share them.
    pub(super) fn shared(&self, times: OpTimes) -> Arc<OpTimes> {
        let last = &mut self.0.lock().expect("nobody panics with it").last;
        match last {
            Some(last) if **last == times => last.clone(),
            _ => last.insert(Arc::new(times)).clone(),
        }
    }
}
