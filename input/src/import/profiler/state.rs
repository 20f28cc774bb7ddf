//! What persists: parameters, their gradients, the optimizer's state, and what reads and writes
//! them when.
//!
//! A node `AccumulateGrad` of the backward graph stands for one parameter. What is given back
//! within it is the gradient that was added, of the parameter's size; where nothing is, its input's
//! shape says the size, or the memory that outlives the backward pass. The node before it shows
//! which kernels made the gradient, and by its sequence number which ran forward for it. Kernels of
//! the optimizer, of setting gradients to zero and of summing them over ranks go through the
//! parameters in order, one way or the other: whichever way durations fit sizes better.
//! Invariant: every use that is made here is of an item of the step that it belongs to.

use super::host::{Host, NOWHERE, Sequences};
use super::items::{Item, Items};
use super::memory::Memory;
use super::shares::shares;
use super::steps::Steps;
use super::tables::{Kind, Range, Tables, is_accumulate};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::workload::{Mode, Phase};

/// How far back the nodes are looked at that lead to a parameter.
const NODES_BACK: usize = 4;
/// How many parameters are looked at for one of the right size.
const LOOKED_AT: usize = 256;

/// A parameter.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameter {
    pub(super) bytes: u64,
    /// The item that made its first gradient.
    pub(super) made: Option<u32>,
    /// The item that read it forward, in the first step.
    pub(super) read: Option<u32>,
}

/// What a use is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    /// The parameter of this number.
    Weight(u32),
    /// Its gradient, where that persists.
    Gradient(u32),
    /// The optimizer's state of it.
    Optimizer(u32),
}

/// What kernels that go through all parameters do with each.
type Role = (fn(u32) -> Of, Mode);

/// All that is worked out.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) parameters: Vec<Parameter>,
    /// Item, what, how.
    pub(super) uses: Vec<(u32, Of, Mode)>,
    /// Whether gradients were there before the file begins and stay.
    pub(super) gradients_stay: bool,
    /// Pieces that hold the gradient of a parameter, where it does not stay.
    pub(super) gradients: BTreeMap<u32, Vec<u32>>,
    /// Bytes of optimizer state per byte of a parameter.
    pub(super) moments: u64,
    /// The optimizer's name.
    pub(super) optimizer: Option<String>,
    /// How sizes are known: from memory, or from shapes.
    pub(super) from_memory: bool,
}

/// One run of `AccumulateGrad`.
#[derive(Clone, Copy, Debug)]
struct Accumulation {
    range: u32,
    bytes: u64,
    /// The piece that was added and given back.
    added: Option<u32>,
    /// The piece that became the gradient.
    kept: Option<u32>,
}

/// What is looked up again and again.
struct Book<'a> {
    tables: &'a Tables,
    host: &'a Host,
    items: &'a [Item],
    steps: &'a Steps,
    memory: &'a Memory,
    /// By thread: nodes in the order of time.
    nodes: BTreeMap<u32, Vec<u32>>,
    /// By thread: items in the order of launches.
    threads: BTreeMap<u32, Vec<u32>>,
    sequences: &'a Sequences,
}

impl State {
    pub(super) fn new(
        (tables, host, sequences): (&Tables, &Host, &Sequences),
        items: &Items,
        steps: &Steps,
        memory: &Memory,
    ) -> State {
        let book = Book::new((tables, host, sequences), &items.list, steps, memory);
        let mut state = State::default();
        let accumulations = book.accumulations();
        let by_step = book.by_step(&accumulations);
        state.parameters = book.parameters(&by_step);
        state.from_memory = accumulations.iter().any(|one| one.added.or(one.kept).is_some());
        let added = accumulations.iter().filter(|one| one.added.is_some()).count();
        state.gradients_stay = added > 0 && added * 2 >= accumulations.len();
        book.optimizer(&mut state);
        for (&step, all) in &by_step {
            book.step(&mut state, step, all);
        }
        book.shared(&mut state);
        state
    }
}

impl<'a> Book<'a> {
    fn new(
        (tables, host, sequences): (&'a Tables, &'a Host, &'a Sequences),
        items: &'a [Item],
        steps: &'a Steps,
        memory: &'a Memory,
    ) -> Book<'a> {
        let (mut nodes, mut threads) = (BTreeMap::<u32, Vec<u32>>::new(), BTreeMap::new());
        for &id in &host.order {
            let range = &tables.ranges[id as usize];
            if matches!(range.kind, Kind::Node | Kind::Accumulate) {
                nodes.entry(range.thread).or_default().push(id);
            }
        }
        for (index, item) in items.iter().enumerate() {
            threads.entry(item.thread).or_insert_with(Vec::new).push(index as u32);
        }
        Book { tables, host, items, steps, memory, nodes, threads, sequences }
    }

