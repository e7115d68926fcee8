//! The port of a simulated host. It folds what its engine sends, and unfolds what its engine
//! receives.

use crate::memory::FILL;
use crate::packet::{HEAD, List, Packets};
use datapath::port::{Port, PortCaps, PortStats, RX_BURST, RxFrame};

/// Room for a frame, on a line of its own.
#[derive(Debug)]
struct Buffer(Box<[u8]>);

/// What the hosts of one thread share: the packets in flight, and the buffers in which a port makes
/// frames. A port has it while its engine takes a turn.
#[derive(Debug)]
pub struct Arena {
    /// All packets in flight.
    pub packets: Packets,
    /// What the engine sent in this turn, in order.
    pub sent: Vec<u32>,
    burst: Vec<(Buffer, u32)>,
    slot: Buffer,
}

impl Arena {
    /// Buffers for frames of at most `max_frame` bytes.
    #[must_use]
    pub fn new(max_frame: usize) -> Self {
        let buffer = || Buffer(vec![FILL; max_frame.max(HEAD)].into_boxed_slice());
        Self {
            packets: Packets::default(),
            sent: Vec::new(),
            burst: (0..RX_BURST).map(|_| (buffer(), 0)).collect(),
            slot: buffer(),
        }
    }
}

/// The port of a simulated host.
#[derive(Debug)]
pub struct FoldingPort {
    caps: PortCaps,
    arena: Option<Box<Arena>>,
    /// Frames that have arrived and that its engine has not taken yet, during a turn.
    inbox: List,
    /// Frames that the transmit ring still takes.
    pub room: u32,
    /// The engine asked for a slot and there was none.
    pub refused: bool,
    burst: usize,
    stats: PortStats,
}

impl FoldingPort {
    /// A port that takes part in turns once it has an arena.
    #[must_use]
    pub fn new(caps: PortCaps) -> Self {
        Self {
            caps,
            arena: None,
            inbox: List::default(),
            room: 0,
            refused: false,
            burst: 0,
            stats: PortStats::default(),
        }
    }

    /// Gives the port the arena for a turn, what has arrived, and room for so many frames.
    pub fn begin(&mut self, arena: Box<Arena>, inbox: List, room: u32) {
        self.arena = Some(arena);
        self.inbox = inbox;
        self.room = room;
        self.refused = false;
    }

    /// Takes the arena back, and what the engine has left of what had arrived.
    pub fn end(&mut self) -> Option<(Box<Arena>, List)> {
        Some((self.arena.take()?, core::mem::take(&mut self.inbox)))
    }
}

impl Port for FoldingPort {
    fn caps(&self) -> PortCaps {
        self.caps
    }

    fn link_up(&self) -> bool {
        true
    }

    fn rx_burst(&mut self) -> usize {
        let Some(arena) = &mut self.arena else { return 0 };
        self.burst = 0;
        while self.burst < RX_BURST {
            let Some(index) = self.inbox.pop(&arena.packets) else { break };
            let len = arena.packets.meta(index).len;
            let (buffer, length) = &mut arena.burst[self.burst];
            *length = u32::from(len);
            arena.packets.unfold(index, &mut buffer.0);
            arena.packets.free(index);
            self.stats.rx_bytes += u64::from(len);
            self.burst += 1;
        }
        self.stats.rx_frames += self.burst as u64;
        self.burst
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        let (buffer, len) = match &self.arena {
            Some(arena) => &arena.burst[index],
            None => return RxFrame::new(&[]),
        };
        RxFrame::new(&buffer.0[..*len as usize])
    }

    fn rx_release(&mut self) {
        if let Some(arena) = &mut self.arena {
            for (buffer, len) in &mut arena.burst[..self.burst] {
                Packets::refill(&mut buffer.0, *len as usize);
            }
        }
        self.burst = 0;
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        if self.room == 0 {
            self.refused = true;
            return None;
        }
        self.arena.as_mut().map(|arena| &mut *arena.slot.0)
    }

    fn tx_commit(&mut self, len: usize) {
        let Some(arena) = &mut self.arena else { return };
        let index = arena.packets.fold(&arena.slot.0[..len]);
        arena.sent.push(index);
        self.room -= 1;
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += len as u64;
    }

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {}

    fn stats(&self) -> PortStats {
        self.stats
    }
}
