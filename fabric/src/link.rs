//! Directed links: each sends one frame after the other, and delivers it a fixed time later.

use crate::calendar::{Event, Kind};
use crate::clock::Ps;
use crate::packet::{List, Packets, WIRE_OVERHEAD};

/// Bytes that a PAUSE frame takes on a link: 64, preamble and gap (IEEE 802.3, annex 31B).
pub const PAUSE_WIRE_BYTES: u64 = 84;

/// What a link connects to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// A host, by number.
    Host(u32),
    /// A switch, by number.
    Switch(u32),
}

/// A directed link, with the queue before it.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Where it begins.
    pub from: Node,
    /// Where it ends.
    pub to: Node,
    /// Picoseconds that a byte takes: 80 at 100 Gb/s, 20 at 400.
    pub ps_per_byte: u32,
    /// Time from the last bit sent to its arrival.
    pub delay: Ps,
    /// When what was given to it so far has left.
    pub busy_until: Ps,
    /// Frames sent.
    pub frames: u32,
    /// Bytes sent, without what frames take beside their own.
    pub bytes: u64,
    /// Frames lost: the only thing that is counted where the link ends.
    pub lost: u32,
    /// The part of the frames that is lost, of 2^32.
    loss: u32,
    queue: Queue,
}

/// What waits before a link that can be paused.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    waiting: List,
    /// Bytes of the packets that wait, with what they take on the link beside their own.
    bytes: u64,
    /// The packet that is being sent.
    leaving: Option<Leaving>,
    /// A departure is to come.
    sending: bool,
    paused: bool,
}

/// A packet that leaves a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaving {
    /// The link by which it came.
    pub ingress: u32,
    /// Bytes that it takes on a link.
    pub wire_bytes: u64,
}

impl Link {
    /// An idle link.
    #[must_use]
    pub fn new(from: Node, to: Node, ps_per_byte: u32, delay: Ps) -> Self {
        Self {
            from,
            to,
            ps_per_byte,
            delay,
            busy_until: Ps(0),
            frames: 0,
            bytes: 0,
            lost: 0,
            loss: 0,
            queue: Queue::default(),
        }
    }

    /// The link, but it loses a part of the frames, 0 to 1, at random.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped by the cast")]
    pub fn losing(self, part: f64) -> Self {
        Self { loss: (part * f64::from(u32::MAX)) as u32, ..self }
    }

    /// Whether the frame of this arrival is lost on the way; `draw` is random, and another one for
    /// each frame.
    pub const fn loses(&mut self, draw: u32) -> bool {
        let lost = self.loss > 0 && draw <= self.loss;
        self.lost += lost as u32;
        lost
    }

    /// Bytes that wait or are being sent at `now`.
    #[must_use]
    pub const fn backlog(&self, now: Ps) -> u64 {
        self.queue.bytes + self.busy_until.since(now).0 / self.ps_per_byte as u64
    }

    /// Picoseconds in which it has sent frames, or will have.
    #[must_use]
    pub const fn busy(&self) -> u64 {
        (self.bytes + self.frames as u64 * WIRE_OVERHEAD as u64) * self.ps_per_byte as u64
    }

    /// When what waits has left, if the link is not paused until then.
    #[must_use]
    pub const fn idle_at(&self) -> Ps {
        Ps(self.busy_until.0.saturating_add(self.queue.bytes * self.ps_per_byte as u64))
    }

    /// It was told to pause.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.queue.paused
    }

    /// Tells the link to pause after the present frame, or to go on.
    pub const fn pause(&mut self, pause: bool) {
        self.queue.paused = pause;
    }

    /// Puts a packet behind what waits before a link that can be paused; [`Link::start`] sends it.
    pub fn enqueue(&mut self, packets: &mut Packets, packet: u32) {
        self.queue.bytes += packets.meta(packet).wire_bytes();
        self.queue.waiting.push(packets, packet);
    }

    /// Sends the first packet that waits, unless the link is paused or sends: the events of its
    /// arrival and departure. Behind a PAUSE frame only the moment comes at which the link is
    /// free.
    pub fn start(&mut self, now: Ps, number: u32, packets: &Packets) -> [Option<Event>; 2] {
        if self.queue.sending || self.queue.paused || self.queue.waiting.len == 0 {
            return [None; 2];
        }
        self.queue.sending = true;
        let first = if self.busy_until > now { None } else { self.queue.waiting.pop(packets) };
        let arrival = first.map(|packet| {
            let meta = packets.meta(packet);
            let wire_bytes = meta.wire_bytes();
            self.queue.bytes -= wire_bytes;
            self.queue.leaving = Some(Leaving { ingress: meta.ingress, wire_bytes });
            self.send(now, number, packet, meta.len)
        });
        [arrival, Some(Event::new(self.busy_until, Kind::Departure, number, 0, 0))]
    }

    /// A departure: what has left, if it was not a PAUSE frame.
    pub const fn departed(&mut self) -> Option<Leaving> {
        self.queue.sending = false;
        self.queue.leaving.take()
    }

    /// Sends a PAUSE frame before everything that waits; when it arrives.
    pub fn send_pause(&mut self, now: Ps) -> Ps {
        self.busy_until = self.busy_until.max(now) + Ps(PAUSE_WIRE_BYTES * u64::from(self.ps_per_byte));
        self.busy_until + self.delay
    }

    /// Sends a packet of `len` bytes behind what waits; the event of its arrival. `number` is that
    /// of the link.
    pub fn send(&mut self, now: Ps, number: u32, packet: u32, len: u16) -> Event {
        let time = (len as u64 + WIRE_OVERHEAD as u64) * self.ps_per_byte as u64;
        self.busy_until = self.busy_until.max(now) + Ps(time);
        self.frames = self.frames.wrapping_add(1);
        self.bytes += len as u64;
        Event::new(self.busy_until + self.delay, Kind::Arrival, number, self.frames, packet)
    }
}
