//! A receiver to which frames come that were made before, and all that it did.

use crate::common::rig::Rig;
use crate::frames::damage;
use datapath::counters::Counters;
use datapath::engine::QpHandles;
use datapath::memory::Access;
use datapath::queue::Completion;

/// Where the receiver's memory was not written.
pub const UNTOUCHED: u8 = 0xEE;
/// Of a frame: IP header, and opcode.
pub const L3: usize = 14;
pub const OPCODE: usize = 42;

/// Everything that the receiver did.
#[derive(PartialEq, Debug)]
pub struct Effect {
    pub sent: Vec<Vec<u8>>,
    pub completions: Vec<Completion>,
    pub memory: Vec<u8>,
    pub counters: Counters,
}

/// The receiver is side 1 of the rig.
pub struct Scene {
    pub rig: Rig,
    pub handles: [QpHandles; 2],
    /// What the other side sent, which has not come yet.
    pub frames: Vec<Vec<u8>>,
    /// Bytes of the receiver's memory that are looked at.
    used: usize,
}

impl Scene {
    /// Has a pattern in the memory of side 0, and the receiver's untouched.
    pub fn new(rig: Rig, handles: [QpHandles; 2], used: usize) -> Self {
        let pattern: Vec<u8> = (0..251).cycle().take(used).collect();
        fill(&rig, 0, &pattern);
        fill(&rig, 1, &vec![UNTOUCHED; used]);
        Self { rig, handles, frames: Vec::new(), used }
    }

    /// Side 0 sends all that it has to.
    pub fn record(mut self) -> Self {
        let sender = &mut self.rig.sides[0].engine;
        while sender.turn(self.rig.now).sent > 0 {}
        self.frames = sender.port().sent().map(<[u8]>::to_vec).collect();
        self
    }

    /// One turn of the receiver, to which these frames come.
    pub fn receive<'a>(&mut self, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
        let receiver = &mut self.rig.sides[1];
        frames.into_iter().for_each(|frame| receiver.engine.port_mut().inject(frame));
        receiver.engine.turn(self.rig.now);
    }

    pub fn memory(&self) -> Vec<u8> {
        let (side, mut memory) = (&self.rig.sides[1], vec![0; self.used]);
        let len = self.used as u64;
        let all = side.engine.core().memory().check(side.key.0, side.pd, 0, len, Access::LOCAL_WRITE);
        all.unwrap().read(&mut memory);
        memory
    }

    pub fn counters(&self) -> Counters {
        *self.rig.sides[1].engine.core().counters()
    }

    pub fn effect(mut self) -> Effect {
        let (memory, counters) = (self.memory(), self.counters());
        let receiver = &mut self.rig.sides[1];
        Effect {
            sent: receiver.engine.port().sent().map(<[u8]>::to_vec).collect(),
            completions: std::iter::from_fn(|| receiver.cq.poll()).collect(),
            memory,
            counters,
        }
    }
}

fn fill(rig: &Rig, side: usize, bytes: &[u8]) {
    let (side, len) = (&rig.sides[side], bytes.len() as u64);
    let all = side.engine.core().memory().check(side.key.0, side.pd, 0, len, Access::LOCAL_WRITE);
    all.unwrap().write(bytes);
}

/// Another byte, and the ICRC that goes with it.
pub fn forge(frame: &mut [u8], at: usize, bits: u8) {
    damage(frame, at, bits);
    wire::icrc::seal(&mut frame[L3..]);
}
