//! What a profiler's trace holds, as tables of small rows.
//!
//! Each event that an import needs becomes one row of plain numbers; names are kept once. An event
//! of several hundred bytes of text leaves at most some 60 bytes here, so the tables of a file of
//! gigabytes fit in memory.
//! Invariant: rows are in the order of the file, and times count from the first event's.

use super::events::{Category, Event};
use super::values::Id;
use crate::import::groups::{Groups, Said};
use crate::import::names::Names;
use std::collections::BTreeMap;
use tiersim_models::kernel::Product;

/// In the place of a number that an event does not say.
pub(super) const NONE: i64 = i64::MIN;

/// What the device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Kernel,
    Copy,
    Fill,
}

/// One activity of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    pub(super) start: i64,
    pub(super) span: u64,
    pub(super) correlation: i64,
    pub(super) bytes: u64,
    pub(super) name: u32,
    /// Which of [`Tables::streams`].
    pub(super) stream: u32,
    pub(super) work: Work,
}

/// A call of the runtime, such as the launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) correlation: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) bytes: u64,
    pub(super) thread: u32,
}

/// What a range on the host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An op of the framework.
    Op,
    /// A node of the backward graph.
    Node,
    /// The node that adds to a parameter's gradient.
    Accumulate,
    /// A step of the profiler, with its number.
    Step(u32),
    /// A step of an optimizer.
    Optimizer,
    /// Gradients set to zero, or let go.
    ZeroGrad,
    /// A module of the model.
    Module,
    /// What a program calls forward.
    Forward,
    /// What a program calls backward.
    Backward,
    /// Any other range that a program named.
    Label,
}

/// A range on a thread of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Pairs what ran forward with what ran backward for it.
    pub(super) sequence: i64,
    /// Its number in an execution trace.
    pub(super) record_function: i64,
    /// Bytes of its first input, if its shape and type are known.
    pub(super) input_bytes: u64,
    pub(super) flops: u64,
    pub(super) thread: u32,
    pub(super) name: u32,
    pub(super) kind: Kind,
}

/// Memory that was given (above 0 bytes) or taken back (below).
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at: i64,
    /// Settles which of two at one time came first.
    pub(super) index: i64,
    pub(super) address: i64,
    pub(super) bytes: i64,
    /// Bytes that are given after it; [`NONE`] where that is not said.
    pub(super) total: i64,
    pub(super) thread: u32,
    /// Whether it is the host's memory.
    pub(super) host: bool,
    pub(super) device: i64,
}

/// Who waits in a `cuda_sync` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// What is launched on a stream from then on.
    Stream,
    /// The thread of the host.
    Host,
}

/// A wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) waiter: Waiter,
    /// The call that asked for it.
    pub(super) correlation: i64,
    /// The stream of the event: the one that waits, or whose work the host waits for.
    pub(super) stream: i64,
    /// The stream whose work is waited for, where that is another one.
    pub(super) on_stream: i64,
    /// The call that recorded the event that is waited for.
    pub(super) record: i64,
}

/// What wrote the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// The PyTorch profiler.
    #[default]
    Profiler,
    /// Nsight Systems.
    #[cfg_attr(not(feature = "nsight"), expect(dead_code, reason = "its reader is left out"))]
    Nsight,
}

impl Source {
    /// One of the two words.
    pub(super) fn of<T>(self, profiler: T, nsight: T) -> T {
        match self {
            Source::Profiler => profiler,
            Source::Nsight => nsight,
        }
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) source: Source,
    /// What an export could have and has not.
    pub(super) missing: Vec<&'static str>,
    /// Activities of processes that are left out.
    pub(super) elsewhere: u64,
    pub(super) names: Names,
    /// Device and stream.
    pub(super) streams: Vec<(i64, i64)>,
    stream_ids: BTreeMap<(i64, i64), u32>,
    threads: BTreeMap<(Id, Id), u32>,
    pub(super) activities: Vec<Activity>,
    pub(super) calls: Vec<Call>,
    pub(super) ranges: Vec<Range>,
    pub(super) changes: Vec<Change>,
    pub(super) waits: Vec<Wait>,
    /// Events of all kinds.
    pub(super) events: u64,
    /// Python functions that are no modules.
    pub(super) functions: u64,
    /// Events that should have a time and have none that can be used.
    pub(super) timeless: u64,
    /// Copies and fills that say bytes which cannot be read, or are no number of bytes.
    pub(super) sizeless: u64,
    base: Option<i128>,
    /// Products of matrices among the ranges: which range, precision and shape.
    pub(super) products: Vec<(u32, &'static str, Product)>,
    /// Names of the devices by their number, and bytes of their memory.
    pub(super) devices: BTreeMap<i64, (String, Option<u64>)>,
    pub(super) rank: Option<i64>,
    pub(super) ranks: Option<i64>,
    /// Nanoseconds since 1970 that times count from.
    pub(super) epoch: Option<i64>,
    /// Ranks of groups by their names, as the head of the file lists them.
    pub(super) listed: BTreeMap<String, Vec<u32>>,
    /// Groups that collectives name.
    pub(super) groups: Groups,
    /// What is said of the collective that an activity is, by its stream and start, and of the one
    /// that a range asks for.
    pub(super) said: BTreeMap<(u32, i64), Said>,
    pub(super) asked: BTreeMap<u32, Said>,
}

impl Tables {
    /// The first event's time, in picoseconds of the profiler's.
    pub(super) fn base(&self) -> i128 {
        self.base.unwrap_or(0)
    }

