//! Classic pcap files: a header of 24 bytes, then records.

use super::{CaptureError, ETHERNET, Frame, Words, slice};

/// With stamps in microseconds, and in nanoseconds.
const MAGICS: [u32; 2] = [0xA1B2_C3D4, 0xA1B2_3C4D];
const FILE_HEADER: usize = 24;
const LINK_TYPE: usize = 20;
/// The upper bits of the link type say other things.
const LINK_TYPE_MASK: u32 = 0x0FFF_FFFF;
/// Seconds, fraction, bytes captured, bytes on the wire.
const RECORD_HEADER: usize = 16;

/// Calls `each` for every frame.
pub fn read<'a>(file: &'a [u8], each: &mut impl FnMut(Frame<'a>)) -> Result<(), CaptureError> {
    let words = byte_order(file).ok_or(CaptureError::Format)?;
    let link_type = words.u32(file, LINK_TYPE).ok_or(CaptureError::Format)? & LINK_TYPE_MASK;
    if link_type != ETHERNET {
        return Err(CaptureError::LinkType(link_type));
    }
    let mut at = FILE_HEADER;
    while at < file.len() {
        let frame = record(words, file, at);
        let frame = frame.ok_or(CaptureError::Broken { at, reason: "a record is cut off" })?;
        each(frame);
        at += RECORD_HEADER + frame.bytes.len();
    }
    Ok(())
}

fn byte_order(file: &[u8]) -> Option<Words> {
    [false, true]
        .into_iter()
        .map(|swapped| Words { swapped })
        .find(|words| words.u32(file, 0).is_some_and(|magic| MAGICS.contains(&magic)))
}

fn record(words: Words, file: &[u8], at: usize) -> Option<Frame<'_>> {
    let captured = words.u32(file, at + 8)?;
    Some(Frame { bytes: slice(file, at + RECORD_HEADER, captured)?, len: words.u32(file, at + 12)? })
}
