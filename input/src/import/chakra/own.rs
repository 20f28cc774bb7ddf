//! A file that tiersim wrote, with attributes of its own: the trace that it was, and no guess.
//!
//! Nodes between ops move objects that the trace itself sends from the device to its host or back;
//! here they are left out, for a policy decides on moves.
//! Invariant: every node says what it is, and their numbers rise one by one, so that one that was
//! taken away or put in is noticed.

use super::Account;
use super::row::{counted, pattern};
use super::said::{self, names};
use super::wire::{GlobalMetadata, Node, Said, Value, kinds};
use crate::trace::group_of;
use std::sync::Arc;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::ids::{ModuleId, OpId, RankId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Gaps, Object, ObjectKind, Op, Phase, Recorded, Statistics, Trace, TraceMeta, Unit, Use,
};

/// The trace so far.
pub(super) struct Own {
    trace: Trace,
    /// By object.
    histories: Vec<Vec<Statistics>>,
    /// Modules, objects, ops and rows of statistics, as the head counts them.
    wanted: [u64; 4],
    rows: u64,
    gaps: Gaps,
}

impl Own {
    /// Of a file whose head says that tiersim wrote it.
    ///
    /// # Errors
    /// A rule that the head breaks.
    pub(super) fn of(head: &GlobalMetadata, gaps: Gaps) -> Result<Option<Own>, String> {
        let said = Attributes { said: Said(&head.attr), of: "the head".to_owned() };
        let Some(version) = said.whole::<u32>(names::SCHEMA)? else { return Ok(None) };
        if version != said::VERSION {
            let (name, known) = (names::SCHEMA, said::VERSION);
            return Err(format!("{name} is {known}, and the head says {version}"));
        }
        let text = |name| said.text(name).map(|text| text.unwrap_or_default().to_owned());
        let recorded =
            Recorded { how: text(names::HOW)?, when: text(names::WHEN)?, on: text(names::ON)? };
        let meta = TraceMeta {
            name: text(names::NAME)?,
            about: text(names::ABOUT)?,
            precision: text(names::PRECISION)?,
            batch: said.must(names::BATCH)?,
            sequence: said.must(names::SEQUENCE)?,
            recorded,
        };
        let counts = [names::MODULES, names::OBJECTS, names::OPS, names::STATISTICS_ROWS];
        let mut wanted = [0; 4];
        for (wanted, name) in wanted.iter_mut().zip(counts) {
            *wanted = said.must(name)?;
        }
        let (modules, objects, ops, uses) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let trace = Trace { meta, modules, objects, ops, uses };
        Ok(Some(Own { trace, histories: Vec::new(), wanted, rows: 0, gaps }))
    }

    /// Adds what a node says; returns about how many bytes are kept of it.
    ///
    /// # Errors
    /// A rule that it breaks.
    pub(super) fn node(&mut self, from: &Node, account: &mut Account) -> Result<usize, String> {
        counted(from, account)?;
        let said = Attributes { said: from.said(), of: format!("node {}", from.id) };
        let Trace { modules, objects, ops, .. } = &self.trace;
        if let Some(id) = said.whole(names::OP_ID)? {
            said.next(names::OP_ID, id, ops.len())?;
            return self.op(from, &said);
        }
        if let Some(id) = said.whole(names::OBJECT_ID)? {
            said.next(names::OBJECT_ID, id, objects.len())?;
            let object = object(from, &said)?;
            let bytes = size_of::<Object>() + size_of::<Vec<Statistics>>() + object.name.len();
            self.trace.objects.push(object);
            self.histories.push(Vec::new());
            return Ok(bytes);
        }
        if let Some(id) = said.whole(names::MODULE_ID)? {
            said.next(names::MODULE_ID, id, modules.len())?;
            self.trace.modules.push(from.name.as_str().into());
            return Ok(size_of::<String>() + from.name.len());
        }
        if let Some(id) = said.whole::<u32>(names::STATISTICS_OF)? {
            let history = self.histories.get_mut(id as usize);
            let history = history.ok_or_else(|| said.wrong(names::STATISTICS_OF, id))?;
            let (text, before) = (said.text(names::STATISTICS)?.unwrap_or_default(), history.len());
            said::statistics_of(text, history)
                .ok_or_else(|| said.wrong(names::STATISTICS, text))?;
            self.rows += (history.len() - before) as u64;
            return Ok((history.len() - before) * size_of::<Statistics>());
        }
        if said.whole::<u32>(names::MOVE_OF)?.is_some() {
            return Ok(0);
        }
        let (of, schema) = (&said.of, names::SCHEMA);
        Err(format!(
            "nodes say what they are to tiersim where the head has {schema}; {of} does not"
        ))
    }

