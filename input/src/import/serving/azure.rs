//! The Azure LLM inference traces (Patel et al., "Splitwise", ISCA 2024): a table of arrivals and
//! lengths, without contents.
//!
//! `TIMESTAMP` is a wall clock with up to seven decimals of a second (ticks of 100 ns), without a zone in
//! the traces of 2023 and with one in those of 2024 (`+00:00`); the first request arrives at 0. The last line need not end with a line break.
//! Invariant: no leap second, daylight saving or zone is guessed: a clock is a count of ticks, and a zone
//! that is written is taken off.

use super::table::{Arrival, Table};
use crate::trace::rows::{Row, whole_number};

const COLUMNS: &str = "TIMESTAMP ContextTokens GeneratedTokens *?";
/// Ticks of the clock in a second.
const TICKS_PER_S: u64 = 10_000_000;
/// Picoseconds of a tick.
const PS_PER_TICK: u64 = 100_000;

/// What the table says.
pub(super) const TABLE: Table =
    Table { told_by: &["TIMESTAMP"], columns: COLUMNS, ps: PS_PER_TICK, failures: false, arrival };

fn arrival(row: &mut Row<'_>) -> Arrival {
    let stamp = row.text("TIMESTAMP").to_owned();
    let at = ticks(&stamp).unwrap_or_else(|| {
        let found = format!("{stamp:?}");
        let rule = "TIMESTAMP is YYYY-MM-DD hh:mm:ss with up to seven decimals";
        row.problem(rule, found, "write it as in 2023-11-16 18:15:46.6805900");
        0
    });
    Arrival { at, prompt: row.whole("ContextTokens"), output: row.whole("GeneratedTokens") }
}

/// Ticks since the start of the year 0.
fn ticks(stamp: &str) -> Option<u64> {
    let (date, clock) = stamp.split_once(' ')?;
    let [year, month, day] = parts(date, '-', [4, 2, 2])?;
    let (clock, zone) = match clock.find(['+', '-']) {
        Some(at) => (&clock[..at], zone(&clock[at..])?),
        None => (clock, 0),
    };
    let (clock, decimals) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = parts(clock, ':', [2, 2, 2])?;
    let within = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !within || !(1..=7).contains(&decimals.len()) {
        return None;
    }
    let fraction = whole_number(decimals)? * 10u64.pow(7 - decimals.len() as u32);
    let days = days_before(year) + (1..month).map(|month| days_of(year, month)).sum::<u64>() + day;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds.checked_add_signed(-zone)? * TICKS_PER_S + fraction)
}

/// Seconds that a zone such as `+05:30` is ahead.
fn zone(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text[1..].split_once(':')?;
    let two = |text: &str| whole_number(text).filter(|_| text.len() == 2);
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60) as i64)
}

/// Three numbers of so many digits.
fn parts(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.split(between);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = whole_number(part)?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days of the years before `year`, from the year 0 on, in the Gregorian calendar.
fn days_before(year: u64) -> u64 {
    let leap = |years: u64| years.div_ceil(4) - years.div_ceil(100) + years.div_ceil(400);
    year * 365 + leap(year)
}

fn days_of(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_over_every_border() {
        let tick = |stamp: &str| ticks(stamp).unwrap_or_else(|| panic!("{stamp}"));
        for (before, after) in [
            ("2023-11-16 18:15:46.9999999", "2023-11-16 18:15:47"),
            ("2023-11-16 18:59:59.9999999", "2023-11-16 19:00:00.0"),
            ("2023-12-31 23:59:59.9999999", "2024-01-01 00:00:00"),
            ("2024-02-29 23:59:59.9999999", "2024-03-01 00:00:00"),
            ("2023-02-28 23:59:59.9999999", "2023-03-01 00:00:00"),
            ("2000-02-29 23:59:59.9999999", "2000-03-01 00:00:00"),
            ("1999-12-31 23:59:59.9999999", "2000-01-01 00:00:00"),
            ("1900-02-28 23:59:59.9999999", "1900-03-01 00:00:00"),
            ("0000-12-31 23:59:59.9999999", "0001-01-01 00:00:00"),
        ] {
            assert_eq!(tick(before) + 1, tick(after), "{before}");
        }
        // `date -u -d @1700158546` is 2023-11-16 18:15:46, and 1970 began 719,528 days after
        // year 0.
        let epoch = tick("1970-01-01 00:00:00");
        assert_eq!((tick("2023-11-16 18:15:46") - epoch) / TICKS_PER_S, 1_700_158_546);
        assert_eq!(tick("2023-11-16 18:15:46.68059"), tick("2023-11-16 18:15:46.6805900"));
        // As in the traces of 2024.
        let utc = tick("2024-05-10 00:00:00.00993");
        assert_eq!(tick("2024-05-10 00:00:00.009930+00:00"), utc);
        assert_eq!(tick("2024-05-10 05:30:00.009930+05:30"), utc);
        assert_eq!(tick("2024-05-09 17:00:00.009930-07:00"), utc);
    }

    #[test]
    fn what_is_no_clock_is_refused() {
        for bad in [
            "",
            "2023-11-16",
            "2023-11-16T18:15:46",
            "2023-11-16 18:15",
            "2023-11-16 18:15:46.",
            "2023-11-16 18:15:46.12345678",
            "2023-11-16 18:15:46+00",
            "2023-11-16 18:15:46+0000",
            "2023-11-16 18:15:46+24:00",
            "2023-11-16 18:15:46+00:00+00:00",
            "2023-11-16 +00:00",
            "0000-01-01 00:00:00+23:59:",
            "2023-13-01 00:00:00",
            "2023-00-01 00:00:00",
            "2023-02-29 00:00:00",
            "1900-02-29 00:00:00",
            "2023-11-31 00:00:00",
            "2023-11-16 24:00:00",
            "2023-11-16 18:60:00",
            "2023-11-16 18:15:60",
            "-023-11-16 18:15:46",
            "20231-1-16 18:15:46",
        ] {
            assert_eq!(ticks(bad), None, "{bad}");
        }
    }
}
