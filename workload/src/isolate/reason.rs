//! What was scarce in a run.

use crate::play::Outcome;

/// A host is busy from this part of its time on.
const BUSY: f64 = 0.95;
/// Recovery contexts are short if this part of the packets out of order found none.
const SHORT: f64 = 0.01;

/// What was scarce, in words.
pub fn scarce(outcome: &Outcome) -> String {
    let counters = &outcome.counters;
    let mut words = Vec::new();
    let late = counters.rx_out_of_order + counters.drop_no_context;
    if part(counters.drop_no_context, late) > SHORT {
        words.push(format!(
            "recovery contexts: {} of {late} packets out of order found none and were dropped",
            counters.drop_no_context
        ));
    }
    let busy: Vec<String> = outcome
        .busy
        .iter()
        .enumerate()
        .filter(|(_, busy)| **busy >= BUSY)
        .map(|(host, _)| format!("host {host}"))
        .collect();
    if !busy.is_empty() {
        words.push(format!("the time of {}", busy.join(" and ")));
    }
    if counters.rto_fired > 0 {
        words.push(format!("{} timeouts", counters.rto_fired));
    }
    if words.is_empty() { "places in links and rings".to_owned() } else { words.join("; ") }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn part(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}