    fn op(&mut self, from: &Node, said: &Attributes<'_>) -> Result<usize, String> {
        let start = self.trace.uses.len();
        if let Some(text) = said.text(names::USES)? {
            let read = said::uses_of(text, &mut self.trace.uses);
            read.ok_or_else(|| said.wrong(names::USES, text))?;
        }
        let ends = [start, self.trace.uses.len()].map(u32::try_from);
        let [Ok(start), Ok(end)] = ends else {
            return Err("a trace has fewer than 2^32 uses".to_owned());
        };
        let after = said.text(names::AFTER)?;
        let kernels = said.text(names::KERNELS)?;
        let listed = |name, text: &str| said.wrong(name, text);
        let mut op = Op {
            step: said.must(names::STEP)?,
            phase: said.word(names::PHASE, Phase::from_word)?,
            name: from.name.as_str().into(),
            module: said.whole(names::MODULE)?.map(ModuleId),
            stream: said.must("tid")?,
            rank: RankId(0),
            duration: duration(from, said)?,
            flops: match said.whole(names::FLOPS)? {
                Some(flops) => flops,
                None => said.whole("num_ops")?.unwrap_or(0),
            },
            bytes: Bytes::new(said.whole("tensor_size")?.unwrap_or(0)),
            at: said.whole(names::AT_PS)?.map(Time::from_ps),
            release: said.whole(names::RELEASE_PS)?.map(Time::from_ps),
            after: match after {
                Some(text) => said::after_of(text).ok_or_else(|| listed(names::AFTER, text))?,
                None => Vec::new(),
            },
            unit: unit(from, said)?,
            kernels: match kernels {
                Some(text) => {
                    let read = said::kernels_of(text);
                    Some(read.ok_or_else(|| listed(names::KERNELS, text))?.into())
                }
                None => None,
            },
            uses: start..end,
        };
        if op.unit == Unit::Idle && op.duration.is_some() && self.gaps == Gaps::Drop {
            op.duration = Some(Span::ZERO);
        }
        let (lists, uses) = (op.after.len() * size_of::<OpId>(), (end - start) as usize);
        let kernels = op.kernels.as_ref().map_or(0, |all| size_of_val(&all[..]));
        let bytes = size_of::<Op>() + op.name.len() + lists + uses * size_of::<Use>() + kernels;
        self.trace.ops.push(op);
        Ok(bytes)
    }

    /// The trace.
    ///
    /// # Errors
    /// What is missing at the end of the file.
    pub(super) fn finish(mut self, account: &mut Account) -> Result<Trace, String> {
        let Trace { modules, objects, ops, .. } = &self.trace;
        let found = [modules.len(), objects.len(), ops.len()].map(|count| count as u64);
        let found = [found[0], found[1], found[2], self.rows];
        let words = ["modules", "objects", "ops", "rows of statistics"];
        for ((what, found), wanted) in words.iter().zip(found).zip(self.wanted) {
            if found != wanted {
                return Err(format!("the head counts {wanted} {what}, and the file has {found}"));
            }
        }
        for (object, history) in self.trace.objects.iter_mut().zip(self.histories) {
            if !history.is_empty() {
                object.history = Some(Arc::from(history));
            }
        }
        let sum = |all: &mut dyn Iterator<Item = &Object>| {
            all.fold((0, 0u64), |(count, bytes), object| {
                (count + 1, bytes.saturating_add(object.bytes.get()))
            })
        };
        account.own = true;
        account.objects = sum(&mut self.trace.objects.iter());
        account.persistent = sum(&mut self.trace.objects.iter().filter(|one| one.persistent));
        let ops = &self.trace.ops;
        let collective = |op: &&Op| matches!(op.unit, Unit::Network(_));
        account.collectives = ops.iter().filter(collective).count() as u64;
        Ok(self.trace)
    }
}

