//! Where frames go: the port, or back into the engine for queue pairs that talk to each other.

use crate::port::Port;
use crate::qp::TxSlots;
use crate::tuning::LOOPBACK_FRAMES;

/// The port and the self-loopback ring beside it.
pub(crate) struct Wire<P> {
    pub port: P,
    loopback: Loopback,
    /// Frames committed since the last look.
    sent: usize,
}

/// A ring of frames; a full one refuses, as a port does.
struct Loopback {
    frames: Box<[Frame]>,
    head: usize,
    waiting: usize,
}

struct Frame {
    bytes: Box<[u8]>,
    len: usize,
}

impl<P: Port> Wire<P> {
    pub fn new(port: P) -> Self {
        let max_frame = port.caps().max_frame;
        let frame = || Frame { bytes: vec![0; max_frame].into(), len: 0 };
        let frames = (0..LOOPBACK_FRAMES).map(|_| frame()).collect();
        Self { port, loopback: Loopback { frames, head: 0, waiting: 0 }, sent: 0 }
    }

    /// Frames that wait in the loopback ring.
    pub const fn loopback_waiting(&self) -> usize {
        self.loopback.waiting
    }

    /// The oldest frame of the loopback ring.
    pub fn loopback_frame(&self) -> &[u8] {
        let frame = &self.loopback.frames[self.loopback.head];
        &frame.bytes[..frame.len]
    }

    /// Gives the oldest frame of the loopback ring to the engine of this device that it is for, if
    /// that is another one.
    pub fn pass_loopback_on(&mut self) -> bool {
        let frame = &self.loopback.frames[self.loopback.head];
        self.port.pass_on(&frame.bytes[..frame.len])
    }

    /// Frees the oldest frame of the loopback ring.
    pub fn loopback_release(&mut self) {
        self.loopback.head = (self.loopback.head + 1) % self.loopback.frames.len();
        self.loopback.waiting -= 1;
    }

    /// Frames sent since the last call.
    pub const fn take_sent(&mut self) -> usize {
        core::mem::replace(&mut self.sent, 0)
    }
}

impl Loopback {
    fn tail(&self) -> usize {
        (self.head + self.waiting) % self.frames.len()
    }
}

impl<P: Port> TxSlots for Wire<P> {
    #[inline]
    fn slot(&mut self, loopback: bool) -> Option<&mut [u8]> {
        if !loopback {
            return self.port.tx_slot();
        }
        let tail = self.loopback.tail();
        let free = self.loopback.waiting < self.loopback.frames.len();
        free.then(|| &mut *self.loopback.frames[tail].bytes)
    }

    #[inline]
    fn commit(&mut self, loopback: bool, len: usize) {
        self.sent += 1;
        if !loopback {
            self.port.tx_commit(len);
            return;
        }
        let tail = self.loopback.tail();
        self.loopback.frames[tail].len = len;
        self.loopback.waiting += 1;
    }

    #[inline]
    fn cancel(&mut self, loopback: bool) {
        if !loopback {
            self.port.tx_cancel();
        }
    }
}
