//! TxStream and the real slow path: every subset of packets lost, resends lost too.

use super::{STREAM, psn, slow_path};
use crate::stream::RecoveryPolicy;
use crate::stream::{AckInfo, TxRecovery, TxStream};
use crate::time::Time;
use sr_recovery::{Record, SlowPath};
use std::collections::BTreeSet;

/// One flight of packets to a naive receiver that answers each at once. Offsets count from the
/// first packet of all.
struct Link {
    stream: TxStream,
    cold: TxRecovery,
    slow_path: SlowPath,
    arrived: BTreeSet<u32>,
    base: u32,
    /// Packets sent again through the RetryQ, and as probes.
    resent: u32,
    probes: u32,
}

impl Link {
    fn new(policy: RecoveryPolicy) -> Self {
        Self {
            stream: TxStream::new(psn(0), 64),
            cold: TxRecovery::new(STREAM, 3, 64, policy, psn(0)),
            slow_path: slow_path(),
            arrived: BTreeSet::new(),
            base: 0,
            resent: 0,
            probes: 0,
        }
    }

    fn tell(&mut self, record: Option<Record>) {
        if let Some(record) = record {
            self.slow_path.handle(&record);
        }
        while let Some(command) = self.slow_path.poll() {
            self.stream.on_command(&mut self.cold, &command);
        }
    }

    /// A packet arrives, and its acknowledgement comes back.
    fn arrives(&mut self, at: u32) {
        let duplicate = !self.arrived.insert(at);
        let epsn = (self.base..).find(|at| !self.arrived.contains(at)).unwrap();
        let sack = (at > epsn).then(|| psn(at));
        let info = AckInfo {
            next: psn(epsn),
            sack,
            bitmap: 0,
            bitmap_base: psn(epsn).next(),
            resend_all: false,
            duplicate,
            echo: None,
        };
        let effect = self.stream.on_ack(&mut self.cold, Time::ZERO, &info).unwrap();
        self.tell(effect.record);
        assert_eq!(self.stream.una(), psn(epsn));
        let above = u32::try_from(self.arrived.range(epsn..).count()).unwrap();
        let known = self.stream.outstanding() - above;
        assert!(self.stream.pipe() <= known, "pipe {} of {known}", self.stream.pipe());
    }

    /// What waits in the RetryQ goes out; `lost` says of the n-th packet whether it is lost.
    fn resend(&mut self, lost: &mut impl FnMut() -> bool) -> bool {
        let mut flight = Vec::new();
        while let Some(at) = self.stream.next_retry(&self.cold).filter(|_| self.stream.may_resend()) {
            let offset = at.steps_from(psn(0));
            assert!(!self.arrived.contains(&offset), "{offset} is SACKed, and sent again");
            let resend = self.stream.take_retry(&mut self.cold, at);
            self.tell(resend);
            self.resent += 1;
            flight.push(offset);
        }
        let any = !flight.is_empty();
        flight.retain(|_| !lost());
        flight.into_iter().for_each(|at| self.arrives(at));
        any
    }

    /// The retransmission timer fires: probes go out.
    fn time_out(&mut self, lost: &mut impl FnMut() -> bool) {
        let (probes, record) = self.stream.on_rto(&mut self.cold);
        self.tell(record);
        let mut flight = Vec::new();
        for at in probes.into_iter().flatten() {
            let probe = self.stream.probe(&mut self.cold, at);
            self.tell(probe);
            self.probes += 1;
            flight.push(at.steps_from(psn(0)));
        }
        flight.retain(|_| !lost());
        flight.into_iter().for_each(|at| self.arrives(at));
    }

    /// Sends `count` packets of which those in `lost` are lost, then whatever the stream wants
    /// until all has arrived; of those packets the n-th is lost if bit n of `lost_again` is set.
    fn play(&mut self, count: u32, lost: u32, lost_again: u32) {
        (self.resent, self.probes) = (0, 0);
        for _ in 0..count {
            assert!(self.stream.may_send_new());
            self.stream.send_new(Time::ZERO);
        }
        for offset in (0..count).filter(|offset| lost >> offset & 1 == 0) {
            self.arrives(self.base + offset);
        }
        let mut sent_again = 0;
        let mut lost = || {
            sent_again += 1;
            lost_again.checked_shr(sent_again - 1).is_some_and(|bits| bits & 1 == 1)
        };
        let mut timeouts = 0;
        while self.stream.outstanding() > 0 {
            if !self.resend(&mut lost) {
                self.time_out(&mut lost);
                timeouts += 1;
                assert!(timeouts < 40, "{count} packets: it does not end");
            }
        }
        assert_eq!((self.stream.pipe(), self.stream.retry_pending()), (0, 0));
        assert!(!self.stream.recovering(), "the scoreboard is not forgotten");
        assert_eq!(self.slow_path.stats().senders_open, 0);
        self.base += count;
        self.arrived.retain(|at| *at >= self.base);
    }
}

#[test]
fn every_subset_lost_is_sent_again_exactly_once() {
    let mut link = Link::new(RecoveryPolicy::SelectiveRepeat);
    let count = 10;
    for lost in 0..1u32 << count {
        link.play(count, lost, 0);
        // What is lost at the end is not seen to be: the timer's probes find it.
        let tail = (lost << (32 - count)).leading_ones();
        let body = lost.count_ones() - tail;
        if tail == 0 {
            assert_eq!((link.resent, link.probes), (body, 0), "lost {lost:#b}");
        } else {
            assert!(
                link.resent + link.probes <= body + 2 * tail,
                "lost {lost:#b}: {}",
                link.resent + link.probes
            );
            assert!(link.resent <= lost.count_ones(), "lost {lost:#b}");
        }
    }
    assert!(link.base > 0x2000, "the wrap was crossed");
}

#[test]
fn resends_that_are_lost_too_come_again() {
    let mut link = Link::new(RecoveryPolicy::SelectiveRepeat);
    for lost in 0..1 << 6 {
        for lost_again in 0..1 << 7 {
            link.play(6, lost, lost_again);
        }
    }
}

#[test]
fn go_back_n_resends_everything_and_ends_too() {
    let mut link = Link::new(RecoveryPolicy::GoBackN);
    for _ in 0..4 {
        link.stream.send_new(Time::ZERO);
    }
    let (probes, record) = link.stream.on_rto(&mut link.cold);
    assert_eq!((probes, record), ([Some(psn(0)), None], None));
    assert_eq!(link.stream.retry_pending(), 3);
    let order: Vec<_> = std::iter::from_fn(|| {
        let at = link.stream.next_retry(&link.cold)?;
        assert_eq!(link.stream.take_retry(&mut link.cold, at), None);
        Some(at)
    })
    .collect();
    assert_eq!(order, [psn(1), psn(2), psn(3)]);
}
