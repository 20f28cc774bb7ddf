//! Accesses grouped: addresses into objects of one size, accesses one after the other into ops.
//!
//! All objects are there from the first op to the last, as pages of a process and blocks of a disk are.
//! Within a window, an object that is only read is read in as many of its 64 parts as were touched;
//! one that is stored to is read and changed whole, for the rest of it stays. All that an op uses must
//! be at hand at once, so windows are as short as they can be: of one access, and of twice as many
//! each time that ops or uses become too many, unless somebody states how long they are.
//! Invariant: what is held stays within [`MOST_OBJECTS`], [`MOST_USES`] and [`MOST_OPS`], which is
//! less than 256 MiB, and within the budget of every reader: that of the whole file, where its length
//! says how much that is, for objects come thickest at its beginning.

mod finish;
mod regions;

use super::Accesses;
use super::said::Account;
use crate::import::requests::blocks::{BLOCK, check_size};
use crate::trace::tables::{ReadBudget, known_text};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Known, Mode, Object, Op, Use};

/// Most objects of a trace that is made of accesses.
pub const MOST_OBJECTS: usize = 1 << 18;
/// Most uses of one: an object that a window touches.
pub const MOST_USES: usize = 1 << 21;
/// Most ops of one: windows.
pub const MOST_OPS: usize = 1 << 17;
/// So many ops are windows of twice as many accesses, where nobody states how many.
pub const FEW_OPS: usize = 1 << 16;

/// Parts of an object that are told apart within a window.
const PARTS: u64 = 64;
/// DAMON watches terabytes by regions.
const HUGE_PAGE: u64 = 2 << 20;
const RATE: u64 = 100_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// Times are counted in picoseconds.
const DAYS: &str = "all accesses lie within 213 days";

/// How accesses become objects and ops; what is not said has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// Bytes of an object, a power of two: 4 KiB, for records of DAMON 2 MiB. Of requests, which name
    /// objects themselves, the size where the file says none.
    pub object_bytes: Option<u64>,
    /// Accesses of an op: as few as leave at most [`FEW_OPS`] ops, a power of two.
    pub window: Option<u64>,
    /// Accesses per second, where the file does not say when: 100,000,000.
    pub rate: Option<u64>,
}

impl Grouping {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Grouping::default()
    }
}

/// What a window did to an object.
#[derive(Clone, Copy, Debug, Default)]
struct Touch {
    /// Its parts that were read.
    parts: u64,
    reads: bool,
    writes: bool,
    inferred: bool,
}

/// An object of a window.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: u32,
    touch: Touch,
}

impl Touch {
    fn and(self, other: Touch) -> Touch {
        Touch {
            parts: self.parts | other.parts,
            reads: self.reads | other.reads,
            writes: self.writes | other.writes,
            inferred: self.inferred | other.inferred,
        }
    }
}

/// An op to be.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// When it begins, in ps behind the first.
    at: u64,
    accesses: u64,
    bytes: u64,
    /// How many uses there are behind it.
    uses: u32,
}

pub(super) struct Groups {
    what: Accesses,
    object_bytes: u64,
    grouping: Grouping,
    window: u64,
    ids: BTreeMap<(u64, u64), u32>,
    /// By object: its target, its number or address, its bytes.
    objects: Vec<(u64, u64, u64)>,
    /// Pages that are known, by the first of a row of them: the last.
    rows: BTreeMap<(u64, u64), u64>,
    /// Pages that the regions of this interval have.
    pages: u64,
    windows: Vec<Window>,
    /// Of all windows, by id within one.
    uses: Vec<Held>,
    touched: BTreeMap<u32, Touch>,
    /// Pages that were in use in the interval.
    in_use: BTreeSet<u32>,
    /// Of the window that is open.
    open: Window,
    first: Option<u128>,
    now: u64,
    budget: ReadBudget,
    /// Ops and uses that the budget knows of.
    charged: (usize, usize),
    pub(super) account: Account,
}

type Done<T> = Result<T, String>;

