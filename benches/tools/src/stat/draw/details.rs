//! One queue pair: all that is told of it, and what its limit means.

use super::Theme;
use super::devices::graph;
use crate::stat::history::{completed, resends};
use crate::stat::text::SHARE_MIN;
use crate::stat::view::Row;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

/// What each limit means, and what can be done: docs/observability.md has more of it.
const MEANINGS: [(&str, &str); 13] = [
    ("state", "it is before RTS, or in error: its completions say why"),
    ("nothing to send", "the application: everything posted is done"),
    ("no receive posted", "the peer's program posts too few receives"),
    ("peer silent", "the peer owes an acknowledgement and has not been heard for 200 ms: does it run?"),
    ("recovery", "lost packets are sent again: look at what is dropped here, at the peer and in the network"),
    ("reads under way", "the next request is fenced, or a READ or atomic more than max_rd_atomic"),
    ("no credit", "the window is full: a larger one helps if the round trip is long"),
    ("congestion window", "the congestion controller allows no more: look for CE marks and losses"),
    ("peer's host", "the peer's host falls behind: give its program more processor time, or less work"),
    ("paused", "its program has paused it"),
    ("acknowledgement", "everything is sent: a round trip"),
    ("tenant's cap", "its tenant has sent what its caps allow: TenantAttr::tx"),
    ("its turn", "it waits for the engine, or for room in the port: poll more often, or poll=thread"),
];

fn meaning(limit: &str) -> &'static str {
    MEANINGS.iter().find(|(of, _)| *of == limit).map_or("", |(_, meaning)| meaning)
}

/// Draws it; without one, it says so.
pub fn draw(frame: &mut Frame<'_>, area: Rect, row: Option<&Row<'_>>, theme: Theme) {
    let Some(row) = row else { return frame.render_widget("no queue pair", area) };
    let (qpn, pair, width) = (row.id.1, row.pair, area.width.into());
    let round_trips = row.track.values(|now| Some(now.queue_pairs.get(&qpn)?.gauge("srtt_seconds") * 1e6));
    let windows = row.track.values(|now| Some(now.queue_pairs.get(&qpn)?.gauge("cwnd_packets")));
    let mut lines = vec![
        heading(row, theme),
        Line::from(vec![
            Span::raw("limited by "),
            Span::styled(row.limit(), theme.limit(pair.limit())),
            Span::styled(format!(": {}", meaning(pair.limit())), theme.faint()),
        ]),
        graph("done", "/s", row.track.rates(completed(qpn)), width, theme),
        graph("sent again", "/s", row.track.rates(resends(qpn)), width, theme),
        graph("cwnd", "packets", windows, width, theme),
        graph("round trip", "us", round_trips, width, theme),
    ];
    let shares = row.track.limit_shares(qpn);
    if !shares.is_empty() {
        let shares = shares.iter().filter(|(_, share)| *share >= SHARE_MIN);
        let shares: Vec<String> =
            shares.map(|(limit, share)| format!("{limit} {:.0} %", share * 100.0)).collect();
        lines.push(Line::from(vec![
            Span::styled("held back by: ", theme.faint()),
            Span::raw(shares.join(", ")),
        ]));
    }
    lines.push(numbers("now", pair.gauges.iter().map(|(name, value)| (name.as_str(), *value)), theme));
    let counted = pair.counters.iter().map(|(name, value)| (name.as_str(), *value));
    lines.push(numbers("counted", counted.filter(|(_, value)| *value > 0.0), theme));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

fn heading(row: &Row<'_>, theme: Theme) -> Line<'static> {
    let label = |key| row.pair.label(key).to_owned();
    Line::styled(
        format!(
            "queue pair {}  {} {}  to {} of {}",
            row.id.1,
            label("type"),
            label("state"),
            label("dest_qpn"),
            label("peer")
        ),
        theme.heading(),
    )
}

fn numbers<'a>(what: &str, numbers: impl Iterator<Item = (&'a str, f64)>, theme: Theme) -> Line<'static> {
    let numbers: Vec<String> = numbers.map(|(name, value)| format!("{name} {value}")).collect();
    let numbers = if numbers.is_empty() { "nothing".to_owned() } else { numbers.join(", ") };
    Line::from(vec![Span::styled(format!("{what}: "), theme.faint()), Span::raw(numbers)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbs_api::QpLimit;

    #[test]
    fn every_limit_of_the_engine_has_a_meaning() {
        for limit in QpLimit::ALL {
            assert!(!meaning(&limit.to_string()).is_empty(), "{limit}");
        }
        assert_eq!(meaning("the moon"), "");
    }
}
