//! When the turn of each op came, for what happened before it: see [`Stopwatch::pressure`].
//!
//! Invariant: at most [`MOST_TURNS`] ops are kept, the first ones.
//!
//! [`Stopwatch::pressure`]: super::stopwatch::Stopwatch::pressure

use tiersim_models::units::Time;

/// When the turn of each op came, and when each step ended.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By op of the run: the end of the op before it on its stream.
    pub(super) ops: Vec<Time>,
    /// The last end, by stream.
    streams: Vec<Time>,
    pub(super) steps: Vec<Time>,
}

/// Ops whose turns are kept.
const MOST_TURNS: usize = 1 << 20;

impl Turns {
    /// An op of a stream has ended.
    pub(super) fn op_ended(&mut self, occurrence: usize, stream: usize, at: Time) {
        if self.streams.len() <= stream {
            self.streams.resize(stream + 1, Time::ZERO);
        }
        let turn = std::mem::replace(&mut self.streams[stream], at);
        if occurrence >= MOST_TURNS {
            return;
        }
        if self.ops.len() <= occurrence {
            self.ops.resize(occurrence + 1, turn);
        }
        self.ops[occurrence] = turn;
    }
}