impl Groups {
    pub(super) fn new(
        path: &Path,
        what: Accesses,
        grouping: &Grouping,
    ) -> Result<Groups, Diagnostics> {
        let damon = matches!(what, Accesses::DamonTracepoint | Accesses::DamonReport);
        let addressed = !what.names_objects();
        if let Some(bytes) = grouping.object_bytes {
            check_size(path, bytes, addressed)?;
        }
        let default = if damon { HUGE_PAGE } else { BLOCK };
        let object_bytes = grouping.object_bytes.unwrap_or(default);
        let window = grouping.window.unwrap_or(1).max(1);
        let account = Account {
            what: what.words(),
            object_bytes: addressed.then_some(object_bytes),
            ..Account::default()
        };
        let open = Window { at: 0, accesses: 0, bytes: 0, uses: 0 };
        let (ids, objects, rows, windows, uses, touched, in_use) = Default::default();
        let budget = ReadBudget::of(known_text(path));
        let (pages, first, now, charged, grouping) = (0, None, 0, (0, 0), *grouping);
        Ok(Groups {
            what,
            object_bytes,
            grouping,
            window,
            ids,
            objects,
            rows,
            pages,
            windows,
            uses,
            touched,
            in_use,
            open,
            first,
            now,
            budget,
            charged,
            account,
        })
    }

    /// What to do where a file breaks a rule of what is made of it.
    pub(super) fn remedy(&self, rule: &str) -> String {
        if rule == DAYS {
            return "check the times, or take a part of the file".to_owned();
        }
        let Groups { object_bytes, window, .. } = self;
        match self.what {
            _ if self.what.names_objects() => {
                format!("take a part of it, or raise --window, now {window}")
            }
            Accesses::DamonTracepoint | Accesses::DamonReport => {
                format!("raise --object-bytes, now {object_bytes}, or take a part of it")
            }
            _ => format!(
                "raise --object-bytes, now {object_bytes}, or --window, now {window}, or take a part of it"
            ),
        }
    }