    fn range(&self, id: u32) -> &'a Range {
        &self.tables.ranges[id as usize]
    }

    /// Items that a range launched.
    fn launched(&self, id: u32) -> &[u32] {
        let range = self.range(id);
        let list = self.threads.get(&range.thread).map_or(&[][..], Vec::as_slice);
        let at = |item: &u32| self.items[*item as usize].launched;
        let from = list.partition_point(|item| at(item) < range.start);
        let to = list.partition_point(|item| at(item) <= range.end);
        &list[from..to.max(from)]
    }

    /// The longest of some items.
    fn longest(&self, items: &[u32]) -> Option<u32> {
        let span = |id: &u32| (self.items[*id as usize].span, std::cmp::Reverse(*id));
        items.iter().copied().max_by_key(span)
    }

    /// Every run of `AccumulateGrad`, in the order of time.
    fn accumulations(&self) -> Vec<Accumulation> {
        let kind = |id: &u32| self.range(*id).kind == Kind::Accumulate;
        let mut ranges: Vec<u32> = self.nodes.values().flatten().copied().filter(kind).collect();
        ranges.sort_by_key(|&id| (self.range(id).start, id));
        let mut found: BTreeMap<u32, Accumulation> = BTreeMap::new();
        for &range in &ranges {
            found.insert(range, Accumulation { range, bytes: 0, added: None, kept: None });
        }
        if found.is_empty() {
            return Vec::new();
        }
        // Shapes are those of the function within the node.
        for (id, range) in self.tables.ranges.iter().enumerate() {
            if range.input_bytes > 0
                && is_accumulate(self.tables.names.get(range.name))
                && let Some(one) = found.get_mut(&self.host.of(id as u32).node)
            {
                one.bytes = range.input_bytes;
            }
        }
        self.freed_within(&mut found);
        let mut all: Vec<Accumulation> = ranges.iter().map(|range| found[range]).collect();
        self.kept(&mut all);
        all
    }

    /// Pieces that are given back within a node are what it added.
    fn freed_within(&self, found: &mut BTreeMap<u32, Accumulation>) {
        let freed: Vec<u32> = (0..self.memory.pieces.len() as u32)
            .filter(|&id| self.memory.pieces[id as usize].taken.is_some())
            .collect();
        let moments: Vec<(u32, i64)> = freed
            .iter()
            .filter_map(|&id| self.memory.pieces[id as usize].taken)
            .map(|change| &self.memory.changes[change as usize])
            .map(|change| (change.thread, change.at))
            .collect();
        for (&id, range) in freed.iter().zip(self.host.innermost(self.tables, &moments)) {
            let Some(one) = found.get_mut(&self.host.of(range).node) else { continue };
            let bytes = self.memory.pieces[id as usize].bytes;
            let most = one.added.map_or(0, |other| self.memory.pieces[other as usize].bytes);
            if bytes > most {
                (one.added, one.bytes) = (Some(id), bytes);
            }
        }
    }

    /// Where nothing was given back, the gradient is the last memory that was given before the
    /// node, of its size where that is known, and that outlives the backward pass.
    fn kept(&self, all: &mut [Accumulation]) {
        if all.iter().all(|one| one.added.is_some()) {
            return;
        }
        let mut given: Vec<(u32, i64, u32)> = Vec::new();
        for (id, piece) in self.memory.pieces.iter().enumerate() {
            let outlives = match piece.taken {
                Some(_) => self.steps.phase[piece.death as usize] != Phase::Backward,
                None => true,
            };
            let backward = self.steps.phase[piece.birth as usize] == Phase::Backward;
            if let Some(change) = piece.given.filter(|_| outlives && backward) {
                let change = &self.memory.changes[change as usize];
                given.push((change.thread, change.at, id as u32));
            }
        }
        given.sort_unstable();
        let mut used = BTreeSet::new();
        for one in all.iter_mut().filter(|one| one.added.is_none()) {
            let range = self.range(one.range);
            let before = given.partition_point(|at| (at.0, at.1) <= (range.thread, range.end));
            let fits = |id: u32| {
                let bytes = self.memory.pieces[id as usize].bytes;
                one.bytes == 0 || (one.bytes..one.bytes + 512).contains(&bytes)
            };
            let near = given[..before].iter().rev().take(8).take_while(|at| at.0 == range.thread);
            let found = near.map(|at| at.2).find(|&id| !used.contains(&id) && fits(id));
            if let Some(id) = found {
                used.insert(id);
                (one.kept, one.bytes) = (Some(id), self.memory.pieces[id as usize].bytes);
            }
        }
    }

    /// By step; a step is that of the item launched last before.
    fn by_step(&self, all: &[Accumulation]) -> BTreeMap<u32, Vec<Accumulation>> {
        let mut steps: BTreeMap<u32, Vec<Accumulation>> = BTreeMap::new();
        for one in all {
            let start = self.range(one.range).start;
            let before = self.items.partition_point(|item| item.launched <= start);
            let step = self.steps.step.get(before.saturating_sub(1)).copied().unwrap_or(0);
            steps.entry(step).or_default().push(*one);
        }
        steps
    }

    /// The parameters are those of the step with the most: once each where a step goes backward
    /// several times.
    fn parameters(&self, by_step: &BTreeMap<u32, Vec<Accumulation>>) -> Vec<Parameter> {
        let known = |all: &Vec<Accumulation>| all.iter().filter(|one| one.bytes > 0).count();
        let best = by_step.iter().max_by_key(|(step, all)| (known(all), std::cmp::Reverse(**step)));
        let Some((&step, all)) = best else { return Vec::new() };
        let sizes: Vec<u64> = all.iter().map(|one| one.bytes).collect();
        let passes = self.passes(step);
        let one_pass = sizes.len() / passes.max(1);
        let again = one_pass * passes == sizes.len()
            && (one_pass..sizes.len()).all(|index| sizes[index] == sizes[index - one_pass]);
        let count = if again && passes > 1 { one_pass } else { sizes.len() };
        let parameter = |&bytes: &u64| Parameter { bytes, ..Parameter::default() };
        sizes[..count].iter().filter(|&&bytes| bytes > 0).map(parameter).collect()
    }

    /// How often a step goes backward.
    fn passes(&self, step: u32) -> usize {
        let (mut passes, mut backward) = (0, false);
        for (index, _) in self.of_step(step) {
            match self.steps.phase[index as usize] {
                Phase::Backward if !backward => (passes, backward) = (passes + 1, true),
                Phase::Forward => backward = false,
                _ => {}
            }
        }
        passes
    }

    fn of_step(&self, step: u32) -> impl Iterator<Item = (u32, &'a Item)> {
        let from = self.steps.step.partition_point(|&of| of < step);
        let to = self.steps.step.partition_point(|&of| of <= step);
        self.items[from..to].iter().enumerate().map(move |(row, item)| ((from + row) as u32, item))
    }

    /// Uses in one step that its nodes show.
    fn step(&self, state: &mut State, step: u32, all: &[Accumulation]) {
        let mut next = 0;
        for one in all.iter().filter(|one| one.bytes > 0) {
            // The next parameter of that size, from where the last one was found.
            let count = state.parameters.len();
            let mut at = (0..count.min(LOOKED_AT)).map(|ahead| (next + ahead) % count);
            let fits = |&at: &usize| state.parameters[at].bytes == one.bytes;
            let Some(index) = at.find(fits) else { continue };
            next = index + 1;
            let parameter = index as u32;
            if let Some(piece) = one.kept {
                state.gradients.entry(parameter).or_default().push(piece);
            }
            let (made, read) = self.around(one, step);
            for item in self.launched(one.range) {
                if state.gradients_stay {
                    state.uses.push((*item, Of::Gradient(parameter), Mode::ReadWrite));
                }
            }
            if let Some(item) = made {
                state.uses.push((item, Of::Weight(parameter), Mode::Read));
                state.parameters[index].made.get_or_insert(item);
            }
            if let Some(item) = read {
                state.uses.push((item, Of::Weight(parameter), Mode::Read));
                state.parameters[index].read.get_or_insert(item);
            }
        }
    }

    /// The items that made a gradient, and that read its parameter forward.
    fn around(&self, one: &Accumulation, step: u32) -> (Option<u32>, Option<u32>) {
        let range = self.range(one.range);
        let nodes = self.nodes.get(&range.thread).map_or(&[][..], Vec::as_slice);
        let start = |id: &u32| (self.range(*id).start, *id);
        let before = nodes.partition_point(|id| start(id) < (range.start, one.range));
        let is_node = |id: &&u32| self.range(**id).kind == Kind::Node;
        let back: Vec<u32> = nodes[..before]
            .iter()
            .rev()
            .take(1024)
            .filter(is_node)
            .take(NODES_BACK)
            .copied()
            .collect();
        let piece = one.added.or(one.kept).map(|id| self.memory.pieces[id as usize].birth);
        let of_node = back.iter().map(|&id| self.launched(id)).find(|items| !items.is_empty());
        let made = piece.or_else(|| self.longest(of_node?));
        let read = back.first().and_then(|&id| self.forward_of(id, of_node?, made));
        let in_step = |item: &u32| self.steps.step[*item as usize] == step;
        (made.filter(in_step), read.filter(in_step))
    }

    /// The item that ran forward for what a node made: the longest of its op's; of an op that
    /// stands for much of the model, the one that lies as far from its end as `made` lies from the
    /// node's begin.
    fn forward_of(&self, node: u32, backward: &[u32], made: Option<u32>) -> Option<u32> {
        let mut op = self.sequences.forward(self.range(node))?;
        for _ in 0..NODES_BACK {
            let items = self.launched(op);
            if items.len() > 64 {
                let (first, last) = (*backward.first()?, *backward.last()?);
                let made = made.unwrap_or(last).clamp(first, last);
                let share = f64::from(last - made) / f64::from((last - first).max(1));
                return items.get((share * (items.len() - 1) as f64) as usize).copied();
            }
            if let Some(item) = self.longest(items) {
                return Some(item);
            }
            op = Some(self.host.of(op).parent).filter(|&parent| parent != NOWHERE)?;
        }
        None
    }

    /// The optimizer's name, and how much state it keeps.
    fn optimizer(&self, state: &mut State) {
        let mut ranges = self.tables.ranges.iter().filter(|range| range.kind == Kind::Optimizer);
        let Some(first) = ranges.next() else { return };
        let name = self.tables.names.get(first.name);
        let name = name.strip_prefix("Optimizer.step#").unwrap_or(name);
        let name = name.strip_suffix(".step").unwrap_or(name).to_owned();
        let lower = name.to_ascii_lowercase();
        state.moments = if lower.contains("adam") || lower.contains("lamb") {
            2
        } else if ["rmsprop", "adagrad", "lion"].iter().any(|word| lower.contains(word)) {
            1
        } else {
            0
        };
        state.optimizer = Some(name);
    }

    /// Kernels that go through all parameters: those of the optimizer, those that set gradients to
    /// zero, and those that sum them over ranks.
    fn shared(&self, state: &mut State) {
        let steps: BTreeSet<u32> = self.steps.step.iter().copied().collect();
        for step in steps {
            let within = |of: fn(&super::host::Within) -> u32| {
                let all = self.of_step(step);
                let all = all.filter(|(_, item)| of(&self.host.of(item.range)) != NOWHERE);
                all.map(|(index, _)| index).collect::<Vec<u32>>()
            };
            let update = within(|within| within.optimizer);
            let zeros = within(|within| within.zero_grad);
            let sums: Vec<u32> = self
                .of_step(step)
                .filter(|(index, item)| {
                    let name = self.tables.names.get(item.name).to_ascii_lowercase();
                    let apart = self.host.of(item.range).node == NOWHERE;
                    let phase = self.steps.phase[*index as usize] == Phase::Backward;
                    apart && phase && (name.contains("nccl") || name.contains("rccl"))
                })
                .map(|(index, _)| index)
                .collect();
            self.spread(
                state,
                &update,
                &[
                    (Of::Weight, Mode::ReadWrite),
                    (Of::Gradient, Mode::Read),
                    (Of::Optimizer, Mode::ReadWrite),
                ],
            );
            self.spread(state, &zeros, &[(Of::Gradient, Mode::Write)]);
            if sums.len() == state.parameters.len() {
                self.spread(state, &sums, &[(Of::Gradient, Mode::ReadWrite)]);
            }
        }
    }

    /// Shares out items among the parameters.
    fn spread(&self, state: &mut State, items: &[u32], what: &[Role]) {
        let sizes: Vec<u64> = state.parameters.iter().map(|one| one.bytes).collect();
        let spans: Vec<u64> = items.iter().map(|&id| self.items[id as usize].span).collect();
        for (index, run) in shares(&sizes, &spans).into_iter().enumerate() {
            for row in run {
                for (of, mode) in what {
                    state.uses.push((items[row], of(index as u32), *mode));
                }
            }
        }
    }
}
