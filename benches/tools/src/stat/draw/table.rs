//! The table of queue pairs.

use super::Theme;
use crate::stat::number::rate;
use crate::stat::view::{Row, View};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// A column: its heading, its width, whether it is put to the left, and what it has of a row.
struct Column {
    heading: &'static str,
    width: usize,
    left: bool,
    cell: fn(&Row<'_>) -> String,
}

const fn column(heading: &'static str, width: usize, cell: fn(&Row<'_>) -> String) -> Column {
    Column { heading, width, left: false, cell }
}

/// From the one that is needed most to the one that goes first where there is no room. The first is
/// there if there are several devices. The limit stands last in each line and takes what is left.
const COLUMNS: [Column; 9] = [
    Column { heading: "device", width: 12, left: true, cell: |row| row.device().to_owned() },
    column("qpn", 8, |row| row.id.1.to_string()),
    Column { heading: "peer", width: 15, left: true, cell: |row| row.pair.label("peer").to_owned() },
    column("done/s", 8, |row| rate(row.completed, "")),
    column("again/s", 7, |row| rate(row.resends, "")),
    column("in flight", 9, |row| {
        format!("{}/{}", row.pair.gauge("outstanding_packets"), row.pair.gauge("window_packets"))
    }),
    column("srtt us", 8, |row| format!("{:.1}", row.pair.gauge("srtt_seconds") * 1e6)),
    column("cwnd", 5, |row| row.pair.gauge("cwnd_packets").to_string()),
    column("state", 5, |row| row.pair.label("state").to_owned()),
];
/// The least that the limit takes: the longest is `congestion window`.
const LIMIT: usize = 17;

/// Draws the rows around the chosen one.
pub fn draw(frame: &mut Frame<'_>, area: Rect, rows: &[Row<'_>], view: &View, theme: Theme) {
    let several = rows.iter().any(|row| row.id.0 != rows[0].id.0);
    let columns = columns(area.width.into(), several);
    let height = usize::from(area.height).saturating_sub(2);
    let chosen = view.position(rows);
    let first = first(chosen, rows.len(), height);
    let mut lines = vec![Line::styled(summary(rows), theme.faint()), heading(columns, theme)];
    for (at, row) in rows.iter().enumerate().skip(first).take(height) {
        let style = if at == chosen { theme.chosen() } else { Style::new() };
        lines.push(line(row, columns, theme).style(style));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The first row that is shown, so that the chosen one is in the middle where that is possible.
fn first(chosen: usize, count: usize, height: usize) -> usize {
    chosen.saturating_sub(height / 2).min(count.saturating_sub(height))
}

/// As many as fit beside the limit; at least one.
fn columns(width: usize, several: bool) -> &'static [Column] {
    let all = if several { &COLUMNS[..] } else { &COLUMNS[1..] };
    let fits =
        |count: &usize| all[..*count].iter().map(|column| column.width + 1).sum::<usize>() + LIMIT < width;
    &all[..(2..=all.len()).rev().find(fits).unwrap_or(1)]
}

fn cell(column: &Column, text: &str) -> String {
    let width = column.width;
    if column.left { format!("{text:<width$} ") } else { format!("{text:>width$} ") }
}

fn heading(columns: &[Column], theme: Theme) -> Line<'static> {
    let cells: String = columns.iter().map(|column| cell(column, column.heading)).collect();
    Line::styled(format!("{cells} limited by"), theme.heading())
}

fn line<'a>(row: &Row<'_>, columns: &[Column], theme: Theme) -> Line<'a> {
    let cells: String = columns.iter().map(|column| cell(column, &(column.cell)(row))).collect();
    let limit = Span::styled(row.limit(), theme.limit(row.pair.limit()));
    Line::from(vec![Span::raw(cells), Span::raw(" "), limit])
}

/// How many queue pairs each limit has, in the order of the first of each.
fn summary(rows: &[Row<'_>]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        match counts.iter_mut().find(|(limit, _)| *limit == row.pair.limit()) {
            Some((_, count)) => *count += 1,
            None => counts.push((row.pair.limit(), 1)),
        }
    }
    let counts: Vec<String> = counts.iter().map(|(limit, count)| format!("{count} {limit}")).collect();
    if counts.is_empty() { "no queue pairs".to_owned() } else { counts.join(", ") }
}
