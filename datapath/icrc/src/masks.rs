//! The masks of the bytes that count as ones, laid out so that vectors of any length are filled
//! from the end of the headers.

use wire::icrc::{HEAD_V4, HEAD_V6, MASK_V4, MASK_V6, ONES};

/// Bytes of the widest vector.
pub(super) const LINE: usize = 64;
/// Longest run of headers: two of them, less the ones that come first.
pub(super) const HEADERS_MAX: usize = 2 * LINE - ONES;

/// The ones and the masks of the headers behind them, between two vectors of nothing and two more.
#[repr(align(64))]
pub(super) struct Masks([u8; 4 * LINE]);

impl Masks {
    /// Those of IPv4.
    pub(super) const V4: &Self = &V4;

    /// For the IP version of `frame_from_l3`; and how many bytes of headers they cover.
    #[inline(always)]
    pub(super) fn of(frame_from_l3: &[u8]) -> Option<(&'static Self, usize)> {
        match frame_from_l3.first()? >> 4 {
            4 => Some((Self::V4, HEAD_V4)),
            6 => Some((&V6, HEAD_V6)),
            _ => None,
        }
    }

    /// The masks from the first byte of the headers on. [`HEADERS_MAX`] bytes and those that fill
    /// the last vector can be read behind it; before it two vectors, of which the last four bytes
    /// are the ones.
    #[inline(always)]
    pub(super) fn headers(&self) -> *const u8 {
        self.0.as_ptr().wrapping_add(2 * LINE)
    }

    const fn new<const N: usize>(mask: &[u8; N]) -> Self {
        let mut all = [0; 4 * LINE];
        let mut i = 0;
        while i < ONES {
            all[2 * LINE - ONES + i] = 0xFF;
            i += 1;
        }
        i = 0;
        while i < N {
            all[2 * LINE + i] = mask[i];
            i += 1;
        }
        Self(all)
    }
}

static V4: Masks = Masks::new(&MASK_V4);
static V6: Masks = Masks::new(&MASK_V6);
