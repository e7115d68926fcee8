//! The picture: a pure function of what was seen, and of what a person wants to see of it.

mod details;
mod devices;
mod help;
mod table;
mod tenants;
mod theme;

pub use theme::Theme;

use super::history::History;
use super::view::{Page, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Below this there is room for nothing that could be read.
const SMALLEST: (u16, u16) = (24, 6);

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, history: &History, view: &View, theme: Theme) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return frame.render_widget("too small", area);
    }
    let devices = devices::height(history, area.height);
    let rows = [Constraint::Length(devices), Constraint::Fill(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(area);
    devices::draw(frame, top, history, theme);
    let pairs = view.rows(history);
    match view.page {
        Page::Table | Page::Filter => table::draw(frame, middle, &pairs, view, theme),
        Page::Details => details::draw(frame, middle, pairs.get(view.position(&pairs)), theme),
        Page::Tenants => tenants::draw(frame, middle, history, theme),
        Page::Help => help::draw(frame, middle, theme),
    }
    draw_footer(frame, bottom, view, theme);
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let order = if view.reversed { " reversed" } else { "" };
    let text = match view.page {
        Page::Filter => format!("/{}_   enter: keep  esc: clear", view.filter),
        Page::Details | Page::Tenants => "esc: back  ?: help  q: quit".to_owned(),
        Page::Help => "any key: back".to_owned(),
        Page::Table if view.filter.is_empty() => {
            format!("q: quit  ?: help  enter: details  /: filter  s: sorted by {}{order}", view.order.name())
        }
        Page::Table => {
            format!(
                "filter: {}  esc: clear  q: quit  ?: help  s: sorted by {}{order}",
                view.filter,
                view.order.name()
            )
        }
    };
    frame.render_widget(Paragraph::new(Line::styled(text, theme.faint())), area);
}
