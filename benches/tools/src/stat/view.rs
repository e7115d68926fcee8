//! What a person wants to see: the order of queue pairs, which of them, and what is open.

use super::history::{History, Track};
use super::snapshot::QueuePair;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;

/// By what queue pairs are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Those that are held up first, then those that have something to do.
    #[default]
    Limit,
    /// Requests completed a second, most first.
    Completed,
    /// Packets sent again a second, most first.
    Resends,
    /// Round-trip time, longest first.
    RoundTrip,
    /// Number, lowest first.
    Number,
}

impl Order {
    const ALL: [Self; 5] = [Self::Limit, Self::Completed, Self::Resends, Self::RoundTrip, Self::Number];

    /// What a person calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Completed => "done/s",
            Self::Resends => "again/s",
            Self::RoundTrip => "srtt",
            Self::Number => "qpn",
        }
    }

    fn next(self) -> Self {
        let behind = Self::ALL.iter().skip_while(|order| **order != self).nth(1);
        behind.copied().unwrap_or_default()
    }
}

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Page {
    /// The table of queue pairs.
    #[default]
    Table,
    /// The table, while a filter is typed.
    Filter,
    /// One queue pair.
    Details,
    /// The tenants.
    Tenants,
    /// What the keys do.
    Help,
}

/// A queue pair of a device.
pub type Id = (usize, u32);

/// What a person wants to see.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    pub page: Page,
    pub order: Order,
    /// The other way round.
    pub reversed: bool,
    /// Only queue pairs that have this text somewhere in their row.
    pub filter: String,
    /// The chosen queue pair; the first of the table if it is not there.
    chosen: Option<Id>,
}

/// A queue pair to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub id: Id,
    pub track: &'a Track,
    pub pair: &'a QueuePair,
    /// Requests completed a second.
    pub completed: Option<f64>,
    /// Packets sent again a second.
    pub resends: Option<f64>,
}

impl Row<'_> {
    /// The address of its device.
    pub fn device(&self) -> &str {
        self.track.now().map_or("?", |now| now.label("ip"))
    }

    /// Whether the port of its device has no room at times: then that is what its turn waits for.
    pub fn port_is_full(&self) -> bool {
        let rises = |name| self.track.counter_rate(name).is_some_and(|rate| rate > 0.0);
        rises("tx_ring_full") || rises("tx_ring_bounded")
    }

    /// What keeps it from sending more.
    pub fn limit(&self) -> String {
        let full = self.pair.limit() == "its turn" && self.port_is_full();
        let repairs = self.pair.gauge("repairing_rx") > 0.0;
        let notes = [(full, ", port full"), (repairs, ", repairs what it receives")];
        let notes = notes.iter().filter(|(holds, _)| *holds).map(|(_, note)| *note);
        std::iter::once(self.pair.limit()).chain(notes).collect()
    }

    fn matches(&self, filter: &str) -> bool {
        let labels = self.pair.labels.values().any(|value| value.contains(filter));
        labels
            || [&self.limit(), self.device(), self.track.address()].iter().any(|text| text.contains(filter))
    }
}

/// How much a limit concerns somebody who looks for what is wrong; the lowest comes first.
pub fn rank(limit: &str) -> u8 {
    match limit {
        "peer silent" => 0,
        "no receive posted" => 1,
        "recovery" => 2,
        "congestion window" | "no credit" | "reads under way" => 3,
        "its turn" | "acknowledgement" => 4,
        "nothing to send" => 6,
        _ => 5,
    }
}

impl View {
    /// Does what a key asks for; `false` if that is the end.
    pub fn press(&mut self, key: KeyEvent, history: &History) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return !matches!(key.code, KeyCode::Char('c' | 'd'));
        }
        match self.page {
            Page::Filter => self.edit_filter(key.code),
            Page::Help => self.page = Page::Table,
            Page::Details | Page::Tenants | Page::Table => return self.command(key.code, history),
        }
        true
    }

    fn edit_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.page = Page::Table,
            KeyCode::Esc => {
                self.page = Page::Table;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(char) => self.filter.push(char),
            _ => {}
        }
    }

    fn command(&mut self, key: KeyCode, history: &History) -> bool {
        match key {
            KeyCode::Char('q') => return false,
            KeyCode::Esc if self.page == Page::Table => self.filter.clear(),
            KeyCode::Esc => self.page = Page::Table,
            KeyCode::Char('?' | 'h') => self.page = Page::Help,
            KeyCode::Char('t') if self.page == Page::Tenants => self.page = Page::Table,
            KeyCode::Char('t') => self.page = Page::Tenants,
            KeyCode::Char('/') => self.page = Page::Filter,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Enter if self.page != Page::Table => self.page = Page::Table,
            KeyCode::Enter => self.page = Page::Details,
            _ => self.walk(key, history),
        }
        true
    }

    /// Chooses another queue pair.
    fn walk(&mut self, key: KeyCode, history: &History) {
        let rows = self.rows(history);
        let Some(last) = rows.len().checked_sub(1) else { return };
        let at = self.position(&rows);
        let to = match key {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => at + 1,
            KeyCode::PageUp => at.saturating_sub(10),
            KeyCode::PageDown => at + 10,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => return,
        };
        self.chosen = Some(rows[to.min(last)].id);
    }

    /// Where the chosen queue pair stands among `rows`.
    pub fn position(&self, rows: &[Row<'_>]) -> usize {
        rows.iter().position(|row| Some(row.id) == self.chosen).unwrap_or(0)
    }

    /// The queue pairs that are wanted, in the order that is wanted.
    pub fn rows<'a>(&self, history: &'a History) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = history.tracks.iter().enumerate().flat_map(rows_of).collect();
        rows.retain(|row| self.filter.is_empty() || row.matches(&self.filter));
        rows.sort_by(|a, b| self.compare(a, b));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    fn compare(&self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let most_first = |a: f64, b: f64| b.total_cmp(&a);
        let rate = |rate: Option<f64>| rate.unwrap_or(0.0);
        let srtt = |row: &Row<'_>| row.pair.gauge("srtt_seconds");
        let order = match self.order {
            Order::Limit => rank(a.pair.limit()).cmp(&rank(b.pair.limit())),
            Order::Completed => most_first(rate(a.completed), rate(b.completed)),
            Order::Resends => most_first(rate(a.resends), rate(b.resends)),
            Order::RoundTrip => most_first(srtt(a), srtt(b)),
            Order::Number => a.id.1.cmp(&b.id.1),
        };
        order.then(a.id.cmp(&b.id))
    }
}

fn rows_of((device, track): (usize, &Track)) -> impl Iterator<Item = Row<'_>> {
    let pairs = track.now().into_iter().flat_map(|now| &now.queue_pairs);
    pairs.map(move |(&qpn, pair)| Row {
        id: (device, qpn),
        track,
        pair,
        completed: track.completed_rate(qpn),
        resends: track.resend_rate(qpn),
    })
}
