//! What the keys do.

use super::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

const KEYS: [(&str, &str); 9] = [
    ("up, down, j, k", "choose a queue pair; page up, page down, home, end"),
    ("enter", "details of the chosen one, and what its limit means"),
    ("/", "only rows with a text: an address, a state, a limit"),
    ("s", "sort by limit, done/s, again/s, srtt, qpn in turn"),
    ("r", "the other way round"),
    ("t", "tenants: shares, and what each sends"),
    ("esc", "back; in the table, no filter"),
    ("?", "this page"),
    ("q, ctrl-c", "quit"),
];

/// Draws them, and what the bars are.
pub fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let key = |(key, what)| {
        Line::from(vec![Span::styled(format!("{key:>15}  "), theme.heading()), Span::raw(what)])
    };
    let mut lines: Vec<Line<'_>> = KEYS.into_iter().map(key).collect();
    lines.push(Line::styled(
        "Bars are the last looks, the newest at the right; each row by its highest.",
        theme.faint(),
    ));
    frame.render_widget(Paragraph::new(lines), area);
}
