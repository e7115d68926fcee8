//! What acknowledgements teach: round-trip times, and the congestion window of the stream that they
//! acknowledge.

use super::send_stream::SendStream;
use crate::qp::Units;
use crate::stream::{AckEffect, AckInfo, AckRefused, TxStream};
use cc_dctcp::{AckEvent, Controller, RoundTrip};
use wire::{AckFlags, Ackx};

/// What a sender remembers of the acknowledgements before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback {
    /// CE_CNT of the peer, largest seen.
    ce_seen: u16,
    /// SACKed packets that the controller was told of and that `una` has not passed.
    credited: u16,
}

impl SendStream<'_> {
    /// Applies an acknowledgement; returns how many packets are newly acknowledged. One that is
    /// refused is counted, and has told the watchdog what it says, no more. `app_limited`: the
    /// stream has nothing more to send.
    #[inline(always)]
    pub fn acknowledge(
        self,
        units: &mut Units,
        info: &AckInfo,
        ackx: &Ackx,
        app_limited: bool,
    ) -> Result<u32, AckRefused> {
        if info.is_special() {
            info.teach(self.watchdog);
        }
        let effect = match self.tx.on_ack(self.recovery, units.now, info) {
            Ok(effect) => effect,
            Err(refused) => {
                match refused {
                    AckRefused::Stale => units.counters.drop_stale_ack += 1,
                    AckRefused::Beyond => units.counters.drop_bad_ack += 1,
                }
                return Err(refused);
            }
        };
        units.counters.rx_acks += 1;
        units.counters.rx_acks_host += u64::from(ackx.flags.contains(AckFlags::HOST));
        if let Some(record) = effect.record
            && units.ctrl_q.has_room(1)
        {
            units.tell_slow_path(record);
        }
        self.learn(units, &effect, info.sack.is_some(), ackx, app_limited);
        Ok(effect.acked)
    }

    /// Round-trip time, congestion marks, and the controller's window.
    #[inline(always)]
    pub fn learn(self, units: &Units, effect: &AckEffect, sacked: bool, ackx: &Ackx, app_limited: bool) {
        let Self { tx, recovery, watchdog, controller, feedback, pmtu, .. } = self;
        let now = units.now;
        let rtt_ns = effect.rtt_sent.map(|sent| now.since(sent));
        if let Some(rtt_ns) = rtt_ns {
            watchdog.rtt.sample(rtt_ns);
        }
        if matches!(controller, Controller::Fixed(_)) {
            return;
        }
        let host_delay_ns = ackx.ack_delay_ns();
        let trip = rtt_ns.map(|rtt_ns| RoundTrip::new(rtt_ns, host_delay_ns, units.waited_ns()));
        if let Some(trip) = trip.filter(|_| effect.rtt_exact) {
            recovery.note_round_trip(controller, now, trip);
        }
        let packets = feedback.newly_arrived(effect.acked, sacked);
        let ce_delta = feedback.ce_delta(ackx.ce_cnt);
        if ce_delta != 0 {
            recovery.path.note_marks(ackx.flags.contains(AckFlags::HOST));
        }
        controller.on_ack(&AckEvent {
            now_ns: now.0,
            acked_bytes: packets.saturating_mul(pmtu.into()),
            acked_packets: packets,
            ce_delta,
            trip,
            host_delay_ns,
            app_limited,
        });
        if effect.loss {
            recovery.tell_loss(controller, now);
        }
        adopt_window(tx, controller, pmtu);
    }
}

impl Feedback {
    /// Packets that are news to the controller: each counts once, when it is SACKed or when `una`
    /// passes it.
    #[inline(always)]
    fn newly_arrived(&mut self, acked: u32, sacked: bool) -> u32 {
        let known = u32::from(self.credited).min(acked);
        let left = self.credited.saturating_sub(u16::try_from(known).unwrap_or(u16::MAX));
        self.credited = left.saturating_add(u16::from(sacked));
        acked - known + u32::from(sacked)
    }

    /// Marks since the largest count seen; an older count brings none.
    #[inline(always)]
    fn ce_delta(&mut self, now: u16) -> u32 {
        let delta = now.wrapping_sub(self.ce_seen);
        if delta >= 1 << 15 {
            return 0;
        }
        self.ce_seen = now;
        u32::from(delta)
    }
}

/// The controller's window, in whole packets, becomes the stream's.
#[inline]
pub(crate) fn adopt_window(tx: &mut TxStream, controller: &Controller, pmtu: u16) {
    tx.set_cwnd(controller.cwnd_bytes() / u32::from(pmtu));
}
