//! What carries a link, and how another carrier follows.

use super::{Link, Lying};
use crate::endpoint::tcp::Outbox;
use crate::error::Setup;
use crate::pool::{Chunk, Pool};
use crate::protocol::{Arrival, EXTRA_RECEIVES, Fate, Header, Hello, Received, Slot, Violation};
use core::net::SocketAddr;
use std::sync::Arc;
use verbs_api::{Completion, PreparedQueuePair, QueuePair, RecvRequest};

/// What carries the messages of a link.
pub enum Carrier {
    /// None yet, or none any more.
    None,
    Pair(Box<QueuePair>),
    Tcp(Arc<Outbox>, SocketAddr),
}

impl Carrier {
    pub const fn pair(&mut self) -> Option<&mut QueuePair> {
        match self {
            Self::Pair(pair) => Some(pair),
            Self::None | Self::Tcp(..) => None,
        }
    }

    /// The number of its queue pair.
    fn qpn(&self) -> Option<u32> {
        match self {
            Self::Pair(pair) => Some(pair.qpn()),
            Self::None | Self::Tcp(..) => None,
        }
    }
}

impl Link {
    /// Posts `count` of the receives that are free to a queue pair that is not connected yet, and
    /// may come to carry this link.
    pub fn lend(&mut self, pool: &Pool, pair: &mut PreparedQueuePair, count: usize) -> Result<(), Setup> {
        // On TCP those beside the counted ones are for messages that need no credit.
        let kept = if self.generation > 0 { EXTRA_RECEIVES as usize } else { 0 };
        let count = count.min(self.unposted.len().saturating_sub(kept));
        let first = self.unposted.len() - count;
        let slots = self.unposted.split_off(first);
        let posted = slots.iter().try_for_each(|slot| {
            let Some(chunk) = self.slots.get(slot.0 as usize).copied() else { return Ok(()) };
            let scatter = [pool.sge(chunk, 0..self.config.chunk_bytes as usize)?];
            pair.post_recv(&RecvRequest { wr_id: slot.0.into(), scatter: &scatter })
        });
        self.lent.push((pair.qpn(), slots));
        Ok(posted?)
    }

    /// That queue pair is gone, and carried nothing. Returns how many of its completions had come.
    #[must_use]
    pub fn take_back(&mut self, pool: &Pool, qpn: u32) -> u64 {
        for slot in self.lent_to(qpn) {
            self.post(pool, slot);
        }
        self.take_early(qpn).len() as u64
    }

    /// Returns `true` if this receive is posted to a queue pair which may come to carry the link.
    fn is_lent(&self, slot: Slot) -> bool {
        self.lent.iter().any(|(_, lent)| lent.contains(&slot))
    }

    /// The receives that are posted to this queue pair, which carries the link or is gone.
    fn lent_to(&mut self, qpn: u32) -> Vec<Slot> {
        let at = self.lent.iter().position(|(to, _)| *to == qpn);
        at.map(|at| self.lent.swap_remove(at).1).unwrap_or_default()
    }

    /// What this queue pair has completed before it carried the link.
    fn take_early(&mut self, qpn: u32) -> Vec<Completion> {
        self.early.extract_if(.., |done| done.qpn == qpn).collect()
    }

    /// Gives all memory back but for what the program has, and for the receives that are posted to
    /// queue pairs which may have come to carry it: returns those, by queue pair. Its own queue
    /// pair goes first: what that has posted is not used any more.
    pub fn release(&mut self, pool: &mut Pool) -> Vec<(u32, Vec<Chunk>)> {
        if let Carrier::Tcp(out, _) = core::mem::replace(&mut self.carrier, Carrier::None) {
            out.finish();
        }
        self.sends.clear(pool);
        let slots = core::mem::take(&mut self.slots);
        for (slot, chunk) in (0..).map(Slot).zip(slots.iter().copied()) {
            if self.blocks.has_own(slot) && !self.is_lent(slot) {
                pool.give(chunk);
            }
        }
        self.blocks.clear(pool);
        let lent = core::mem::take(&mut self.lent);
        let chunk_of = |slot: Slot| slots.get(slot.0 as usize).copied();
        lent.into_iter().map(|(qpn, lent)| (qpn, lent.into_iter().filter_map(chunk_of).collect())).collect()
    }

    /// The connection is there.
    pub fn connected(&mut self, pool: &mut Pool, pair: QueuePair, peer: &Hello) {
        self.protocol.meet(peer);
        // They are posted to the carrier now.
        let _ = self.lent_to(pair.qpn());
        self.begin(pool, Carrier::Pair(Box::new(pair)));
    }

    /// A TCP connection is there, and is the first carrier.
    pub fn connected_by_tcp(&mut self, pool: &mut Pool, out: Arc<Outbox>, addr: SocketAddr, peer: &Hello) {
        self.protocol.meet(peer);
        self.protocol.begin_unsure();
        self.begin(pool, Carrier::Tcp(out, addr));
    }

