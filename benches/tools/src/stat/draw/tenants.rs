//! The tenants of all devices: what each is, and what it sends.

use super::Theme;
use crate::stat::history::{History, Track};
use crate::stat::number::rate;
use crate::stat::snapshot::Tenant;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Draws as many as there is room for.
pub fn draw(frame: &mut Frame<'_>, area: Rect, history: &History, theme: Theme) {
    let heading = format!(
        "{:<12} {:>6} {:>9} {:>6} {:>6} {:>9} {:>10} {:>9} {:>9}",
        "device", "tenant", "class", "weight", "qps", "ops/s", "sent", "packets/s", "parked/s"
    );
    let mut lines = vec![Line::styled(heading, theme.heading())];
    for track in &history.tracks {
        let tenants = track.now().into_iter().flat_map(|now| &now.tenants);
        lines.extend(tenants.map(|(number, tenant)| Line::raw(line(track, *number, tenant))));
    }
    if lines.len() == 1 {
        lines.push(Line::styled("no tenants: each device is its queue pairs' alone", theme.faint()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn line(track: &Track, number: u32, tenant: &Tenant) -> String {
    let of = |counter: &str| track.tenant_rate(number, counter);
    format!(
        "{:<12} {number:>6} {:>9} {:>6} {:>6} {:>9} {:>10} {:>9} {:>9}",
        track.now().map_or("?", |now| now.label("ip")),
        tenant.class,
        tenant.gauge("weight"),
        tenant.gauge("queue_pairs"),
        rate(of("tx_operations"), ""),
        rate(of("tx_bytes").map(|bytes| 8.0 * bytes), "b/s"),
        rate(of("tx_packets"), ""),
        rate(of("parked"), ""),
    )
}