/// An object, but for its history.
fn object(from: &Node, said: &Attributes<'_>) -> Result<Object, String> {
    Ok(Object {
        name: from.name.as_str().into(),
        kind: said.word(names::KIND, ObjectKind::from_word)?,
        bytes: Bytes::new(said.must(names::BYTES)?),
        dtype: said.text(names::DTYPE)?.unwrap_or_default().to_owned(),
        persistent: said.whole::<u8>(names::PERSISTENT)?.is_some_and(|yes| yes > 0),
        module: said.whole(names::MODULE)?.map(ModuleId),
        statistics: Statistics {
            adam_m: said.real(names::ADAM_M)?,
            adam_v: said.real(names::ADAM_V)?,
            grad_norm: said.real(names::GRAD_NORM)?,
        },
        history: None,
        freed_after: said.whole(names::FREED_AFTER)?.map(OpId),
    })
}

/// Whole microseconds, and what is missing to or above the time that it took.
fn duration(from: &Node, said: &Attributes<'_>) -> Result<Option<Span>, String> {
    let rest = match said.said.value(names::REST_PS) {
        None if from.duration_micros == 0 => return Ok(None),
        None => 0,
        Some(&Value::Sint64(rest)) => rest,
        Some(_) => return Err(said.wrong(names::REST_PS, "a value of another type")),
    };
    let ps = from.duration_micros.checked_mul(1_000_000);
    let ps = ps.and_then(|ps| ps.checked_add_signed(rest)).map(Span::from_ps);
    ps.map(Some).ok_or_else(|| said.wrong(names::REST_PS, rest))
}

/// What an op runs on, from what its node is.
fn unit(from: &Node, said: &Attributes<'_>) -> Result<Unit, String> {
    let kind = match from.kind {
        kinds::COMPUTE => {
            let on_host = said.said.number("is_cpu_op").is_some_and(|yes| yes > 0);
            return match said.text(names::UNIT)? {
                Some(said::IDLE) => Ok(Unit::Idle),
                Some(other) => Err(said.wrong(names::UNIT, other)),
                None if on_host => Ok(Unit::Cpu),
                None => Ok(Unit::Device),
            };
        }
        kinds::SEND | kinds::RECEIVE => CollectiveKind::SendRecv,
        kinds::COLLECTIVE => {
            let number = said.must("comm_type")?;
            pattern(number).ok_or_else(|| said.wrong("comm_type", number))?
        }
        kind => return Err(said.wrong("the kind of an op's node", kind)),
    };
    let bytes = Bytes::new(said.must(names::COLLECTIVE_BYTES)?);
    let text = said.text(names::GROUP)?.unwrap_or_default();
    let group = group_of(text).ok_or_else(|| said.wrong(names::GROUP, text))?;
    let (within, servers, times) = group;
    Ok(Unit::Network(Collective { kind, bytes, within, servers, times }))
}

/// Attributes, and whose they are.
struct Attributes<'a> {
    said: Said<'a>,
    of: String,
}

impl<'a> Attributes<'a> {
    fn wrong(&self, name: &str, found: impl std::fmt::Display) -> String {
        let found: String = found.to_string().chars().take(80).collect();
        format!("{name} is as `tiersim trace export` writes it; {} says {found:?}", self.of)
    }

    /// A whole number, if there is one.
    fn whole<T: TryFrom<u64>>(&self, name: &str) -> Result<Option<T>, String> {
        if self.said.value(name).is_none() {
            return Ok(None);
        }
        let number = self.said.number(name).and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.wrong(name, "what is no such number"))
    }

    fn must<T: TryFrom<u64>>(&self, name: &str) -> Result<T, String> {
        self.whole(name)?.ok_or_else(|| self.wrong(name, "nothing"))
    }

    /// The number that comes next.
    fn next(&self, name: &str, id: u64, next: usize) -> Result<(), String> {
        match id == next as u64 {
            true => Ok(()),
            false => Err(format!("{name} {next} comes next; {} says {id}", self.of)),
        }
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.said.value(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "what is no text")),
        }
    }

    fn real(&self, name: &str) -> Result<Option<f64>, String> {
        match self.said.value(name) {
            None => Ok(None),
            Some(&Value::Double(number)) => Ok(Some(number)),
            Some(_) => Err(self.wrong(name, "what is no double")),
        }
    }

    fn word<T>(&self, name: &str, of: fn(&str) -> Option<T>) -> Result<T, String> {
        let word = self.text(name)?.unwrap_or_default();
        of(word).ok_or_else(|| self.wrong(name, word))
    }
}
