//! When an object is requested next, for algorithms that know the future.
//!
//! Binary records say it themselves; what they say is checked as the requests come, since a wrong
//! number would make an optimum of nothing. For tables the file is read once before.
//! Invariant: 4 bytes per request at most are held, and 8 per object.

use super::table::{FREE, Table};
use std::path::Path;
use tiersim_models::block_trace::{BATCH, NEVER, Request, Requests};
use tiersim_models::diagnostic::Diagnostics;

/// The next request of each request, found by a first pass.
pub(crate) struct Ahead(Vec<u32>);

/// No request comes; the last number that is no request's.
const NONE: u32 = u32::MAX;

impl Ahead {
    /// Reads the requests of a file to their end.
    pub(crate) fn read(path: &Path, mut requests: impl Requests) -> Result<Ahead, Diagnostics> {
        let (mut last, mut next) = (Table::new(), Vec::new());
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            requests.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(Ahead(next));
            }
            for request in &batch {
                if next.len() == NONE as usize {
                    let rule = "at most 2^32 - 1 requests, where next requests are looked for";
                    let remedy = "split the trace, or write oracleGeneral records, which have them";
                    return Err(Diagnostics::one(path, None, rule, "more", remedy));
                }
                let now = next.len() as u32;
                let hash = last.hash(request.object);
                let before = std::mem::replace(last.number(request.object, hash), now);
                if before != FREE {
                    next[before as usize] = now;
                }
                next.push(NONE);
            }
        }
    }

    /// Tells the requests from number `first` on when their objects come next.
    pub(crate) fn tell(&self, first: u64, batch: &mut [Request]) {
        for (index, request) in (first..).zip(batch) {
            let next = self.0.get(index as usize).copied().unwrap_or(NONE);
            request.next = if next == NONE { NEVER } else { u64::from(next) };
        }
    }
}

/// What the records say of objects to come, checked against what comes.
///
/// A piece of a longer trace counts from that trace's beginning: all numbers may be larger by the
/// same.
pub(crate) struct Promises {
    ids: Table,
    /// By object: the number of its next request as stated.
    next: Vec<u64>,
    /// How much larger the stated numbers are, once an object has come again.
    shift: Option<u64>,
}

impl Promises {
    pub(crate) fn new() -> Promises {
        Promises { ids: Table::new(), next: Vec::new(), shift: None }
    }

    /// Checks the requests from number `first` on.
    pub(crate) fn check(
        &mut self,
        path: &Path,
        first: u64,
        batch: &[Request],
    ) -> Result<(), Diagnostics> {
        for (now, request) in (first..).zip(batch) {
            let hash = self.ids.hash(request.object);
            let id = self.ids.number(request.object, hash);
            if *id == FREE {
                *id = self.next.len() as u32;
                self.next.push(request.next);
                continue;
            }
            let stated = std::mem::replace(&mut self.next[*id as usize], request.next);
            let shift = stated.checked_sub(now).filter(|_| stated != NEVER);
            if shift.is_none() || self.shift.is_some_and(|before| Some(before) != shift) {
                let object = request.object;
                let rule = format!(
                    "record {now}: object {object} comes where next_access_vtime of its record \
                     before says"
                );
                let found = if stated == NEVER { "never".to_owned() } else { stated.to_string() };
                let remedy = "write the field anew, or write the requests as a table (.csv), of \
                              which next requests are worked out";
                return Err(Diagnostics::one(path, None, rule, found, remedy));
            }
            self.shift = shift;
        }
        Ok(())
    }
}
