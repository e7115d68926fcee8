//! Numbers as people read them, and as a line of bars.

/// Bars of an eighth to eight eighths.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Three digits or four, with a prefix of SI: `12.1 Gb/s`. `-` if it is not known.
pub fn rate(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let prefix = PREFIXES.iter().find(|(scale, _)| value >= 0.9995 * scale);
    let (value, prefix) = prefix.map_or((value, ""), |(scale, prefix)| (value / scale, *prefix));
    let is_count = prefix.is_empty() && value.fract() == 0.0;
    let decimals = match value {
        _ if is_count => 0,
        0.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let unit = format!("{prefix}{unit}");
    format!("{value:.decimals$} {unit}").trim_end().to_owned()
}

/// The last values as bars of their height, the newest at the right; a blank where a value is not
/// known.
pub fn bars(values: &[Option<f64>], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().flatten().fold(0.0, |most: f64, value| most.max(*value));
    let line: String = shown.iter().map(|value| value.map_or(' ', |value| bar(value, most))).collect();
    format!("{}{line}", " ".repeat(width - shown.len()))
}

fn bar(value: f64, most: f64) -> char {
    let heights = (1..).zip(BARS).find(|(eighths, _)| value * 8.0 <= f64::from(*eighths) * most);
    heights.map_or('█', |(_, bar)| bar)
}
