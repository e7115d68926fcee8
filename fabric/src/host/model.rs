//! Reference models of transports in NICs: what the engine stands beside.
//!
//! They are small on purpose: packets without bytes, a NIC that acts at once, no limit on
//! connections. docs/fabric.md has what is published of each parameter and what is assumed.

mod dcqcn;
mod header;

pub use header::MAP_BITS;
mod receiver;
mod sender;

use crate::clock::Ps;
use crate::ideal::Frames;
use crate::packet::{List, Meta, Packets, WIRE_OVERHEAD, mix};
use crate::port::Arena;
use header::{Header, Kind};
use receiver::Receiver;
use sender::Sender;
use std::collections::{HashMap, VecDeque};
use wire::Pmtu;

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Receivers keep what comes out of order; what is missing is sent again.
    SelectiveRepeat,
    /// Receivers throw away what comes out of order; all from the missing packet on is sent again.
    GoBackN,
}

/// What limits the rate of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Nothing but the cap.
    Line,
    /// DCTCP in the window.
    WindowDctcp,
    /// DCQCN, which paces packets.
    PacedDcqcn,
}

/// What all hosts of a run are made with.
#[derive(Clone, Copy, Debug)]
pub struct ModelConfig {
    /// How losses are repaired.
    pub recovery: Recovery,
    /// What limits the rate of a flow.
    pub control: Control,
    /// Packets from the first that is not acknowledged to the last that was sent; at most 256 with
    /// selective repeat.
    pub cap: u32,
    /// Path MTU.
    pub mtu: Pmtu,
    /// Bytes of frames.
    pub frames: Frames,
    /// Time without an acknowledgement after which packets are sent again, with at most three in
    /// flight; [`Ps::NEVER`]: there is no timer.
    pub timer_short: Ps,
    /// As above, with more in flight.
    pub timer_long: Ps,
    /// Packets that come in order are acknowledged together, so many; the last of a flow at once.
    pub packets_per_ack: u32,
    /// DCQCN: least time between two notifications of a flow by its receiver; 0: one for each
    /// marked packet.
    pub notify_gap: Ps,
    /// DCQCN: least time between two cuts of a flow's rate by its sender, which hears no
    /// notification before; 0: each one cuts.
    pub cut_gap: Ps,
    /// Least time between two turns of a host.
    pub turn: Ps,
    /// Frames of the transmit ring.
    pub ring: u32,
    /// Picoseconds that a byte takes on the host's link.
    pub ps_per_byte: u32,
}

/// A simulated host with a model of a NIC.
#[derive(Debug, Default)]
pub struct ModelHost {
    number: u32,
    senders: Vec<Sender>,
    receivers: HashMap<u32, Receiver>,
    /// Flows whose receiver may have something to say.
    touched: Vec<u32>,
    /// What is to be sent before data.
    answers: VecDeque<(u32, Header)>,
    /// The sender whose turn it is.
    cursor: usize,
    completed: VecDeque<u32>,
    /// Something is to be sent and the ring is full.
    pub refused: bool,
    /// Frames sent and received.
    pub frames: (u64, u64),
}

impl ModelHost {
    /// Host `number`.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    /// Begins a flow of `bytes` to host `to`.
    pub fn send(&mut self, config: &ModelConfig, now: Ps, (flow, to, bytes): (u32, u32, u32)) {
        self.senders.push(Sender::new(config, now, (flow, to, bytes)));
    }

    /// Bytes of a flow from this host that are acknowledged, if it is under way.
    #[must_use]
    pub fn acknowledged(&self, config: &ModelConfig, flow: u32) -> Option<u32> {
        self.senders.iter().find(|sender| sender.flow == flow).map(|sender| sender.acknowledged(config))
    }

    /// A flow to this host has ended.
    pub fn forget(&mut self, flow: u32) {
        self.receivers.remove(&flow);
    }