    fn begin(&mut self, pool: &mut Pool, carrier: Carrier) {
        self.peer = match &carrier {
            Carrier::Pair(pair) => pair.peer_addr(),
            Carrier::Tcp(_, addr) => Some(*addr),
            Carrier::None => None,
        };
        self.carrier = carrier;
        self.generation += 1;
        if matches!(self.carrier, Carrier::Pair(_)) {
            for slot in core::mem::take(&mut self.unposted) {
                self.post(pool, slot);
            }
        }
        self.pump(pool);
    }

    /// Returns `true` if it has no carrier any more and waits for another one.
    pub const fn is_suspended(&self) -> bool {
        let had_one = self.generation > 0;
        had_one && self.moves.is_some() && matches!(self.carrier, Carrier::None)
    }

    /// Returns `true` if TCP carries it.
    pub const fn is_by_tcp(&self) -> bool {
        matches!(self.carrier, Carrier::Tcp(..))
    }

    /// The number of its queue pair.
    pub fn qpn(&self) -> Option<u32> {
        self.carrier.qpn()
    }

    /// Another carrier is there, and the peer knows what it is for.
    pub fn resume(&mut self, pool: &mut Pool, carrier: Carrier) {
        if !matches!(self.carrier, Carrier::None) {
            self.suspend(pool);
        }
        let qpn = carrier.qpn();
        if let Some(qpn) = qpn {
            // They are posted to the carrier now.
            let _ = self.lent_to(qpn);
        }
        self.protocol.resume(qpn.is_none());
        self.begin(pool, carrier);
        if let Some(qpn) = qpn {
            let early = self.take_early(qpn);
            early.iter().for_each(|done| self.complete(pool, done));
        }
    }

    /// A queue pair that does not carry it yet has completed something.
    pub fn hold(&mut self, done: &Completion) {
        self.early.push(*done);
    }

    /// The carrier is gone, and the stream is to go on over another one.
    pub fn suspend(&mut self, pool: &mut Pool) {
        let mut bytes = self.sends.bytes(pool).unwrap_or_default();
        let position = self.protocol.position();
        let base = position.saturating_sub(bytes.len() as u64);
        let (from, old) = core::mem::take(&mut self.backlog);
        let rest = usize::try_from(position.saturating_sub(from)).unwrap_or(usize::MAX);
        bytes.extend_from_slice(old.get(rest..).unwrap_or_default());
        self.backlog = (base, bytes);
        if let Carrier::Tcp(out, _) = core::mem::replace(&mut self.carrier, Carrier::None) {
            out.abandon();
        }
        self.sends.clear(pool);
        (self.fetching, self.showing, self.waits_since) = (0, 0, None);
        for slot in self.protocol.suspend() {
            self.blocks.vacate(slot, pool);
        }
        self.blocks.suspend(pool);
        let slots = (0..self.config.posted()).map(Slot);
        let is_free = |slot: &Slot| !self.protocol.is_in_use(*slot) && !self.is_lent(*slot);
        self.unposted = slots.filter(is_free).collect();
    }

    /// No other carrier comes.
    pub fn give_up(&mut self) {
        self.moves = None;
        self.protocol.lose();
    }

    /// A message came by TCP.
    pub fn deliver(&mut self, pool: &mut Pool, header: &[u8; Header::BYTES], payload: &[u8]) {
        let byte_len = Header::BYTES + payload.len();
        let Some(slot) = self.unposted.pop() else {
            self.protocol.violate(Violation::Overrun);
            return self.pump(pool);
        };
        let Some(chunk) = self.slots.get(slot.0 as usize).copied() else { return };
        // No longer than a receive.
        let _ = pool.write(chunk, 0, header);
        let _ = pool.write(chunk, Header::BYTES, payload);
        let message = Lying { pool, chunk };
        let received = Received { slot, arrival: Arrival::Sent, byte_len, header, message: &message };
        if self.protocol.receive(&received) == Fate::Repost {
            self.unposted.push(slot);
        }
        self.pump(pool);
    }

    /// The TCP connection is over.
    pub fn lose(&mut self, pool: &mut Pool) {
        self.lose_carrier(pool, false);
        self.pump(pool);
    }

    /// The carrier is gone; `is_untold`: not all that was sent over it has arrived.
    pub(super) fn lose_carrier(&mut self, pool: &mut Pool, is_untold: bool) {
        let is_untold = self.protocol.owes_reset() || is_untold && self.protocol.has_reset();
        let goes_on = !self.protocol.is_over() || is_untold;
        if self.moves.is_some() && goes_on {
            if !matches!(self.carrier, Carrier::None) {
                self.suspend(pool);
            }
        } else {
            self.protocol.lose();
            if let Carrier::Tcp(out, _) = &self.carrier {
                out.abandon();
            }
        }
    }

    pub const fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }
}
