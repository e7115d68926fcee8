//! What acknowledgements teach: round-trip times, and the congestion window of the stream that they acknowledge.

use crate::stream::{AckEffect, RttEstimator, TxStream};
use crate::time::Time;
use cc_dctcp::{AckEvent, Controller};
use wire::Ackx;

/// ACK_DELAY counts in units of this many nanoseconds.
const ACK_DELAY_UNIT_NS: u32 = 64;

/// What a sender remembers of the acknowledgements before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback {
    /// CE_CNT of the peer, largest seen.
    ce_seen: u16,
    /// SACKed packets that the controller was told of and that `una` has not passed.
    credited: u16,
}

/// An acknowledgement that was applied.
pub(super) struct Lesson<'a> {
    pub now: Time,
    pub ackx: &'a Ackx,
    pub effect: &'a AckEffect,
    /// It SACKed a packet.
    pub sacked: bool,
    /// Path MTU in bytes.
    pub pmtu: u16,
    /// The sender has nothing more to send.
    pub app_limited: bool,
}

impl Feedback {
    /// Round-trip time, congestion marks, and the controller's window.
    #[inline(always)]
    pub(super) fn learn(
        &mut self,
        controller: &mut Controller,
        rtt: &mut RttEstimator,
        tx: &mut TxStream,
        lesson: &Lesson<'_>,
    ) {
        let Lesson { now, ackx, effect, sacked, pmtu, app_limited } = *lesson;
        let host_delay_ns = u32::from(ackx.ack_delay) * ACK_DELAY_UNIT_NS;
        let rtt_ns = effect.rtt_sent.map(|sent| now.since(sent).saturating_sub(host_delay_ns.into()));
        if let Some(rtt_ns) = rtt_ns {
            rtt.sample(rtt_ns);
        }
        if matches!(controller, Controller::Fixed(_)) {
            return;
        }
        let packets = self.newly_arrived(effect.acked, sacked);
        controller.on_ack(&AckEvent {
            now_ns: now.0,
            acked_bytes: packets.saturating_mul(pmtu.into()),
            acked_packets: packets,
            ce_delta: self.ce_delta(ackx.ce_cnt),
            rtt_ns: rtt_ns.map(|rtt| u32::try_from(rtt).unwrap_or(u32::MAX)),
            host_delay_ns,
            app_limited,
        });
        if effect.loss {
            controller.on_loss_episode(now.0);
        }
        adopt_window(tx, controller, pmtu);
    }

    /// Packets that are news to the controller: each counts once, when it is SACKed or when `una` passes it.
    fn newly_arrived(&mut self, acked: u32, sacked: bool) -> u32 {
        let known = u32::from(self.credited).min(acked);
        let left = self.credited.saturating_sub(u16::try_from(known).unwrap_or(u16::MAX));
        self.credited = left.saturating_add(u16::from(sacked));
        acked - known + u32::from(sacked)
    }

    /// Marks since the largest count seen; an older count brings none.
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
    tx.set_cwnd(controller.cwnd_bytes() >> pmtu.trailing_zeros());
}