    /// A flow from this host that has ended.
    pub fn poll(&mut self) -> Option<u32> {
        self.completed.pop_front()
    }

    /// Takes what has arrived, and sends at most `room` frames.
    pub fn turn(
        &mut self,
        config: &ModelConfig,
        now: Ps,
        (inbox, arena): (&mut List, &mut Arena),
        room: u32,
    ) {
        while let Some(packet) = inbox.pop(&arena.packets) {
            self.receive(config, now, &arena.packets, packet);
            arena.packets.free(packet);
        }
        self.answer();
        self.senders.iter_mut().for_each(|sender| sender.look_at_timer(config, now));
        let before = arena.sent.len();
        let full = |arena: &Arena| arena.sent.len() - before >= room as usize;
        while !full(arena)
            && let Some((to, header)) = self.answers.pop_front()
        {
            let len = config.frames.acknowledgement;
            self.put(arena, (to, len, false), &header);
        }
        while !full(arena) && self.send_data(config, now, arena) {}
        self.refused = full(arena) && (!self.answers.is_empty() || self.has_data(config, now));
    }

    fn receive(&mut self, config: &ModelConfig, now: Ps, packets: &Packets, packet: u32) {
        self.frames.1 += 1;
        let header = Header::of_bytes(packets.head(packet));
        if header.kind == Kind::Data {
            let receiver = self.receivers.entry(header.flow).or_insert_with(|| Receiver::new(header.from));
            receiver.receive(config, now, &header, packets.meta(packet).marked);
            if self.touched.last() != Some(&header.flow) {
                self.touched.push(header.flow);
            }
        } else if let Some(place) = self.senders.iter().position(|sender| sender.flow == header.flow) {
            self.senders[place].hear(config, now, &header);
            if self.senders[place].is_done() {
                self.completed.push_back(header.flow);
                self.senders.remove(place);
            }
        }
    }

    /// Collects what receivers have to say.
    fn answer(&mut self) {
        for flow in self.touched.drain(..) {
            let Some(receiver) = self.receivers.get_mut(&flow) else { continue };
            while let Some(header) = receiver.answer(self.number, flow) {
                self.answers.push_back((receiver.from, header));
            }
        }
    }

    /// Sends a packet of the next flow that has one; false if none has.
    fn send_data(&mut self, config: &ModelConfig, now: Ps, arena: &mut Arena) -> bool {
        for step in 0..self.senders.len() {
            let place = (self.cursor + step) % self.senders.len();
            let sender = &mut self.senders[place];
            let Some(number) = sender.next_packet(config, now) else { continue };
            let payload = sender.payload(config, number);
            let len = config.frames.data(payload).into();
            let wire_bytes = len + u64::from(WIRE_OVERHEAD);
            sender.sent(now, number, (wire_bytes, config.ps_per_byte));
            let (flow, to, count) = (sender.flow, sender.to, sender.packets());
            let header = Header { kind: Kind::Data, from: self.number, flow, number, count, map: [0; 4] };
            self.put(arena, (to, len, true), &header);
            self.cursor = place + 1;
            return true;
        }
        false
    }

    fn has_data(&mut self, config: &ModelConfig, now: Ps) -> bool {
        self.senders.iter_mut().any(|sender| sender.next_packet(config, now).is_some())
    }

    fn put(&mut self, arena: &mut Arena, (to, len, markable): (u32, u64, bool), header: &Header) {
        // The way back is another one.
        let flow = mix(header.flow.wrapping_mul(2) | u32::from(!markable));
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        let meta = Meta { to, flow, len, markable, ..Meta::default() };
        let packet = arena.packets.put(meta, &header.to_bytes());
        arena.sent.push(packet);
        self.frames.0 += 1;
    }

    /// When it has to act, if nothing arrives.
    #[must_use]
    pub fn deadline(&self, config: &ModelConfig) -> Ps {
        self.senders.iter().map(|sender| sender.deadline(config)).min().unwrap_or(Ps::NEVER)
    }
}