    /// Takes what is needed of an event; returns how many bytes of memory that takes, and what
    /// follows from it.
    pub(super) fn take(&mut self, event: &Event) -> usize {
        self.events += 1;
        let complete = event.phase == b'X';
        if event.name == "[memory]" {
            return self.change(event);
        }
        match event.category {
            Category::Kernel | Category::Copy | Category::Fill if complete => self.activity(event),
            // Begin and end apart, which this profiler does not write: neither says how long.
            Category::Kernel | Category::Copy | Category::Fill if event.phase == b'B' => {
                self.timeless += 1;
                0
            }
            Category::Runtime if complete => self.call(event),
            Category::Op | Category::Annotation | Category::Python if complete => self.range(event),
            Category::Sync if complete => self.wait(event),
            _ => 0,
        }
    }

    fn time(&mut self, event: &Event) -> Option<(i64, i64)> {
        let found = event.start.and_then(|start| {
            let base = *self.base.get_or_insert(start);
            let start = i64::try_from(start - base).ok()?;
            let span = i64::try_from(event.span.unwrap_or(0)).ok().filter(|&span| span >= 0)?;
            // Sums of times stay far from the limit.
            let near = |time: i64| time.unsigned_abs() < 1 << 61;
            (near(start) && near(span)).then_some((start, start + span))
        });
        self.timeless += u64::from(found.is_none());
        found
    }

    fn thread(&mut self, event: &Event) -> u32 {
        let next = self.threads.len() as u32;
        *self.threads.entry((event.process.clone(), event.thread.clone())).or_insert(next)
    }

    fn activity(&mut self, event: &Event) -> usize {
        if event.span.is_none() {
            self.timeless += 1;
            return 0;
        }
        let Some((start, end)) = self.time(event) else { return 0 };
        let work = match event.category {
            Category::Kernel => Work::Kernel,
            Category::Copy => Work::Copy,
            _ => Work::Fill,
        };
        let bytes = event.args.bytes.and_then(|bytes| u64::try_from(bytes).ok());
        // A copy of no bytes would be one that was measured, and the rate of its link nothing.
        if work != Work::Kernel && event.args.sized && bytes.is_none() {
            self.sizeless += 1;
            return 0;
        }
        let number = |id: &Id| match id {
            Id::Number(number) => Some(*number),
            _ => None,
        };
        // The profiler shows a device as a process, and a stream as its thread.
        let device = event.args.device.or(number(&event.process)).unwrap_or(0);
        let stream = event.args.stream.or(number(&event.thread)).unwrap_or(0);
        let next = self.streams.len() as u32;
        let stream_id = *self.stream_ids.entry((device, stream)).or_insert(next);
        if stream_id == next {
            self.streams.push((device, stream));
        }
        let (name, mut more) = self.names.id(&event.name);
        if let Some(said) = &event.args.collective {
            let (said, bytes) = self.groups.said(said);
            more += bytes;
            self.said.insert((stream_id, start), said);
        }
        self.activities.push(Activity {
            start,
            span: start.abs_diff(end),
            correlation: event.args.correlation.unwrap_or(NONE),
            bytes: bytes.unwrap_or(0),
            name,
            stream: stream_id,
            work,
        });
        // An op, a wait before it, and an edge of each.
        more + size_of::<Activity>() + ACTIVITY_BYTES
    }

