//! Where frames go: the port, or back into the engine for queue pairs that talk to each other.

use crate::frame::FrameRing;
use crate::port::Port;
use crate::qp::TxSlots;
use crate::tuning::LOOPBACK_FRAMES;

/// The port and the self-loopback ring beside it.
pub(crate) struct Wire<P> {
    pub port: P,
    /// A full one refuses, as a port does.
    loopback: FrameRing,
    /// Frames committed since the last look.
    sent: usize,
}

impl<P: Port> Wire<P> {
    pub fn new(port: P) -> Self {
        let loopback = FrameRing::new(LOOPBACK_FRAMES, port.caps().max_frame);
        Self { port, loopback, sent: 0 }
    }

    /// Frames that wait in the loopback ring.
    pub const fn loopback_waiting(&self) -> usize {
        self.loopback.len()
    }

    /// The oldest frame of the loopback ring, unless it is for another engine of this device, which
    /// has it now.
    pub fn loopback_frame(&mut self) -> Option<&[u8]> {
        let frame = self.loopback.front()?.bytes();
        (!self.port.pass_on(frame)).then_some(frame)
    }

    /// Frees the oldest frame of the loopback ring.
    pub fn loopback_release(&mut self) {
        self.loopback.pop();
    }

    /// Frames sent since the last call.
    pub const fn take_sent(&mut self) -> usize {
        core::mem::replace(&mut self.sent, 0)
    }
}

impl<P: Port> TxSlots for Wire<P> {
    #[inline]
    fn slot(&mut self, loopback: bool) -> Option<&mut [u8]> {
        if !loopback {
            return self.port.tx_slot();
        }
        self.loopback.free().map(|frame| &mut *frame.bytes)
    }

    #[inline]
    fn commit(&mut self, loopback: bool, len: usize) {
        self.sent += 1;
        if !loopback {
            self.port.tx_commit(len);
            return;
        }
        if let Some(frame) = self.loopback.free() {
            frame.len = len;
            self.loopback.push();
        }
    }

    #[inline]
    fn cancel(&mut self, loopback: bool) {
        if !loopback {
            self.port.tx_cancel();
        }
    }
}
