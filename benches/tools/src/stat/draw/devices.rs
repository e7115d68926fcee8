//! The devices: their links, and their rates with bars.

use super::Theme;
use crate::stat::history::{History, Track, counter, drops};
use crate::stat::number::{bars, rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Lines of one device with bars for each rate.
const TALL: u16 = 5;
/// Lines that remain to the queue pairs if devices are tall.
const TABLE_MIN: u16 = 8;
/// Columns before the bars.
const LABEL: usize = 11;
const RATE: usize = 11;

/// Lines that the devices take of `height`: five each if there is room, and otherwise one each, of
/// which at most a half is seen.
pub fn height(history: &History, height: u16) -> u16 {
    let count = u16::try_from(history.tracks.len()).unwrap_or(u16::MAX);
    let tall = count.saturating_mul(TALL);
    if tall + TABLE_MIN < height { tall } else { count.min(height / 2) }
}

/// Draws as many as there is room for, one below the other.
pub fn draw(frame: &mut Frame<'_>, area: Rect, history: &History, theme: Theme) {
    let count = history.tracks.len();
    let tall = usize::from(area.height) == count * usize::from(TALL);
    let each = if tall { TALL } else { 1 };
    let rows = history.tracks.iter().map(|_| Constraint::Length(each)).take(area.height.into());
    let areas = Layout::vertical(rows).split(area);
    for (track, area) in history.tracks.iter().zip(areas.iter()) {
        let lines =
            if tall { tall_lines(track, area.width.into(), theme) } else { vec![short(track, theme)] };
        frame.render_widget(Paragraph::new(lines), *area);
    }
}

fn tall_lines<'a>(track: &'a Track, width: usize, theme: Theme) -> Vec<Line<'a>> {
    let bits = |rates: Vec<Option<f64>>| rates.into_iter().map(|rate| rate.map(|rate| rate * 8.0)).collect();
    vec![
        heading(track, theme),
        graph("sent", "b/s", bits(track.rates(counter("port_tx_bytes"))), width, theme),
        graph("received", "b/s", bits(track.rates(counter("port_rx_bytes"))), width, theme),
        graph("sent again", "/s", track.rates(counter("tx_retransmits")), width, theme),
        graph("dropped", "/s", track.rates(drops), width, theme),
    ]
}

/// A rate: what it is, its last value, and bars of all.
pub fn graph(label: &str, unit: &str, rates: Vec<Option<f64>>, width: usize, theme: Theme) -> Line<'static> {
    let last = rate(rates.last().copied().flatten(), unit);
    let bars = bars(&rates, width.saturating_sub(LABEL + RATE + 2));
    Line::from(vec![Span::raw(format!("{label:<LABEL$}{last:>RATE$}  ")), Span::styled(bars, theme.bars())])
}

fn short(track: &Track, theme: Theme) -> Line<'_> {
    let mut line = Line::from(state(track, theme));
    let bits = |name| track.counter_rate(name).map(|rate| rate * 8.0);
    let rates = [
        ("sent", rate(bits("port_tx_bytes"), "b/s")),
        ("received", rate(bits("port_rx_bytes"), "b/s")),
        ("again", rate(track.counter_rate("tx_retransmits"), "/s")),
        ("dropped", rate(track.drop_rate(), "/s")),
    ];
    if track.trouble().is_none() {
        line.extend(rates.map(|(label, rate)| Span::raw(format!("  {label} {rate}"))));
    }
    line
}

fn heading(track: &Track, theme: Theme) -> Line<'_> {
    let mut line = Line::from(state(track, theme));
    if let (Some(now), None) = (track.now(), track.trouble()) {
        line.push_span(Span::raw(format!("  {} queue pairs  {}", now.queue_pairs.len(), track.address())));
    }
    line
}

/// Which device it is, and whether it is there and has a link.
fn state(track: &Track, theme: Theme) -> Vec<Span<'_>> {
    let Some(now) = track.now() else { return vec![Span::raw(track.address())] };
    let name = Span::styled(now.label("ip"), theme.heading());
    if let Some(reason) = track.trouble() {
        let gone = format!("  gone: {reason}; waiting for it at {}", track.address());
        return vec![name, Span::styled(gone, theme.bad())];
    }
    let style = if now.link_up { theme.good() } else { theme.bad() };
    vec![name, Span::raw("  link "), Span::styled(now.link(), style)]
}
