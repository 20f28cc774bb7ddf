//! A progress bar on stderr, for people only: silent when stderr is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A bar that counts cases to `total`; its message says what else it counts. A quiet one is hidden
/// until [`show`] brings it to light.
pub(crate) fn bar(total: usize, quiet: bool) -> ProgressBar {
    styled(Some(total as u64), "{bar:40} {pos}/{len} {msg}, {eta} left", "cases", quiet)
}

/// Draws a hidden bar if its work has taken a second.
pub(crate) fn show(bar: &ProgressBar, quiet: bool) {
    if !quiet && bar.is_hidden() && bar.elapsed() > Duration::from_secs(1) {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
    }
}

/// A count of what has been done of something whose end is not known.
pub(crate) fn spinner(what: &'static str, quiet: bool) -> ProgressBar {
    styled(None, "{spinner} {human_pos} {msg}, {elapsed}", what, quiet)
}

fn styled(total: Option<u64>, template: &str, what: &'static str, quiet: bool) -> ProgressBar {
    let target =
        if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
    let bar = ProgressBar::with_draw_target(total, target);
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    bar.set_style(style);
    bar.set_message(what);
    bar
}
