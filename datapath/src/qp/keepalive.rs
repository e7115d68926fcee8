//! Keepalive: an idle queue pair asks from time to time whether its peer is there (protocol.md
//! 2.4).
//!
//! What it sends is a packet that the peer has had already, whoever the peer is: a WRITE ONLY of
//! nothing, one PSN before all that is outstanding. A responder acknowledges such a duplicate
//! again, touches no memory, and completes nothing.

use super::packet::{PacketBuilder, Zeros};
use super::requester::give_up;
use super::send_stream::Stop;
use super::srnic::Responses;
use crate::qp::{NotSent, Qp, QpFlags, TxSlots, Units};
use crate::sched::SchedFlags;
use crate::stream::{KEEPALIVE_OFFSET, Verdict, Watchdog, WatchdogConfig};
use crate::time::Time;
use wire::{Bth, Fields, Meta, Opcode, Reth};

/// The RETH of a probe.
const NOWHERE: Reth = Reth { va: 0, rkey: 0, dma_len: 0 };

/// What a queue pair with a keepalive remembers.
pub(crate) struct Keepalive {
    idle_ns: u64,
    /// Nothing counts that was heard before.
    since: Time,
    /// When the peer began to be asked, if it has not been heard since.
    asking_since: Option<Time>,
    /// A probe is to be sent.
    due: bool,
    /// Says when to ask again, and when to give up. The streams' own have learned from data.
    watchdog: Watchdog,
}

impl Keepalive {
    /// Asks when nothing was heard for `ms` milliseconds; `None` if that is 0.
    pub fn new(ms: u32, now: Time, watchdog: WatchdogConfig) -> Option<Box<Self>> {
        let idle_ns = u64::from(ms) * 1_000_000;
        let watchdog = Watchdog::new(watchdog);
        let keepalive = Self { idle_ns, since: now, asking_since: None, due: false, watchdog };
        (ms > 0).then(|| Box::new(keepalive))
    }

    /// Takes other attributes of the failure detector.
    pub const fn configure(&mut self, config: WatchdogConfig) {
        self.watchdog.configure(config);
    }

    /// When to look first.
    pub fn first_look(&self) -> Time {
        self.since.after(self.idle_ns)
    }

    /// What is due at `now`, on an idle queue pair whose peer was heard last at `heard_at`.
    fn check(&mut self, now: Time, heard_at: Time) -> Verdict {
        if self.asking_since.is_some_and(|since| heard_at >= since) {
            self.asking_since = None;
        }
        if self.asking_since.is_none() {
            let asks_at = self.since.max(heard_at).after(self.idle_ns);
            if now < asks_at {
                return Verdict::Wait(asks_at);
            }
            self.asking_since = Some(now);
            self.watchdog.progress(now);
            self.due = true;
        }
        loop {
            match self.watchdog.check(now, heard_at, 1) {
                // Each try has retransmissions enough; a peer that sleeps need not be woken by
                // probes.
                Verdict::TailProbe => {}
                Verdict::Rto => self.due = true,
                verdict => return verdict,
            }
        }
    }
}

/// The timer of its keepalive fired.
#[cold]
pub(crate) fn on_keepalive_timer(qp: &mut Qp<'_>, units: &mut Units) {
    let busy = is_busy(qp);
    let (heard_at, rtt) = (qp.cold.heard_at, qp.cold.watchdog.rtt);
    let Some(keepalive) = qp.cold.keepalive.as_deref_mut().filter(|_| qp.hot.id.state.continues_sends())
    else {
        return;
    };
    if busy {
        // The timers of what is outstanding watch the peer.
        keepalive.asking_since = None;
        units.arm_keepalive(qp.cold.slot, units.now.after(keepalive.idle_ns));
        return;
    }
    keepalive.watchdog.rtt = rtt;
    match keepalive.check(units.now, heard_at) {
        Verdict::Wait(until) => units.arm_keepalive(qp.cold.slot, until),
        _ => return give_up(qp, units),
    }
    if keepalive.due {
        qp.hot.sched.insert(SchedFlags::PROBE);
        qp.wake(qp.cold.requests(), units);
    }
}

/// Whether a request or a response of its own awaits a sign of the peer's.
fn is_busy(qp: &Qp<'_>) -> bool {
    qp.hot.tx.outstanding() > 0
        || qp.hot.req.head != qp.hot.req.next
        || qp.hot.flags.intersects(QpFlags::RNR_WAIT | QpFlags::REWOUND)
        || qp.hot.sched.contains(SchedFlags::PAUSED)
        || qp.cold.responses.as_deref().is_some_and(|responses| !Responses::is_idle(responses))
}

/// Sends the probe, if one is due.
#[cold]
pub(in crate::qp) fn send_keepalive<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
) -> Result<(), Stop> {
    let Some(keepalive) = qp.cold.keepalive.as_deref_mut().filter(|keepalive| keepalive.due) else {
        return Ok(());
    };
    let mode = qp.hot.id.mode;
    let psn = qp.hot.tx.una().prev();
    let bth = Bth { ack_req: true, psn, ..qp.hot.id.bth(mode, Opcode::RcWriteOnly) };
    let meta = Meta { msn: qp.hot.req.msn(), offset: KEEPALIVE_OFFSET };
    let fields = Fields { reth: NOWHERE, meta, ..Fields::default() };
    let emitted = slots.emit(qp.hot.id.loopback, |frame| {
        PacketBuilder::new(&qp.hot.template, mode, bth, fields)?.build(&Zeros(0), frame)
    });
    if let Err(NotSent::PortFull) = emitted {
        return Err(Stop::PortFull);
    }
    keepalive.due = false;
    units.counters.tx_keepalives += 1;
    Ok(())
}

/// Whether a packet that has these is a probe. In Plain a WRITE of nothing to address 0 with the
/// R_Key 0 cannot be told from one.
pub(in crate::qp) fn is_probe(reth: Option<Reth>, imm: Option<u32>, meta: Option<Meta>) -> bool {
    reth == Some(NOWHERE) && imm.is_none() && meta.is_none_or(|meta| meta.offset == KEEPALIVE_OFFSET)
}
