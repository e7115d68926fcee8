//! One packet buffer, seen from Rust.

use std::ptr::NonNull;

use crate::ffi;

const BUF_ADDR: usize = ffi::PMD_MBUF_BUF_ADDR as usize;
const BUF_LEN: usize = ffi::PMD_MBUF_BUF_LEN as usize;
const DATA_OFF: usize = ffi::PMD_MBUF_DATA_OFF as usize;
const DATA_LEN: usize = ffi::PMD_MBUF_DATA_LEN as usize;
const PKT_LEN: usize = ffi::PMD_MBUF_PKT_LEN as usize;
const NB_SEGS: usize = ffi::PMD_MBUF_NB_SEGS as usize;

/// Bytes before the frame in a fresh buffer.
#[expect(clippy::cast_possible_truncation, reason = "asserted to fit")]
pub const HEADROOM: u16 = {
    assert!(ffi::PMD_HEADROOM <= 1024);
    ffi::PMD_HEADROOM as u16
};

/// A packet buffer that its holder owns: neither DPDK nor another `Mbuf` uses it.
///
/// Not freed when dropped, because freeing is for whole bursts: push it into a [`crate::Burst`].
#[derive(Debug)]
#[repr(transparent)]
pub struct Mbuf(NonNull<ffi::rte_mbuf>);

// SAFETY: an mbuf is plain memory, bound to no thread.
unsafe impl Send for Mbuf {}

impl Mbuf {
    #[inline]
    fn field<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: the offsets are offsetof() of this very struct, of the type that is read; the
        // mbuf is ours.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset).cast::<T>().read() }
    }

    #[inline]
    fn set_field<T: Copy>(&mut self, offset: usize, value: T) {
        // SAFETY: as for `field`.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset).cast::<T>().write(value) }
    }

    #[inline]
    fn buffer(&self) -> *mut u8 {
        self.field(BUF_ADDR)
    }

    /// Bytes in the buffer, headroom included.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> u16 {
        self.field(BUF_LEN)
    }

    /// Segments of the frame; more than 1 means [`Mbuf::frame`] is only its beginning.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> u16 {
        self.field(NB_SEGS)
    }

    /// The frame, or the first segment of it.
    #[inline]
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        let (offset, len): (u16, u16) = (self.field(DATA_OFF), self.field(DATA_LEN));
        // SAFETY: DPDK keeps data_off + data_len within the buffer, whose memory is mapped and
        // zeroed at start-up; `&self` keeps writers out.
        unsafe { std::slice::from_raw_parts(self.buffer().add(usize::from(offset)), usize::from(len)) }
    }

    /// Places the frame so that its byte `align_at` has an address divisible by 64, and lends all
    /// that fits behind.
    #[inline]
    pub fn writable(&mut self, align_at: usize) -> &mut [u8] {
        const LINE: usize = 64;
        const { assert!(HEADROOM as usize >= 2 * LINE) };
        let buffer = self.buffer();
        // Between one and two lines of the headroom stay free.
        let offset = LINE + (buffer as usize).wrapping_add(align_at).wrapping_neg() % LINE;
        #[expect(clippy::cast_possible_truncation, reason = "below 128")]
        self.set_field(DATA_OFF, offset as u16);
        let len = usize::from(self.capacity()).saturating_sub(offset);
        // SAFETY: offset + len is the buffer's length; the memory is mapped and zeroed at start-up;
        // `&mut self` keeps others out.
        unsafe { std::slice::from_raw_parts_mut(buffer.add(offset), len) }
    }

    /// Makes the first `len` bytes the frame.
    ///
    /// # Panics
    /// If they do not fit into the buffer.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        let room = self.capacity() - self.field::<u16>(DATA_OFF);
        assert!(len <= usize::from(room), "a frame of {len} bytes in a buffer of {room}");
        #[expect(clippy::cast_possible_truncation, reason = "at most `room`")]
        let len = len as u16;
        self.set_field(DATA_LEN, len);
        self.set_field(PKT_LEN, u32::from(len));
    }
}
