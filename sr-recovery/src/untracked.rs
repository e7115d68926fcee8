//! A sender that recovers while all scoreboards are taken (docs/adr/0034).
//!
//! All that is kept of it is one PSN: what lies before it is SACKed, or was declared lost, and is
//! not declared again. A SACK shows what is missing between that PSN and the run of packets that it
//! ends. That finds every packet that was lost once. What is lost again is found by the timers, or
//! by a NACK without SACK, and a packet may be sent again that has arrived.

use wire::Psn;

use crate::{
    message::Record,
    requester::{Losses, earlier, later},
};

/// Packets that a bitmap speaks of.
const BITS: u32 = u64::BITS;

/// Declares what a record shows to be lost from `declared` on. Returns up to where all losses are
/// declared by now, or `None` if there is nothing to remember.
pub(crate) fn apply(record: &Record, declared: Psn, losses: &mut Losses<'_>) -> Option<Psn> {
    match *record {
        Record::Ack { una, snd_nxt, sack, bitmap_base, bitmap, threshold, .. } => {
            let start = later(una, declared);
            let sack = sack.filter(|sack| !sack.is_before(start) && sack.is_before(snd_nxt));
            let declared = sack.map_or(start, |sack| {
                let run = sack.sub(run_before(sack, bitmap_base, bitmap));
                let lost_before = earlier(run, sack.sub(threshold.into()));
                declare(start, lost_before, losses);
                if lost_before == run { sack.next() } else { later(start, lost_before) }
            });
            una.is_before(declared).then_some(declared)
        }
        Record::ResendAll { una, snd_nxt, first, last, .. } => {
            let (start, end) = (later(una, first), earlier(snd_nxt, last.next()));
            if start.is_before(snd_nxt) {
                declare(start, end, losses);
            }
            let declared = later(declared, end);
            una.is_before(declared).then_some(declared)
        }
        Record::Resent { .. } => Some(declared),
        // The timer resends `una`, which an acknowledgement did not: all is looked at once more.
        Record::Rto { .. } | Record::RxRun { .. } | Record::RxClose { .. } | Record::TxClose { .. } => None,
    }
}

/// Packets right before `sack` that have arrived with it, as far as the bitmap says.
fn run_before(sack: Psn, bitmap_base: Psn, bitmap: u64) -> u32 {
    match u32::try_from(sack.distance_from(bitmap_base)) {
        Ok(bits @ 1..=BITS) => (bitmap << (BITS - bits)).leading_ones(),
        _ => 0,
    }
}

fn declare(start: Psn, end: Psn, losses: &mut Losses<'_>) {
    losses.work += 1;
    let mut psn = start;
    while psn.is_before(end) {
        losses.work += 1;
        losses.push(psn);
        psn = psn.next();
    }
}

#[cfg(test)]
mod tests;
