//! Requests of block traces, through the readers that `tiersim cache` has.
//!
//! Invariant: a request for an object is one access to all of it, and one of a disk an access to as
//! many bytes of its addresses as it says.

use super::group::Groups;
use crate::import::requests::io::{Io, Ios};
use crate::import::requests::{Reader, RequestFile};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Known, Mode};

/// Bytes of the file that a request takes at least: what is kept is held against them.
const TEXT: usize = 24;

pub(super) fn read(path: &Path, reader: Reader, groups: &mut Groups) -> Result<(), Diagnostics> {
    if reader.is_addressed() {
        return read_addressed(path, reader, groups);
    }
    let mut file = RequestFile::open(path, Some(reader), true, groups.stated_size())?;
    let (mut batch, mut seen) = (Vec::new(), Vec::new());
    let mut number = 0u64;
    loop {
        file.next_seen(&mut batch, &mut seen)?;
        if batch.is_empty() {
            groups.account.left_out = file.left_out();
            return Ok(());
        }
        for (request, seen) in batch.iter().zip(&seen) {
            groups.account.modeless += u64::from(seen.mode.is_none());
            let mode = seen.mode.unwrap_or(Mode::Read);
            let done = groups
                .read(TEXT)
                .and_then(|()| groups.request(seen.at_ps, (request.object, request.bytes), mode));
            done.map_err(|rule| broken(path, groups, number, rule))?;
            number += 1;
        }
    }
}

fn read_addressed(path: &Path, reader: Reader, groups: &mut Groups) -> Result<(), Diagnostics> {
    let mut ios = Ios::open(path, reader)?;
    let mut number = 0u64;
    while let Some(Io { at_ps, volume, offset, bytes, mode }) = ios.next()? {
        let done = groups
            .read(TEXT)
            .and_then(|()| groups.access(at_ps, (volume, offset, bytes), mode, Known::Seen));
        done.map_err(|rule| broken(path, groups, number, rule))?;
        number += 1;
    }
    groups.account.left_out = ios.left_out;
    Ok(())
}

/// That with a request a rule of what is made of the file is broken.
fn broken(path: &Path, groups: &Groups, number: u64, rule: String) -> Diagnostics {
    let remedy = groups.remedy(&rule);
    Diagnostics::one(path, None, rule, format!("request {number}"), remedy)
}
