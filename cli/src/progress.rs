//! A progress bar on stderr, for people only: silent when stderr is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A bar that counts cases to `total`; its message says what else it counts.
pub(crate) fn bar(total: usize, quiet: bool) -> ProgressBar {
    let target =
        if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
    let bar = ProgressBar::with_draw_target(Some(total as u64), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {eta} left")
        .expect("the template is well formed");
    bar.set_style(style);
    bar.set_message("cases");
    bar
}

/// A bar that [`show`] brings to light once there is something to wait for.
pub(crate) fn late_bar(total: usize) -> ProgressBar {
    bar(total, true)
}

/// Draws a late bar if its work has taken a second.
pub(crate) fn show(bar: &ProgressBar, quiet: bool) {
    if !quiet && bar.is_hidden() && bar.elapsed() > Duration::from_secs(1) {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
    }
}

/// A count of what has been done of something whose end is not known.
pub(crate) fn spinner(what: &'static str, quiet: bool) -> ProgressBar {
    let target =
        if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{spinner} {human_pos} {msg}, {elapsed}")
        .expect("the template is well formed");
    bar.set_style(style);
    bar.set_message(what);
    bar
}
