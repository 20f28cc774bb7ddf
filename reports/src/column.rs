//! A column of figures, as a terminal and a page show it: one unit, and as many decimals as its
//! values need.
//!
//! Invariant: the same values give the same texts wherever they are shown.

use crate::units::decimals;
use crate::wide::columns;
use crate::words::{decimals_for, elide, finite};
use tiersim_models::units::shown::{Unit, of_times};

/// A figure of each case that has it.
pub(crate) type Values = Vec<Option<f64>>;

/// A column: two header lines and a cell per row.
pub(crate) struct Column {
    pub(crate) header: [String; 2],
    pub(crate) cells: Vec<String>,
}

impl Column {
    /// Values with so many decimals; a dash where there is none.
    pub(crate) fn of(header: [&str; 2], values: &[Option<f64>], digits: usize) -> Column {
        let cell = |value: &Option<f64>| match value.and_then(finite) {
            Some(value) => format!("{value:.digits$}"),
            None => "-".to_owned(),
        };
        Column { header: header.map(str::to_owned), cells: values.iter().map(cell).collect() }
    }

    /// Values with up to three decimals, as many as the largest needs.
    pub(crate) fn plain(header: [&str; 2], values: &[Option<f64>]) -> Column {
        Column::of(header, values, decimals_for(largest(values)).min(3))
    }

    /// Means and percentiles of steps in picoseconds; what repeats the column before is left out.
    pub(crate) fn steps(mean: &[Option<f64>], percentiles: [(usize, Values); 3]) -> Vec<Column> {
        let (unit, size) = of_times(largest(mean));
        let digits = decimals(&scaled(mean, size));
        let header = ["step", &format!("mean {unit}")];
        let mut columns = vec![Column::of(header, &scaled(mean, size), digits)];
        for (percent, values) in percentiles {
            let header = ["", &format!("p{percent} {unit}")];
            let column = Column::of(header, &scaled(&values, size), digits);
            if columns.last().is_none_or(|before| before.cells != column.cells) {
                columns.push(column);
            }
        }
        columns
    }

    /// Columns of one unit, one for each name; those that are zero for every case are left out.
    pub(crate) fn group(
        (title, names, unit): (&str, &[String], fn(f64) -> Unit),
        columns: Vec<Values>,
    ) -> Vec<Column> {
        let most = columns.iter().map(|column| largest(column)).fold(0.0, f64::max);
        let (unit, size) = unit(most);
        let digits = decimals_for(most / size).min(3);
        let used = names.iter().zip(columns).filter(|(_, values)| largest(values) > 0.0);
        let of = |(name, values): (&String, Values)| {
            Column::of(
                [&format!("{title} {unit}"), &elide(name, 24)],
                &scaled(&values, size),
                digits,
            )
        };
        used.map(of).collect()
    }

    /// Times in picoseconds, in the unit that fits the largest.
    pub(crate) fn time(title: &str, name: &str, values: &[Option<f64>]) -> Column {
        let (unit, size) = of_times(largest(values));
        let scaled = scaled(values, size);
        Column::of([title, &format!("{name} {unit}")], &scaled, decimals(&scaled))
    }

    /// A change in per cent, with its sign.
    pub(crate) fn signed(header: [&str; 2], values: &[Option<f64>]) -> Column {
        let cell = |value: &Option<f64>| match value.and_then(finite) {
            // Not "-0.00".
            Some(value) if value.abs() < 0.005 => "0.00".to_owned(),
            Some(value) => format!("{value:+.2}"),
            None => "-".to_owned(),
        };
        Column { header: header.map(str::to_owned), cells: values.iter().map(cell).collect() }
    }

    pub(crate) fn width(&self) -> usize {
        let texts = self.header.iter().chain(&self.cells);
        texts.map(|text| columns(text)).max().unwrap_or(0)
    }
}

/// The largest of them; 0 where there is none.
pub(crate) fn largest(values: &[Option<f64>]) -> f64 {
    values.iter().flatten().copied().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

fn scaled(values: &[Option<f64>], size: f64) -> Values {
    values.iter().map(|value| value.map(|value| value / size)).collect()
}