    fn call(&mut self, event: &Event) -> usize {
        let Some((start, end)) = self.time(event) else { return 0 };
        let Some(correlation) = event.args.correlation else { return 0 };
        let thread = self.thread(event);
        let bytes = event.args.bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        self.calls.push(Call { correlation, start, end, bytes, thread });
        2 * size_of::<Call>()
    }

    fn range(&mut self, event: &Event) -> usize {
        let module = event.name.strip_prefix("nn.Module: ");
        if event.category == Category::Python && module.is_none() {
            self.functions += 1;
            return 0;
        }
        let Some((start, end)) = self.time(event) else { return 0 };
        let kind = match module {
            Some(_) => Kind::Module,
            None => kind_of(&event.name, event.category == Category::Annotation),
        };
        let thread = self.thread(event);
        let (name, mut more) = self.names.id(module.unwrap_or(&event.name));
        let args = &event.args;
        if let Some(said) = &args.collective {
            let (said, bytes) = self.groups.said(said);
            more += bytes;
            self.asked.insert(self.ranges.len() as u32, said);
        }
        if let Some((precision, product)) = super::shapes::product(&event.name, args) {
            self.products.push((self.ranges.len() as u32, precision, product));
        }
        self.ranges.push(Range {
            start,
            end,
            sequence: args.sequence.unwrap_or(NONE),
            record_function: args.record_function.unwrap_or(NONE),
            input_bytes: super::shapes::input_bytes(args),
            flops: super::shapes::flops(&event.name, args),
            thread,
            name,
            kind,
        });
        more + 2 * size_of::<Range>()
    }

    fn wait(&mut self, event: &Event) -> usize {
        let Some(correlation) = event.args.correlation else { return 0 };
        let waiter = match event.name.as_str() {
            "Stream Wait Event" => Waiter::Stream,
            _ => Waiter::Host,
        };
        self.waits.push(Wait {
            waiter,
            correlation,
            stream: event.args.stream.unwrap_or(NONE),
            on_stream: event.args.wait_on_stream.unwrap_or(NONE),
            record: event.args.wait_on_record.unwrap_or(NONE),
        });
        2 * size_of::<Wait>()
    }

    fn change(&mut self, event: &Event) -> usize {
        let Some((at, _)) = self.time(event) else { return 0 };
        let thread = self.thread(event);
        let args = &event.args;
        let Some(bytes) = args.bytes.filter(|&bytes| bytes != 0 && bytes != NONE) else { return 0 };
        self.changes.push(Change {
            at,
            index: args.index.unwrap_or(NONE),
            address: args.address.unwrap_or(NONE),
            bytes,
            total: args.total_allocated.unwrap_or(NONE),
            thread,
            host: args.device_type.unwrap_or(0) == 0,
            device: args.device_id.unwrap_or(NONE),
        });
        size_of::<Change>() + CHANGE_BYTES
    }
}

/// What an op of the trace, the wait before it and what is worked out for them take.
const ACTIVITY_BYTES: usize = 700;
/// What an object and its uses take.
const CHANGE_BYTES: usize = 200;

/// What a range is by its name, and by whether the program named it.
fn kind_of(name: &str, annotation: bool) -> Kind {
    const NODE: &str = "autograd::engine::evaluate_function: ";
    if let Some(number) = name.strip_prefix("ProfilerStep#") {
        return number.trim().parse().map_or(Kind::Label, Kind::Step);
    }
    if name.starts_with("Optimizer.step#") {
        return Kind::Optimizer;
    }
    if name.starts_with("Optimizer.zero_grad#") {
        return Kind::ZeroGrad;
    }
    if let Some(node) = name.strip_prefix(NODE) {
        return if is_accumulate(node) { Kind::Accumulate } else { Kind::Node };
    }
    if !annotation {
        return Kind::Op;
    }
    match name.trim_matches(['#', ' ', '*', '=']).to_ascii_lowercase().as_str() {
        "forward" | "fwd" | "forward pass" | "forward_pass" => Kind::Forward,
        "backward" | "bwd" | "backward pass" | "backward_pass" => Kind::Backward,
        "optimizer" | "optimizer step" | "optimizer_step" | "optimizer.step" => Kind::Optimizer,
        _ => Kind::Label,
    }
}

/// Whether a node of the backward graph, or the function that it runs, adds to a gradient.
pub(super) fn is_accumulate(name: &str) -> bool {
    name == "torch::autograd::AccumulateGrad" || name == "AccumulateGrad"
}
