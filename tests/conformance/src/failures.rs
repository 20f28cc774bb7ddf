//! The first, the second, ... allocation or copy fails: a clean error, and everything given back.

use crate::cases::{DRAM, KIB, NVME, scripted};
use crate::prelude::*;
use crate::real::failing;
use crate::{Check, Counts, Site, ensure, equal};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use tiersim_validation::faulty::Failure;
use tiersim_validation::options::Live;

/// Every allocation in turn.
pub fn a_failed_allocation_is_a_clean_error_and_everything_is_given_back(
    site: &Site,
) -> Check<Counts> {
    fail_each(site, Failure::Allocation)
}

/// Every copy in turn.
pub fn a_failed_copy_is_a_clean_error_and_everything_is_given_back(site: &Site) -> Check<Counts> {
    fail_each(site, Failure::Copy)
}

/// Nothing that a machine has made is left.
pub fn all_given_back(live: &Live, folder: &Path) -> Check {
    equal(&live.rooms.load(Relaxed), &0, "rooms that are left")?;
    equal(&live.threads.load(Relaxed), &0, "threads that are left")?;
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries.count(),
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    };
    equal(&entries, &0, "files that are left")
}

/// Fails the first, the second, ... of something until nothing is left to fail.
pub fn fail_each(site: &Site, failure: fn(u64) -> Failure) -> Check<Counts> {
    let name = format!("fail-{:?}", failure(0)).replace(['(', ')'], "-");
    let mut tried = 0;
    for on_worker in [false, true] {
        let body = |site: &Site| until_none_is_left(site, failure, on_worker);
        let failed = site.inside(&name, body)?;
        ensure(failed >= 3, || format!("only {failed} failures were tried"))?;
        tried += failed;
    }
    Ok(Counts(vec![("failures", tried)]))
}

/// How many failures were met.
fn until_none_is_left(site: &Site, failure: fn(u64) -> Failure, on_worker: bool) -> Check<u64> {
    let object = ObjectId(0);
    let script = [
        (0, fetch(object)),
        (1, Action::Evict { object, from: HBM, to: NVME }),
        (2, fetch(object)),
        (3, fetch(ObjectId(1))),
    ];
    let other: [&[_]; 2] = [&[(0, Mode::ReadWrite)], &[(2, Mode::Read)]];
    let ops = [other[0], other[1], other[0], &[(1, Mode::Read)]];
    let (world, make) = scripted(&[100_000, KIB, KIB], &[NVME, DRAM, HBM], &ops, &script);
    let mut options = site.options();
    let mut failed = 0;
    for n in 1.. {
        let wanted = failure(n);
        options.fail = on_worker.then_some(wanted);
        let at_submission = if on_worker { Failure::Copy(0) } else { wanted };
        let named = |found: String| format!("{wanted:?}: {found}");
        let met = failing(site.kind, &world, &make, &options, at_submission).map_err(named)?;
        all_given_back(&options.live, &site.scratch).map_err(named)?;
        match met {
            None => break,
            Some(met) => equal(&met, &wanted, "which failure")?,
        }
        failed = n;
    }
    Ok(failed)
}
