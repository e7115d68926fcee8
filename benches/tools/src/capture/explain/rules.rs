//! Rules of protocol.md that each packet, and each row of packets, shows to be kept or broken.

use super::flow::Record;
use super::records::{Records, view};
use super::stream::{Seen, Traffic, View, on_wire};
use wire::{AckFlags, Kind, NakCode, Pmtu, Position, Syndrome, Transport};

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// Reserved bits are zero.
    Reserved,
    /// Atomics are aligned.
    Alignment,
    /// A syndrome has a meaning.
    Syndrome,
    /// Packets are as long as their place in the message asks for.
    Length,
    /// A message is FIRST, MIDDLE.., LAST, or ONLY.
    OpcodeSequence,
    /// A queue pair's UDP source port stays.
    SourcePort,
    /// Data packets of the dialect may be marked.
    EcnCapable,
    /// CNPs say what they must, and come at most every 50 us.
    Cnp,
    /// META counts messages, and packets in them.
    Meta,
    /// SSNs count the messages that take a receive.
    ReceiveNumber,
    /// Each WRITE packet has its own address and what is left.
    WriteAddress,
    /// Responses are numbered on from READ to READ.
    ReadStart,
    /// Flags of an acknowledgement fit each other.
    AckFlags,
    /// A queue pair has one dialect.
    Dialect,
    /// A PSN is that of one packet.
    PsnReused,
    /// Only what was sent is acknowledged.
    AckBeyond,
    /// No more than 2^14 packets are outstanding.
    Window,
}

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// Number of the frame.
    pub frame: u64,
    /// What it did, in words.
    pub text: String,
}

impl Rule {
    /// The section of protocol.md that has it.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::Reserved => "1.2",
            Self::Alignment => "1.4",
            Self::Syndrome => "1.5",
            Self::Length | Self::OpcodeSequence | Self::PsnReused => "1.6",
            Self::SourcePort | Self::EcnCapable | Self::Cnp => "1.8",
            Self::Meta | Self::ReceiveNumber | Self::WriteAddress | Self::AckFlags => "2.2",
            Self::Dialect => "2.3",
            Self::ReadStart | Self::AckBeyond | Self::Window => "2.4",
        }
    }
}

/// Packets outstanding at most: four windows, and no more than these.
const OUTSTANDING_MAX: i64 = 1 << 14;
/// Between two CNPs of a queue pair, in nanoseconds.
const CNP_EVERY_NS: u64 = 50_000;
/// An equal CNP that comes so soon after another one is a copy that the network made.
const COPY_WITHIN_NS: u64 = 1_000;
/// Bits of an acknowledgement's flags that mean nothing.
const FLAGS_RESERVED: u8 = 0x80;

/// What a connection's packets in one capture break, by frame.
pub fn check(records: &Records, pmtu: Option<u32>) -> Vec<Violation> {
    let mut book = Book::default();
    for (_, record) in records {
        book.packet(record, pmtu);
    }
    for forward in [true, false] {
        let way: Vec<&Record> =
            records.iter().filter(|(own, _)| *own == forward).map(|(_, record)| record).collect();
        // Who sees the marks of the other direction sends the CNPs of this one, and at its end
        // alone the time between them is its own: on the way queues change it.
        let is_at_sender = records.iter().any(|(own, record)| *own != forward && record.ce);
        book.way(&way);
        book.cnps(&way, is_at_sender);
        for traffic in [Traffic::Requests, Traffic::Responses] {
            book.stream(&view(records, forward, traffic, pmtu), traffic, pmtu);
        }
    }
    book.broken.sort_by_key(|violation| (violation.frame, violation.rule));
    book.broken
}

#[derive(Default)]
struct Book {
    broken: Vec<Violation>,
}

impl Book {
    fn note(&mut self, rule: Rule, frame: u64, text: String) {
        self.broken.push(Violation { rule, frame, text });
    }

