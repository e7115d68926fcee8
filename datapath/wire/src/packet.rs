//! A received transport packet: BTH to ICRC.

use core::ops::{Deref, Range};

use crate::emit::ICRC_LEN;
use crate::{Headers, RxFrame, WireMode};

/// Why a transport packet cannot be parsed. Each is a silent, counted drop (protocol.md 1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the headers and the ICRC take.
    #[error("{len} bytes where at least {need} are needed")]
    Truncated {
        /// Bytes there are.
        len: usize,
        /// Bytes needed at least.
        need: usize,
    },
    /// BTH.TVer is that of no dialect known here.
    #[error("unknown transport version {0}")]
    Version(u8),
    /// No such opcode in this dialect.
    #[error("opcode {opcode:#04x} does not exist in mode {mode:?}")]
    Opcode {
        /// The opcode byte.
        opcode: u8,
        /// The dialect that TVer names.
        mode: WireMode,
    },
    /// PadCnt exceeds the bytes after the headers, or is not zero on a First or Middle packet.
    #[error("PadCnt {pad} with {room} bytes between headers and ICRC")]
    Pad {
        /// PadCnt.
        pad: u8,
        /// Bytes between headers and ICRC.
        room: usize,
    },
}

/// A transport packet whose lengths hold. Dereferences to its [`Headers`].
///
/// Neither the ICRC nor the pad bytes are checked: see [`icrc::verify`](crate::icrc::verify) for
/// the first; receivers do not require the second to be zero.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    headers: Headers<&'a [u8]>,
    payload: &'a [u8],
    icrc: u32,
}

impl<'a> Packet<'a> {
    /// Parses BTH to ICRC, the UDP payload of a RoCEv2 datagram.
    ///
    /// # Errors
    /// Any [`ParseError`].
    #[inline]
    pub fn parse(transport: &'a [u8]) -> Result<Self, ParseError> {
        Self::in_frame(RxFrame::new(transport), 0..transport.len())
    }

    /// As [`Packet::parse`], of BTH to ICRC in a frame whose bytes behind the headers may change
    /// meanwhile ([`Datagram::transport`](crate::Datagram::transport)).
    ///
    /// # Errors
    /// Any [`ParseError`].
    #[inline]
    pub fn in_frame(frame: RxFrame<'a>, transport: Range<usize>) -> Result<Self, ParseError> {
        let headers = Headers::new_checked(frame.head().get(transport.start..).unwrap_or_default())?;
        let behind = frame.bytes().get(transport.start + headers.header_len()..transport.end);
        let Some((rest, icrc)) = behind.and_then(<[u8]>::split_last_chunk::<ICRC_LEN>) else {
            return Err(ParseError::Truncated {
                len: transport.len(),
                need: headers.header_len() + ICRC_LEN,
            });
        };
        let pad = headers.pad();
        let opcode = headers.opcode();
        match rest.len().checked_sub(usize::from(pad)) {
            Some(len) if pad == 0 || opcode.is_end() => {
                let payload = rest.get(..len).unwrap_or_default();
                Ok(Self { headers, payload, icrc: u32::from_le_bytes(*icrc) })
            }
            _ => Err(ParseError::Pad { pad, room: rest.len() }),
        }
    }

    /// The headers.
    #[inline]
    #[must_use]
    pub fn headers(&self) -> &Headers<&'a [u8]> {
        &self.headers
    }

    /// The payload, without pad bytes.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The ICRC as found.
    #[inline]
    #[must_use]
    pub fn icrc(&self) -> u32 {
        self.icrc
    }
}

impl<'a> Deref for Packet<'a> {
    type Target = Headers<&'a [u8]>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.headers
    }
}
