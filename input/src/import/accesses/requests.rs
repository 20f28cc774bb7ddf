//! Requests of block traces, through the reader that `tiersim cache` has.
//!
//! Invariant: a request is one access to a whole object.

use super::group::Groups;
use crate::import::requests::{Reader, RequestFile};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::Mode;

/// Bytes of the file that a request takes at least: what is kept is held against them.
const TEXT: usize = 24;

pub(super) fn read(path: &Path, reader: Reader, groups: &mut Groups) -> Result<(), Diagnostics> {
    let sizes = groups.stated_size().is_none();
    if sizes && reader == Reader::Mooncake {
        let remedy = "say what a block has with --object-bytes, such as 16MiB";
        return Err(Diagnostics::one(path, None, "requests without sizes", "", remedy));
    }
    let mut file = RequestFile::open(path, Some(reader), sizes)?;
    let (mut batch, mut seen) = (Vec::new(), Vec::new());
    let mut number = 0u64;
    loop {
        file.next_seen(&mut batch, &mut seen)?;
        if batch.is_empty() {
            return Ok(());
        }
        for (request, seen) in batch.iter().zip(&seen) {
            groups.account.modeless += u64::from(seen.mode.is_none());
            let mode = seen.mode.unwrap_or(Mode::Read);
            let bytes = groups.stated_size().unwrap_or(request.bytes);
            let done = groups
                .read(TEXT)
                .and_then(|()| groups.request(seen.at_ps, (request.object, bytes), mode));
            done.map_err(|rule| {
                let found = format!("request {number}");
                let remedy = groups.remedy(&rule);
                Diagnostics::one(path, None, rule, found, remedy)
            })?;
            number += 1;
        }
    }
}
