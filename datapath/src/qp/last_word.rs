//! What a queue pair that has ended last acknowledged: its peer may not have heard it, and sends
//! again what has arrived (protocol.md 1.14).

use super::dialect::write_any_ack;
use super::keepalive::is_probe;
use super::responder::RequestPacket;
use crate::qp::{ControlKind, ControlPacket, Qp, Units};
use crate::qp_state::QpType;
use crate::time::Time;
use crate::tuning::{LAST_WORD_LINGER, LAST_WORDS};
use arrayvec::ArrayVec;
use sr_recovery::StreamId;
use wire::{Datagram, Kind, Packet, Psn, RxFrame, Template, WireMode, icrc};

/// Bytes of the longest acknowledgement: Ethernet with a VLAN tag, IPv6, UDP, BTH, AETH, META,
/// ACKX, ICRC.
const FRAME_MAX: usize = 128;

/// The last acknowledgement of a queue pair.
#[derive(Debug)]
pub(crate) struct LastWord {
    /// The first PSN that it does not acknowledge.
    end: Psn,
    mode: WireMode,
    pkey: u16,
    template: Template,
    pub loopback: bool,
    frame: ArrayVec<u8, FRAME_MAX>,
    /// It is about to be sent.
    queued: bool,
    /// Until when the device waits for the peer to ask; zero if the peer hears of the end
    /// otherwise.
    until: Time,
}

impl LastWord {
    /// Writes it into a slot; its length, or `None` if it does not fit.
    pub fn write(&mut self, slot: &mut [u8]) -> Option<usize> {
        self.queued = false;
        slot.get_mut(..self.frame.len())?.copy_from_slice(&self.frame);
        Some(self.frame.len())
    }
}

/// Those of queue pairs that have ended lately: [`LAST_WORDS`], of more the oldest are forgotten.
/// All memory is taken at the start.
#[derive(Debug)]
pub(crate) struct LastWords {
    /// The QPN of each, side by side to be searched; 0: none.
    qpns: Box<[u32]>,
    words: Vec<LastWord>,
    /// Where the next one goes.
    next: usize,
}

impl LastWords {
    pub fn new() -> Self {
        Self { qpns: vec![0; LAST_WORDS].into(), words: Vec::with_capacity(LAST_WORDS), next: 0 }
    }

    fn keep(&mut self, qpn: u32, word: LastWord) {
        self.forget(qpn);
        self.qpns[self.next] = qpn;
        match self.words.get_mut(self.next) {
            Some(oldest) => *oldest = word,
            None => self.words.push(word),
        }
        self.next = (self.next + 1) % LAST_WORDS;
    }

    /// The queue pair begins a new life, or there is a new one of its number.
    pub fn forget(&mut self, qpn: u32) {
        if let Some(index) = self.find(qpn) {
            self.qpns[index] = 0;
        }
    }

    pub fn get_mut(&mut self, qpn: u32) -> Option<&mut LastWord> {
        self.find(qpn).and_then(|index| self.words.get_mut(index))
    }

    fn find(&self, qpn: u32) -> Option<usize> {
        self.qpns.iter().position(|other| *other == qpn).filter(|_| qpn != 0)
    }

    /// Whether a peer may ask that does not know of the end.
    pub fn are_awaited(&self, now: Time) -> bool {
        let mut words = self.qpns.iter().zip(&self.words);
        words.any(|(qpn, word)| *qpn != 0 && word.until > now)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.qpns) + self.words.capacity() * size_of::<LastWord>()
    }
}

/// Keeps what the queue pair has acknowledged; to be called while it still takes packets. `sudden`:
/// the peer does not learn of the end otherwise.
#[cold]
pub(crate) fn keep_last_word(qp: &mut Qp<'_>, units: &mut Units, sudden: bool) {
    let acknowledges =
        qp.hot.service == QpType::Rc && qp.hot.id.state.receives() && qp.cold.refusal.is_none();
    if !acknowledges || qp.hot.rsp.owed.waits_since == Time::ZERO {
        return;
    }
    let mut frame = [0; FRAME_MAX];
    // It is counted when it is sent.
    let counters = units.counters;
    let len = write_any_ack(qp, units, qp.cold.requests(), None, &mut frame);
    units.counters = counters;
    let Some(written) = len.and_then(|len| frame.get(..len)) else { return };
    let word = LastWord {
        end: qp.cold.plain.as_deref().map_or(qp.hot.rx.epsn(), |plain| plain.taken()),
        mode: qp.hot.id.mode,
        pkey: qp.hot.id.pkey,
        template: qp.hot.template,
        loopback: qp.hot.id.loopback,
        frame: written.iter().copied().collect(),
        queued: false,
        until: if sudden { qp.cold.heard_at.after(LAST_WORD_LINGER) } else { Time::ZERO },
    };
    units.last_words.keep(qp.hot.id.qpn, word);
}

/// A packet that comes after the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    psn: Psn,
    /// It is of a SEND or a WRITE, and so waits for an acknowledgement. A keepalive probe is not:
    /// it asks whether the queue pair is there.
    is_data: bool,
}

impl Late {
    pub fn of(packet: &Packet<'_>) -> Self {
        let imm = packet.imm().or_else(|| packet.ieth());
        Self::new(packet.opcode().kind(), packet.psn(), is_probe(packet.reth(), imm, packet.meta()))
    }

    pub fn of_request(packet: &RequestPacket<'_>) -> Self {
        Self::new(packet.kind, packet.psn, is_probe(packet.reth, packet.imm, Some(packet.meta)))
    }

    const fn new(kind: Kind, psn: Psn, is_probe: bool) -> Self {
        Self { psn, is_data: matches!(kind, Kind::Send | Kind::Write) && !is_probe }
    }
}

/// A packet for a queue pair that does not exist: true if it is one that had arrived before the
/// end. It is acknowledged once more.
pub(crate) fn is_answered(
    units: &mut Units,
    packet: &Packet<'_>,
    datagram: &Datagram,
    frame: RxFrame<'_>,
) -> bool {
    let Some(word) = units.last_words.get_mut(packet.dest_qp()) else { return false };
    packet.mode() == word.mode
        && packet.pkey() == word.pkey
        && word.template.is_answered_by(datagram)
        && icrc::verify(&frame.bytes()[datagram.l3_offset..datagram.transport.end])
        && say_again(units, packet.dest_qp(), Late::of(packet))
}

/// A packet that passed the checks of protocol.md 1.2, for a queue pair in ERR or one that is gone.
/// True if it had arrived before the end: it is acknowledged once more.
#[cold]
pub(crate) fn say_again(units: &mut Units, qpn: u32, packet: Late) -> bool {
    let now = units.now;
    let Some(word) = units.last_words.get_mut(qpn) else { return false };
    if !packet.is_data || !packet.psn.is_before(word.end) {
        return false;
    }
    if word.until != Time::ZERO {
        word.until = now.after(LAST_WORD_LINGER);
    }
    units.counters.rx_duplicates += 1;
    if !core::mem::replace(&mut word.queued, true)
        && !units.control.push(ControlPacket {
            stream: StreamId { qp: 0, response: false },
            qpn,
            kind: ControlKind::LastWord,
        })
    {
        word.queued = false;
        units.counters.tx_acks_dropped += 1;
    }
    true
}
