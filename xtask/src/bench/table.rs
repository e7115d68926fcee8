//! Figures for a person to read.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::samples::median;

/// Samples of one thing.
pub struct Row<'a> {
    pub label: &'a str,
    pub unit: &'a str,
    /// One of each round.
    pub values: &'a [f64],
}

/// Median, least and largest of each row, below their titles: the longest label makes the width.
pub fn of_samples<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let rows: Vec<_> = rows.collect();
    let width = rows.iter().map(|row| row.label.len()).fold(32, usize::max);
    let mut table = format!("{:width$} {:>10} {:>10} {:>10}", "", "median", "min", "max");
    for Row { label, unit, values } in rows {
        let Some(middle) = median(values) else {
            let _ = write!(table, "\n{label:width$} {:>10} {:>10} {:>10}", "-", "-", "-");
            continue;
        };
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(0.0, f64::max);
        let _ = write!(table, "\n{label:width$} {middle:>10.2} {least:>10.2} {largest:>10.2}  {unit}");
    }
    table
}

/// Named figures, one a line.
pub fn of_keys(keys: &Map<String, Value>) -> String {
    let mut table = String::new();
    for (key, value) in keys {
        match value.as_f64() {
            Some(value) => _ = writeln!(table, "{key:24} {value:>12.3}"),
            None => _ = writeln!(table, "{key:24} {:>12}", "-"),
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_long_label_moves_every_column() {
        let label = "a label that is longer than thirty-two bytes";
        let rows = [label, "short"].map(|label| Row { label, unit: "us", values: &[1.0] });
        let table = of_samples(rows.into_iter());
        let ends: Vec<_> = table.lines().map(|line| line.trim_end_matches(" us").trim_end().len()).collect();
        assert_eq!(ends, [label.len() + 33; 3], "{table}");
    }

    #[test]
    fn figures_stand_below_their_titles() {
        let row = Row { label: "raw frames", unit: "Gb/s", values: &[120.0, 100.0, 110.5] };
        let none = Row { label: "a program that is not here", unit: "Gb/s", values: &[] };
        assert_eq!(
            of_samples([row, none].into_iter()),
            "                                     median        min        max\n\
             raw frames                           110.50     100.00     120.00  Gb/s\n\
             a program that is not here                -          -          -"
        );
        let Value::Object(keys) = json!({ "bw_vs_raw": 0.5, "none": null }) else { panic!("an object") };
        assert_eq!(
            of_keys(&keys),
            "bw_vs_raw                       0.500\nnone                                -\n"
        );
    }
}
