//! What a designer can do something about: parts of the path by what would have to be another.
//!
//! A channel is one cause, whether copies cross it, pay their set-up there or stand in line for it;
//! so is all computing, whatever its phase, and all that a framework's thread does.
//! Invariant: the sums by cause add up to the path, and the gap's parts to step minus bound, to the
//! picosecond.

use super::{PathSum, Spender, WalkedPath};
use crate::results::PathPart;
use crate::units::Span;
use crate::workload::Phase;
use std::collections::BTreeMap;

/// What time of a path is put down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The device computes.
    Compute,
    /// The device computes again what was dropped.
    Recompute,
    /// The host's processors run ops.
    Cpu,
    /// Ops are launched.
    Launch,
    /// Devices exchange bytes.
    Collective,
    /// Copies over a channel, in line for it included.
    Channel(usize),
    /// Use in place of a tier.
    InPlace(usize),
    /// Allocators, and moving objects together.
    Allocator,
    /// Delays that policies state.
    Delay,
    /// Stages of a pipeline wait for others.
    Bubble,
    /// Nothing to do before a request arrives.
    Arrival,
    /// A framework's thread and its passes over what has come.
    Framework,
}

/// All time of a path that one cause has.
#[derive(Clone, Debug, PartialEq)]
pub struct CauseSum {
    /// The cause.
    pub cause: Cause,
    /// All of its time.
    pub span: Span,
    /// Of a channel: set-ups and what else does not depend on bytes, those of copies included that
    /// were stood in line for.
    pub setup: Span,
    /// Of a channel: standing in line, behind set-ups or bytes of other copies.
    pub queued: Span,
    /// Bytes of copies and uses.
    pub bytes: u128,
    /// How many copies crossed, or were used, or ops ran.
    pub count: u64,
    /// By phase, the longest first.
    pub phases: Vec<(Phase, Span)>,
    /// Objects, or names of ops, with what they have of it, the most first.
    pub hottest: Vec<Hot>,
}

/// What an object, or ops of one name, have of a cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Hot {
    /// The object's or the ops' name.
    pub name: String,
    /// Time.
    pub span: Span,
    /// Bytes; 0 for ops.
    pub bytes: u128,
    /// How many copies, uses or ops.
    pub count: u64,
}

/// Step minus bound, by part. All spans are of all steps of the replay together.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// The bound of all steps.
    pub bound: Span,
    /// What it comes from, in words.
    pub by: String,
    /// The parts of the path that pay what the bound says: those that move the bytes, or compute.
    pub paying: Vec<PathPart>,
    /// Picoseconds of these parts, less the bound; below zero where some of what the bound says is
    /// done beside other parts.
    pub beyond: i128,
    /// All other parts that have any time, the longest first.
    pub others: Vec<(PathPart, Span)>,
    /// By how many per cent the bound moves with a hundredth more of something, where a linear
    /// program says it: what that is, in words, and per cent per per cent.
    pub worths: Vec<(String, f64)>,
}

impl Cause {
    /// What a part is put down to.
    pub fn of(part: PathPart) -> Cause {
        match part {
            PathPart::Compute(_) => Cause::Compute,
            PathPart::Recompute => Cause::Recompute,
            PathPart::Cpu => Cause::Cpu,
            PathPart::Launch => Cause::Launch,
            PathPart::Collective => Cause::Collective,
            PathPart::Copy(channel) | PathPart::Queue(channel) => Cause::Channel(channel),
            PathPart::InPlace(tier) => Cause::InPlace(tier),
            PathPart::Allocator => Cause::Allocator,
            PathPart::Delay => Cause::Delay,
            PathPart::Bubble => Cause::Bubble,
            PathPart::Arrival => Cause::Arrival,
            PathPart::HostOps | PathPart::HostObjects | PathPart::HostPasses => Cause::Framework,
        }
    }
}

impl Gap {
    /// The gap of a path to a bound of all of its steps that these parts pay.
    pub fn new(path: &WalkedPath, bound: Span, by: String, paying: Vec<PathPart>) -> Gap {
        let paid: Span = paying.iter().map(|&part| path.of(part)).sum();
        let beyond = i128::from(paid.ps()) - i128::from(bound.ps());
        let mut others = path.parts();
        others.retain(|(part, _)| !paying.contains(part));
        Gap { bound, by, paying, beyond, others, worths: Vec::new() }
    }