    /// The size of objects that somebody stated.
    pub(super) fn stated_size(&self) -> Option<u64> {
        self.grouping.object_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes notice of so many bytes of the file.
    pub(super) fn read(&mut self, bytes: usize) -> Done<()> {
        self.budget.take(bytes, 0)
    }

    fn object(&mut self, target: u64, number: u64, bytes: u64) -> Done<u32> {
        if let Some(&id) = self.ids.get(&(target, number)) {
            return Ok(id);
        }
        let id = self.objects.len();
        if id == MOST_OBJECTS {
            return Err(format!("a trace made of accesses has at most {MOST_OBJECTS} objects"));
        }
        // What maps numbers to objects takes less, and is gone before objects are made.
        self.budget.take(0, size_of::<Object>() + size_of::<(u64, u64, u64)>())?;
        self.objects.push((target, number, bytes));
        self.ids.insert((target, number), id as u32);
        Ok(id as u32)
    }

    /// When something was, in ps behind the first, never falling.
    fn time(&mut self, at_ps: Option<u128>) -> Done<()> {
        let Some(at) = at_ps else {
            self.account.timeless += 1;
            return Ok(());
        };
        let first = *self.first.get_or_insert(at);
        match at.checked_sub(first).map(u64::try_from) {
            Some(Err(_)) => return Err(DAYS.to_owned()),
            Some(Ok(since)) if since >= self.now => self.now = since,
            _ => self.account.backwards += 1,
        }
        Ok(())
    }

    fn touch(&mut self, id: u32, parts: u64, mode: Mode, known: Known) {
        let touch = self.touched.entry(id).or_default();
        touch.reads |= mode.reads();
        touch.writes |= mode.writes();
        touch.inferred |= known != Known::Seen;
        touch.parts |= parts;
    }

    fn count(&mut self, bytes: u64, mode: Mode) -> Done<()> {
        let account = &mut self.account;
        let (counter, ways) = match mode {
            Mode::Read => (&mut account.reads, 1),
            Mode::Write => (&mut account.writes, 1),
            Mode::ReadWrite => (&mut account.both, 2),
        };
        *counter += 1;
        self.open.accesses += 1;
        self.open.bytes = self.open.bytes.saturating_add(bytes.saturating_mul(ways));
        if self.open.accesses == self.window { self.close() } else { Ok(()) }
    }

    /// Bytes from an address of a target on.
    pub(super) fn access(
        &mut self,
        at_ps: Option<u128>,
        (target, address, bytes): (u64, u64, u64),
        mode: Mode,
        known: Known,
    ) -> Done<()> {
        self.begin(at_ps)?;
        let (size, part) = (self.object_bytes, self.object_bytes / PARTS);
        let last = address.saturating_add(bytes - 1);
        for page in address / size..=last / size {
            let id = self.object(target, page, size)?;
            let (from, to) = (page * size, page * size + (size - 1));
            let (from, to) = (address.max(from) - from, last.min(to) - from);
            let (from, to) = (from / part, to / part);
            let parts = (u64::MAX >> (PARTS - 1 - (to - from))) << from;
            self.touch(id, parts, mode, known);
        }
        self.count(bytes, mode)
    }

    /// A request for all of an object.
    pub(super) fn request(
        &mut self,
        at_ps: Option<u128>,
        (object, bytes): (u64, u64),
        mode: Mode,
    ) -> Done<()> {
        self.begin(at_ps)?;
        let id = self.object(0, object, bytes)?;
        let known = &mut self.objects[id as usize].2;
        self.account.resized += u64::from(*known != bytes);
        *known = bytes.max(*known);
        self.touch(id, u64::MAX, mode, Known::Seen);
        self.count(bytes, mode)
    }

    /// Notes the time of an access, and that of the window which begins with it.
    fn begin(&mut self, at_ps: Option<u128>) -> Done<()> {
        self.time(at_ps)?;
        if self.open.accesses == 0 {
            self.open.at = self.now;
        }
        Ok(())
    }

    fn close(&mut self) -> Done<()> {
        let held = std::mem::take(&mut self.touched);
        self.uses.extend(held.into_iter().map(|(id, touch)| Held { id, touch }));
        let uses = self.uses.len() as u32;
        self.windows.push(Window { uses, ..self.open });
        self.open = Window { at: self.now, accesses: 0, bytes: 0, uses };
        let stated = self.grouping.window.is_some();
        while !stated && self.windows.len() > 1 && self.is_much() {
            self.halve();
        }
        if self.windows.len() > MOST_OPS {
            return Err(format!("a trace made of accesses has at most {MOST_OPS} ops"));
        }
        if self.uses.len() > MOST_USES {
            return Err(format!("a trace made of accesses has at most {MOST_USES} uses"));
        }
        let growth = self.growth();
        self.charged =
            (self.charged.0.max(self.windows.len()), self.charged.1.max(self.uses.len()));
        self.budget.take(0, growth)
    }

    /// Whether windows are too many, or what they use.
    fn is_much(&self) -> bool {
        let many = self.windows.len() >= FEW_OPS || self.uses.len() > MOST_USES;
        many || !self.budget.fits(self.growth())
    }

    /// Bytes that windows and what they use take beyond the most that they took before: as the trace
    /// has them, as they are held, and once more while windows are put together.
    fn growth(&self) -> usize {
        const OP: usize = size_of::<Op>() + 2 * size_of::<Window>() + 16;
        const USE: usize = size_of::<Use>() + 2 * size_of::<Held>();
        let more = |now: usize, before: usize| now.saturating_sub(before);
        more(self.windows.len(), self.charged.0) * OP + more(self.uses.len(), self.charged.1) * USE
    }

    /// Two windows become one.
    fn halve(&mut self) {
        self.window = self.window.saturating_mul(2);
        let (mut uses, mut from) = (Vec::with_capacity(self.uses.len()), 0);
        let pairs = self.windows.chunks(2).map(|pair| {
            let mut of = |window: &Window| {
                let to = window.uses as usize;
                &self.uses[std::mem::replace(&mut from, to)..to]
            };
            let first = of(&pair[0]);
            let second = pair.get(1).map_or(&[][..], &mut of);
            merge(first, second, &mut uses);
            let sum =
                |value: fn(&Window) -> u64| pair.iter().map(value).fold(0, u64::saturating_add);
            let (accesses, bytes) = (sum(|one| one.accesses), sum(|one| one.bytes));
            Window { at: pair[0].at, accesses, bytes, uses: uses.len() as u32 }
        });
        self.windows = pairs.collect();
        self.uses = uses;
        self.open.uses = self.uses.len() as u32;
    }
}

/// What either of two windows used, by id as they are.
fn merge(mut first: &[Held], mut second: &[Held], into: &mut Vec<Held>) {
    loop {
        let next = match (first.split_first(), second.split_first()) {
            (Some((one, left)), Some((other, right))) => {
                if one.id <= other.id {
                    first = left;
                }
                if other.id <= one.id {
                    second = right;
                }
                match one.id.cmp(&other.id) {
                    Ordering::Less => *one,
                    Ordering::Greater => *other,
                    Ordering::Equal => Held { touch: one.touch.and(other.touch), ..*one },
                }
            }
            (Some((one, left)), None) => {
                first = left;
                *one
            }
            (None, Some((other, right))) => {
                second = right;
                *other
            }
            (None, None) => return,
        };
        into.push(next);
    }
}
