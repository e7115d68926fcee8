//! What a stream sends again in its turn: probes, then the RetryQ. What was never sent comes behind
//! them (paper section 4.2).

use super::SendStream;
use crate::qp::Units;
use crate::qp::requester::Grant;
use crate::sched::SchedFlags;
use wire::{Meta, Psn};

/// A packet was not sent, and the turn is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::qp) enum Stop {
    PortFull,
    /// It can never be sent; the source knows what follows from that.
    Failed,
}

/// What a stream carries: requests or responses.
pub(in crate::qp) trait PacketSource {
    /// The stream, and what all queue pairs share.
    fn stream(&mut self) -> (SendStream<'_>, &mut Units);

    /// Whether nothing of the RetryQ may go now.
    fn waits(&self) -> bool;

    /// META of an outstanding packet.
    fn meta_of(&self, psn: Psn) -> Option<Meta>;

    /// Builds an outstanding packet once more and sends it. Returns the bytes of its payload, or
    /// `None` if it does not go again, and others may.
    ///
    /// # Errors
    /// [`Stop`].
    fn send_again(&mut self, psn: Psn) -> Result<Option<usize>, Stop>;

    /// Sends what else asks the peer for a sign.
    ///
    /// # Errors
    /// [`Stop`].
    fn send_signs(&mut self) -> Result<(), Stop>;
}

/// Sends what is due again ([`SendStream::resends`]). Reduces `grant` by what it used.
///
/// # Errors
/// [`Stop`]: why the turn ended early.
#[cold]
#[inline(never)]
pub(in crate::qp) fn resend(source: &mut impl PacketSource, grant: &mut Grant) -> Result<(), Stop> {
    let (stream, _) = source.stream();
    if stream.sched.contains(SchedFlags::PROBE) {
        send_probes(source)?;
    }
    send_retries(source, grant)
}

/// Probes pass both gates.
fn send_probes(source: &mut impl PacketSource) -> Result<(), Stop> {
    for index in 0..2 {
        let (stream, _) = source.stream();
        let Some(psn) = stream.probes[index] else { continue };
        if !psn.is_before(stream.tx.una()) && psn.is_before(stream.tx.nxt()) {
            let sent = source.send_again(psn)?;
            let meta = source.meta_of(psn);
            let (mut stream, units) = source.stream();
            units.counters.tx_probes += u64::from(sent.is_some());
            stream.note_probe(units, psn, meta);
        }
        let (stream, _) = source.stream();
        stream.probes[index] = None;
    }
    source.send_signs()?;
    let (stream, _) = source.stream();
    stream.sched.remove(SchedFlags::PROBE);
    Ok(())
}

/// The RetryQ comes before what is new.
fn send_retries(source: &mut impl PacketSource, grant: &mut Grant) -> Result<(), Stop> {
    while !source.waits() {
        let (stream, units) = source.stream();
        let may_send = stream.tx.may_resend() && grant.has_room(stream.pmtu) && units.ctrl_q.has_room(1);
        let next = stream.tx.next_retry(stream.recovery).filter(|_| may_send);
        let Some(psn) = next else { break };
        let sent = source.send_again(psn)?;
        let (stream, units) = source.stream();
        let record = stream.tx.take_retry(stream.recovery, psn);
        units.tell_slow_path(record);
        grant.bytes = grant.bytes.saturating_sub(sent.unwrap_or(0));
        grant.packets -= 1;
    }
    Ok(())
}