    /// What a packet shows by itself.
    fn packet(&mut self, record: &Record, pmtu: Option<u32>) {
        let headers = &record.headers;
        if headers.resv6a != 0 || headers.resv7 != 0 || headers.deth_resv != 0 {
            self.note(Rule::Reserved, record.frame, "reserved bits are not zero".into());
        }
        if headers.atomic_eth.is_some_and(|atomic| atomic.va % 8 != 0) {
            self.note(Rule::Alignment, record.frame, "an atomic's address is not a multiple of 8".into());
        }
        if let Some(Syndrome::Reserved(byte)) = headers.aeth.map(|aeth| aeth.syndrome) {
            self.note(Rule::Syndrome, record.frame, format!("the syndrome {byte:#04x} has no meaning"));
        }
        if record.is_srnic() && Traffic::of(record).is_some() && !record.ecn_capable {
            self.note(Rule::EcnCapable, record.frame, "a data packet cannot be marked".into());
        }
        self.length(record, pmtu);
        self.ack_flags(record);
    }

    fn length(&mut self, record: &Record, pmtu: Option<u32>) {
        let full = pmtu.unwrap_or(Pmtu::B4096.bytes());
        let of_dialect = |pmtu: Pmtu| pmtu.in_dialect(record.headers.mode) == pmtu;
        let right = match record.headers.bth.opcode.position() {
            Position::First | Position::Middle => {
                record.payload == full && Pmtu::from_bytes(full).is_some_and(of_dialect)
            }
            Position::Last => (1..=full).contains(&record.payload),
            Position::Only => record.payload <= full || record.transport() == Transport::Ud,
        };
        if !right {
            let (opcode, len) = (record.headers.bth.opcode, record.payload);
            self.note(
                Rule::Length,
                record.frame,
                format!("{opcode:?} has {len} bytes, and the path MTU is {full}"),
            );
        }
    }

    fn ack_flags(&mut self, record: &Record) {
        let Some(ackx) = record.headers.ackx else { return };
        let has = |flag| ackx.flags.contains(flag);
        let nack = record
            .headers
            .aeth
            .is_some_and(|aeth| matches!(aeth.syndrome, Syndrome::Nak(NakCode::PsnSequence)));
        let wrong = ackx.flags.0 & FLAGS_RESERVED != 0
            || (has(AckFlags::SACK_VALID) && !nack)
            || (has(AckFlags::BITMAP) && !has(AckFlags::SACK_VALID))
            || (has(AckFlags::BACKWARD) && !has(AckFlags::BITMAP));
        if wrong {
            let flags = ackx.flags.0;
            self.note(Rule::AckFlags, record.frame, format!("flags {flags:#04x} do not fit each other"));
        }
    }

    /// What the packets of one direction show.
    fn way(&mut self, way: &[&Record]) {
        let mut data =
            way.iter().filter(|record| record.transport() != Transport::Ud && record.kind() != Kind::Cnp);
        if let Some(first) = data.next() {
            let other = data.clone().find(|record| record.src_port != first.src_port);
            if let Some(other) = other {
                let (was, is) = (first.src_port, other.src_port);
                self.note(
                    Rule::SourcePort,
                    other.frame,
                    format!("the UDP source port was {was} and is {is}"),
                );
            }
            if let Some(other) = data.find(|record| record.is_srnic() != first.is_srnic()) {
                self.note(Rule::Dialect, other.frame, "both dialects on one queue pair".into());
            }
        }
    }

    /// What the CNPs of one direction show, at the end of who sends them or elsewhere.
    fn cnps(&mut self, way: &[&Record], is_at_sender: bool) {
        let mut last: Option<&Record> = None;
        for record in way.iter().filter(|record| record.kind() == Kind::Cnp) {
            let (frame, bth) = (record.frame, &record.headers.bth);
            if !bth.becn {
                self.note(Rule::Cnp, frame, "a CNP without BECN".into());
            }
            if bth.psn.get() != 0 {
                self.note(Rule::Cnp, frame, format!("a CNP has PSN {}, not 0", bth.psn.get()));
            }
            if let Some(last) = last {
                let after_ns = record.at_ns.saturating_sub(last.at_ns);
                if record.icrc == last.icrc && after_ns < COPY_WITHIN_NS {
                    continue;
                }
                if is_at_sender && after_ns < CNP_EVERY_NS {
                    let (us, least) = (after_ns / 1000, CNP_EVERY_NS / 1000);
                    let text = format!("a CNP {us} us after another one; there must be {least} between");
                    self.note(Rule::Cnp, frame, text);
                }
            }
            last = Some(record);
        }
    }

