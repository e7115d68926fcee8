//! Loads and stores of packed big-endian headers, and the macro that gives each header its public
//! face.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The low 24 bits, as PSNs, QPNs and MSNs are stored beside a byte of something else.
pub(crate) const MASK24: u32 = 0x00FF_FFFF;

/// Reads a `T` from the front of `buf`; `None` if `buf` is shorter.
#[inline]
pub(crate) fn read<T: FromBytes>(buf: &[u8]) -> Option<T> {
    T::read_from_prefix(buf).ok().map(|(value, _)| value)
}

/// Writes `raw` to the front of `buf`; false if `buf` is shorter.
#[inline]
pub(crate) fn write<T: IntoBytes + Immutable>(raw: &T, buf: &mut [u8]) -> bool {
    raw.write_to_prefix(buf).is_ok()
}

/// The panic of `parse` and `emit` on a buffer shorter than the header, out of the hot path.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn short(header: &str) -> ! {
    panic!("buffer shorter than the {header}")
}

/// Joins a byte and a 24-bit number into the big-endian word that carries both.
#[inline]
pub(crate) const fn word(high: u8, low24: u32) -> u32 {
    (high as u32) << 24 | low24 & MASK24
}

/// The byte that [`word`] put on top.
#[inline]
pub(crate) const fn high(word: u32) -> u8 {
    word.to_be_bytes()[0]
}

/// Implements `LEN`, `parse` and `emit` of a header from `From` conversions to and from its raw
/// layout.
macro_rules! wire_header {
    ($name:ident, $raw:ident) => {
        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = size_of::<$raw>();

            /// Reads the header at the front of `buf`.
            ///
            /// # Panics
            /// If `buf` is shorter than [`Self::LEN`]. [`Headers`](crate::Headers) never panics.
            #[inline(always)]
            #[must_use]
            #[track_caller]
            pub fn parse(buf: &[u8]) -> Self {
                match crate::bytes::read::<$raw>(buf) {
                    Some(raw) => raw.into(),
                    None => crate::bytes::short(stringify!($name)),
                }
            }

            /// Writes the header to the front of `buf`.
            ///
            /// # Panics
            /// If `buf` is shorter than [`Self::LEN`].
            #[inline]
            #[track_caller]
            pub fn emit(&self, buf: &mut [u8]) {
                if !crate::bytes::write(&$raw::from(*self), buf) {
                    crate::bytes::short(stringify!($name));
                }
            }

            /// Reads the header at the front of `buf`, or nothing.
            #[inline]
            pub(crate) fn load(buf: &[u8]) -> Option<Self> {
                crate::bytes::read::<$raw>(buf).map(Self::from)
            }
        }
    };
}
pub(crate) use wire_header;
