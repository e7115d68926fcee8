//! Frames to send: slots of a ring that are lent, and handed to the kernel by one call a burst.

use crate::layout::{COPIED_AT, SENT_AT, Slot, TOLD_AT, TOLD_LEN};
use crate::ring::Ring;
use crate::socket::Socket;
use libc::tpacket2_hdr;
use std::io;
use std::sync::atomic::Ordering;

/// A slot that the kernel has not read yet, or reads.
const BUSY: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;

/// What a flush did.
#[derive(Debug, Default)]
pub struct Flushed {
    /// Frames that the kernel took.
    pub sent: usize,
    /// Their bytes.
    pub sent_bytes: usize,
    /// Frames that are gone, as the interface does not send them: it is down, or has become one for
    /// shorter frames.
    pub dropped: usize,
    /// The interface is down, or gone.
    pub is_down: bool,
}

/// Frames to send.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    ring: Ring,
    max_frame: usize,
    /// The slot that is lent next.
    next: Slot,
    is_lent: bool,
    /// The first slot whose frame the kernel has not taken.
    first: Slot,
    /// Slots between both.
    queued: usize,
    /// Bytes of their frames.
    queued_bytes: usize,
}

impl Sender {
    pub(crate) fn new(socket: Socket, ring: Ring, max_frame: u16) -> Self {
        let first = ring.layout().first();
        Self {
            socket,
            ring,
            max_frame: max_frame.into(),
            next: first,
            is_lent: false,
            first,
            queued: 0,
            queued_bytes: 0,
        }
    }

    /// Room for the longest frame, on a cache line, whatever is in it; `None` if all slots are
    /// full. The same again until [`Sender::commit`].
    #[inline]
    pub fn lend(&mut self) -> Option<&mut [u8]> {
        let status = self.ring.status(self.next).load(Ordering::Acquire);
        self.is_lent = status & BUSY == 0;
        if !self.is_lent {
            return None;
        }
        let at = self.ring.at(self.next).wrapping_add(SENT_AT);
        // SAFETY: the slot has room for the longest frame behind its head, in memory that `ring`
        // keeps mapped. It is ours, as its status says, until `commit` changes that, which needs
        // `self` for itself: the kernel, which is trusted, is done with it.
        Some(unsafe { std::slice::from_raw_parts_mut(at, self.max_frame) })
    }

    /// The first `len` bytes of the slot lent last are a frame, for the next [`Sender::flush`].
    ///
    /// # Panics
    /// If none is lent, or the frame is too long.
    #[inline]
    pub fn commit(&mut self, len: usize) {
        assert!(std::mem::take(&mut self.is_lent), "no slot is lent");
        assert!(len <= self.max_frame, "a frame of {len} bytes in a slot for {}", self.max_frame);
        let at = self.ring.at(self.next);
        let head = at.cast::<tpacket2_hdr>();
        #[expect(clippy::cast_possible_truncation, reason = "no frame is that long")]
        // SAFETY: a slot begins with a head and is longer than what is told, whose numbers are
        // aligned; all of it is ours until the status is stored below.
        unsafe {
            (&raw mut (*head).tp_len).write((TOLD_LEN + len) as u32);
            (&raw mut (*head).tp_mac).write(TOLD_AT as u16);
            // All of it: the kernel would refer to the pages of the ring for the rest, and a veth
            // copies what it does not own.
            at.add(TOLD_AT + COPIED_AT).cast::<u16>().write(len as u16);
        }
        self.ring.status(self.next).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = self.ring.layout().next(self.next);
        self.queued += 1;
        self.queued_bytes += len;
    }

    /// Takes the slot lent last back.
    #[inline]
    pub const fn cancel(&mut self) {
        self.is_lent = false;
    }

    /// Hands what was committed to the kernel, by one call. What it has no room for waits for the
    /// next one.
    #[inline]
    pub fn flush(&mut self) -> Flushed {
        if self.queued == 0 {
            return Flushed::default();
        }
        match self.socket.send() {
            Ok(bytes) if bytes == self.queued_bytes => {
                let (sent, sent_bytes) = (self.queued, bytes);
                (self.first, self.queued, self.queued_bytes) = (self.next, 0, 0);
                Flushed { sent, sent_bytes, ..Flushed::default() }
            }
            result => self.settle(result.err()),
        }
    }

    /// After a flush that did not take all.
    #[cold]
    fn settle(&mut self, error: Option<io::Error>) -> Flushed {
        let (mut sent, queued_bytes) = (0, self.queued_bytes);
        while self.queued > 0
            && self.ring.status(self.first).load(Ordering::Acquire) & libc::TP_STATUS_SEND_REQUEST == 0
            && !self.is_refused(self.first)
        {
            self.queued_bytes -= self.len(self.first);
            self.first = self.ring.layout().next(self.first);
            self.queued -= 1;
            sent += 1;
        }
        let sent_bytes = queued_bytes - self.queued_bytes;
        let code = error.as_ref().and_then(io::Error::raw_os_error);
        let waits = matches!(code, None | Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR | libc::ENOMEM));
        let dropped = if waits { 0 } else { self.drop_queued() };
        let is_down = matches!(code, Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV));
        Flushed { sent, sent_bytes, dropped, is_down }
    }

    /// The kernel does not take the frame in this slot, and stops there.
    fn is_refused(&self, slot: Slot) -> bool {
        self.ring.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_WRONG_FORMAT != 0
    }

    /// What the head of a slot says of its frame's length.
    fn len(&self, slot: Slot) -> usize {
        let head = self.ring.at(slot).cast::<tpacket2_hdr>();
        // SAFETY: a slot begins with a head, of which the kernel writes the status only.
        let told = unsafe { (&raw const (*head).tp_len).read() };
        (told as usize).saturating_sub(TOLD_LEN)
    }

    /// Drops what the kernel has not taken; how many frames. The kernel looks next at the first of
    /// their slots, which is therefore filled next.
    pub fn drop_queued(&mut self) -> usize {
        let dropped = std::mem::take(&mut self.queued);
        let mut slot = self.first;
        for _ in 0..dropped {
            self.ring.status(slot).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            slot = self.ring.layout().next(slot);
        }
        (self.next, self.queued_bytes, self.is_lent) = (self.first, 0, false);
        dropped
    }

    /// Frames that were committed and that the kernel has not taken.
    #[inline]
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.queued
    }
}