    /// What a stream shows.
    fn stream(&mut self, view: &View, traffic: Traffic, pmtu: Option<u32>) {
        for beyond in &view.beyond {
            let (psn, newest) = (beyond.psn, beyond.newest);
            self.note(
                Rule::AckBeyond,
                beyond.frame,
                format!("PSN {psn} is acknowledged, and {newest} is the last that was sent"),
            );
        }
        for (frame, psn) in &view.reused {
            self.note(Rule::PsnReused, *frame, format!("PSN {psn} was that of another packet"));
        }
        let mut before: Option<(&i64, &Seen)> = None;
        let mut read: Option<(u32, u32)> = None;
        for (psn, seen) in &view.seen {
            let follows = before.filter(|(last, of)| **last + of.span == *psn).map(|(_, of)| of);
            let answers_again = traffic == Traffic::Responses && !seen.first.is_srnic();
            match follows {
                Some(last) if seen.first.transport() != Transport::Ud && !answers_again => {
                    self.follow(on_wire(*psn), &last.first, &seen.first);
                }
                Some(_) => {}
                None => read = None,
            }
            self.read_start(&mut read, seen, pmtu);
            before = Some((psn, seen));
        }
        if view.window > OUTSTANDING_MAX && view.seen.values().any(|seen| seen.first.is_srnic()) {
            let window = view.window;
            self.note(Rule::Window, view.window_frame, format!("{window} packets were outstanding at once"));
        }
    }

    /// Two packets of which one follows the other.
    fn follow(&mut self, psn: u32, last: &Record, next: &Record) {
        let frame = next.frame;
        let (was, is) = (last.headers.bth.opcode, next.headers.bth.opcode);
        let same_message = !is.is_start();
        if was.is_end() == same_message || (same_message && was.kind() != is.kind()) {
            return self.note(Rule::OpcodeSequence, frame, format!("{is:?} of PSN {psn} follows {was:?}"));
        }
        if let (Some(before), Some(after)) = (last.headers.meta, next.headers.meta) {
            let right = match (same_message, Traffic::of(next)) {
                (true, _) => after.msn == before.msn && after.offset == before.offset.wrapping_add(1),
                (false, Some(Traffic::Requests)) => after.msn == before.msn.next() && after.offset == 0,
                (false, _) => after.offset == 0,
            };
            if !right {
                self.note(Rule::Meta, frame, format!("{after:?} of PSN {psn} follows {before:?}"));
            }
        }
        let takes = was.is_end() && was.consumes_rwqe();
        if let (Some(before), Some(after), Some(Traffic::Requests)) =
            (last.headers.ssnw, next.headers.ssnw, Traffic::of(next))
            && after.ssn != before.ssn.add(u32::from(takes))
        {
            self.note(
                Rule::ReceiveNumber,
                frame,
                format!("SSN {} of PSN {psn} follows {}", after.ssn, before.ssn),
            );
        }
        if let (true, true, Some(before), Some(after)) =
            (same_message, next.is_srnic(), last.headers.reth, next.headers.reth)
        {
            let address = before.va.wrapping_add(u64::from(last.payload));
            let left = before.dma_len.wrapping_sub(last.payload);
            if (after.va, after.dma_len, after.rkey) != (address, left, before.rkey) {
                let text = format!("{after:?} of PSN {psn} follows {before:?} with {} bytes", last.payload);
                self.note(Rule::WriteAddress, frame, text);
            }
        }
    }

    /// A READ or atomic: its responses begin where those of the one before end.
    fn read_start(&mut self, read: &mut Option<(u32, u32)>, seen: &Seen, pmtu: Option<u32>) {
        let Some(rdw) = seen.first.headers.rdw else { return };
        let start = rdw.rpsn_start.get();
        if let Some((before, responses)) = *read {
            let expected = rdw_after(before, responses);
            if start != expected {
                let text = format!("responses begin at PSN {start}, not at {expected}");
                self.note(Rule::ReadStart, seen.first.frame, text);
            }
        }
        let len = seen.first.headers.reth.map_or(0, |reth| reth.dma_len);
        // Without a path MTU a long response has nobody knows how many packets.
        *read = match pmtu {
            _ if len == 0 => Some((start, 1)),
            Some(pmtu) => Some((start, len.div_ceil(pmtu))),
            None => None,
        };
    }
}

fn rdw_after(start: u32, responses: u32) -> u32 {
    wire::Psn::new(start).add(responses).get()
}
