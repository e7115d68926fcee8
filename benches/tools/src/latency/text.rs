//! Sampled operations as a table with stacked bars.

use super::report::{Operations, Report};
use std::fmt::Write as _;
use verbs_api::Part;

/// Columns of a bar.
const WIDTH: f64 = 60.0;
/// What a bar has for each part, in the order of [`Part::ALL`].
const SIGNS: [char; Part::ALL.len()] = ['o', 's', 'x', 'w', 'c', 'r', 'n', '!', '=', 'p', '.'];
/// Parts below this share of the whole are not written out.
const SHARE_MIN: f64 = 0.01;

/// All that was sampled, and where its time went. At most `most` rows: those with the most
/// operations.
pub fn table(report: &Report, most: usize) -> String {
    let mut text = String::new();
    let mut rows: Vec<_> = report.operations.iter().filter(|(_, of)| of.count > 0.0).collect();
    rows.sort_by(|(_, a), (_, b)| b.count.total_cmp(&a.count));
    if rows.is_empty() {
        text.push_str("no operation was sampled\n");
    }
    for ([qpn, opcode, status], of) in rows.iter().take(most) {
        let _ = writeln!(text, "queue pair {qpn}  {opcode}  {status}  {} sampled", of.count);
        let _ = writeln!(text, "  mean {}{}", time(of.total() / of.count), quantiles(of));
        let _ = writeln!(text, "  |{}|", bar(of));
        let _ = writeln!(text, "  {}", shares(of));
    }
    if rows.len() > most {
        let _ = writeln!(text, ".. and {} more", rows.len() - most);
    }
    let _ = writeln!(text, "{}", legend());
    if report.unsampled > 0.0 {
        let _ = writeln!(text, "{} were to be sampled and were not: too many at once", report.unsampled);
    }
    if report.slow_count > 0.0 {
        let _ = writeln!(text, "{} were slow: see --explain", report.slow_count);
    }
    text
}

fn quantiles(of: &Operations) -> String {
    let name = |quantile: &str| match quantile {
        "0.5" => "p50".to_owned(),
        "0.9" => "p90".to_owned(),
        "0.99" => "p99".to_owned(),
        "0.999" => "p99.9".to_owned(),
        "1" => "most".to_owned(),
        other => other.to_owned(),
    };
    of.quantiles.iter().fold(String::new(), |mut text, (quantile, seconds)| {
        let _ = write!(text, "  {} {}", name(quantile), time(*seconds));
        text
    })
}

/// A time as people write it.
pub fn time(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    let unit = units.into_iter().find(|(scale, _)| seconds >= 0.9995 * scale);
    match unit {
        Some((scale, unit)) => format!("{:.2} {unit}", seconds / scale),
        None => format!("{:.0} ns", seconds * 1e9),
    }
}

fn part(of: &Operations, part: Part) -> f64 {
    of.parts.get(part.name()).copied().unwrap_or(0.0)
}

/// Each part as many columns as its share, in the order of an operation's life.
fn bar(of: &Operations) -> String {
    let (mut bar, mut columns, mut until, total) = (String::new(), 0.0, 0.0, of.total());
    if total <= 0.0 {
        return bar;
    }
    for (of_part, sign) in Part::ALL.into_iter().zip(SIGNS) {
        until += part(of, of_part) / total * WIDTH;
        while columns < f64::round(until) {
            bar.push(sign);
            columns += 1.0;
        }
    }
    bar
}

fn shares(of: &Operations) -> String {
    let total = of.total();
    let shown =
        Part::ALL.into_iter().zip(SIGNS).filter(|(of_part, _)| part(of, *of_part) >= SHARE_MIN * total);
    let shown = shown.map(|(of_part, sign)| {
        let share = part(of, of_part) / total * 100.0;
        format!("{sign} {of_part} {share:.0} % ({})", time(part(of, of_part) / of.count))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn legend() -> String {
    let signs = Part::ALL.into_iter().zip(SIGNS).map(|(part, sign)| format!("{sign} {part}"));
    signs.collect::<Vec<_>>().join("  ")
}