    /// Picoseconds of all of it.
    pub fn total(&self) -> i128 {
        let others: i128 = self.others.iter().map(|(_, span)| i128::from(span.ps())).sum();
        self.beyond + others
    }
}

impl WalkedPath {
    /// Every part that has any time, the longest first.
    pub fn parts(&self) -> Vec<(PathPart, Span)> {
        let mut parts: Vec<(PathPart, Span)> = Vec::new();
        for sum in self.sums.iter().filter(|sum| sum.span > Span::ZERO) {
            match parts.iter_mut().find(|(part, _)| *part == sum.part) {
                Some((_, span)) => *span += sum.span,
                None => parts.push((sum.part, sum.span)),
            }
        }
        parts.sort_by_key(|&(_, span)| std::cmp::Reverse(span));
        parts
    }

    /// Time by cause, the longest first.
    pub fn causes(&self) -> Vec<CauseSum> {
        let mut all: Vec<Cause> = self.sums.iter().map(|sum| Cause::of(sum.part)).collect();
        all.sort_unstable();
        all.dedup();
        let mut causes: Vec<CauseSum> = all.into_iter().map(|cause| self.cause(cause)).collect();
        causes.retain(|found| found.span > Span::ZERO);
        causes.sort_by_key(|found| std::cmp::Reverse(found.span));
        causes
    }

    fn cause(&self, cause: Cause) -> CauseSum {
        let own = || self.sums.iter().filter(|sum| Cause::of(sum.part) == cause);
        let in_line = |sum: &&PathSum| matches!(sum.part, PathPart::Queue(_));
        let mut phases: Vec<(Phase, Span)> = Vec::new();
        for sum in own() {
            match phases.iter_mut().find(|(phase, _)| *phase == sum.phase) {
                Some((_, span)) => *span += sum.span,
                None => phases.push((sum.phase, sum.span)),
            }
        }
        phases.sort_by_key(|&(phase, span)| (std::cmp::Reverse(span), phase));
        CauseSum {
            cause,
            span: own().map(|sum| sum.span).sum(),
            setup: own().map(|sum| sum.setup).sum(),
            queued: own().filter(in_line).map(|sum| sum.span).sum(),
            // What stands in line crosses later.
            bytes: own().filter(|sum| !in_line(sum)).map(|sum| sum.bytes).sum(),
            count: own().filter(|sum| !in_line(sum)).map(|sum| sum.count).sum(),
            phases,
            hottest: self.hottest(own()),
        }
    }

    /// What each object or name of ops has of these sums, the most first.
    pub fn hottest<'s>(&self, sums: impl Iterator<Item = &'s PathSum>) -> Vec<Hot> {
        let name = |by: Spender| match by {
            Spender::Op(op) => Some((true, self.ops[op].name.as_str())),
            Spender::Object(object) => Some((false, self.objects[object].name.as_str())),
            Spender::Nothing => None,
        };
        let named = sums.filter_map(|sum| Some((name(sum.by)?, sum)));
        self.grouped(named)
            .into_iter()
            .map(|((_, name), hot)| Hot { name: name.into(), ..hot })
            .collect()
    }

    /// Sums by a key, the longest first.
    pub fn grouped<'s, K: Ord + Clone>(
        &self,
        sums: impl Iterator<Item = (K, &'s PathSum)>,
    ) -> Vec<(K, Hot)> {
        let mut all: BTreeMap<K, Hot> = BTreeMap::new();
        for (key, sum) in sums {
            let none = Hot { name: String::new(), span: Span::ZERO, bytes: 0, count: 0 };
            let found = all.entry(key).or_insert(none);
            found.span += sum.span;
            if !matches!(sum.part, PathPart::Queue(_)) {
                found.bytes += sum.bytes;
                found.count += sum.count;
            }
        }
        let mut all: Vec<(K, Hot)> = all.into_iter().collect();
        all.sort_by_key(|(_, hot)| std::cmp::Reverse(hot.span));
        all
    }
}
