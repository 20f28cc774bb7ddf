//! How far the work is: a bar on stderr for people, silent when that is no terminal, or lines for a
//! program that listens.

use crate::messages::{for_a_program, tell};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;

/// The least time between two lines for a program.
const BETWEEN: Duration = Duration::from_millis(100);

/// A count of what has been done.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Of what is told to a program: when it was told last, from the beginning.
    told: Option<Mutex<Duration>>,
}

/// A count of cases to `total`; its message says what else it counts.
pub(crate) fn bar(total: usize, quiet: bool) -> Progress {
    styled(Some(total as u64), "{bar:40} {pos}/{len} {msg}, {per_sec}, {eta} left", "cases", quiet)
}

/// A count of what has been done of something whose end is not known.
pub(crate) fn spinner(what: &'static str, quiet: bool) -> Progress {
    styled(None, "{spinner} {human_pos} {msg}, {elapsed}", what, quiet)
}

fn styled(total: Option<u64>, template: &str, what: &'static str, quiet: bool) -> Progress {
    let hidden = quiet || for_a_program();
    let target =
        if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
    let bar = ProgressBar::with_draw_target(total, target);
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    bar.set_style(style);
    bar.set_message(what);
    let told = (!quiet && for_a_program()).then(|| Mutex::new(Duration::ZERO));
    Progress { bar, told }
}

impl Progress {
    /// So many more are done.
    pub(crate) fn inc(&self, more: u64) {
        self.bar.inc(more);
        self.tell();
    }

    /// So many are done.
    pub(crate) fn set_position(&self, done: u64) {
        self.bar.set_position(done);
        self.tell();
    }

    /// Time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.bar.elapsed()
    }

    /// There are so many in all.
    pub(crate) fn set_length(&self, all: u64) {
        self.bar.set_length(all);
    }

    /// What is counted.
    pub(crate) fn set_message(&self, what: impl Into<std::borrow::Cow<'static, str>>) {
        self.bar.set_message(what);
    }

    /// Draws a hidden bar if its work has taken a second.
    pub(crate) fn show(&self, quiet: bool) {
        let asked = !quiet && !for_a_program();
        if asked && self.bar.is_hidden() && self.bar.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        }
    }

    /// The work is done.
    pub(crate) fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }

    fn tell(&self) {
        let Some(told) = &self.told else { return };
        let (done, all) = (self.bar.position(), self.bar.length());
        let mut last = told.lock().expect("nobody panics with it");
        let now = self.bar.elapsed();
        if now.saturating_sub(*last) >= BETWEEN || all == Some(done) {
            *last = now;
            let (what, seconds) = (self.bar.message(), (now.as_secs_f64() * 1e3).round() / 1e3);
            let of = json!({ "done": done, "of": all, "what": what, "seconds": seconds });
            tell(&json!({ "progress": of }));
        }
    }
}
