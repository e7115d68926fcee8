//! Classic pcap files: a header of 24 bytes, then records.

use super::{CaptureError, ETHERNET, Frame, NS_PER_S, Words, slice};

/// What files begin with, and the nanoseconds of a unit of their stamps.
const MAGICS: [(u32, u64); 2] = [(0xA1B2_C3D4, 1000), (0xA1B2_3C4D, 1)];
const FILE_HEADER: usize = 24;
const LINK_TYPE: usize = 20;
/// The upper bits of the link type say other things.
const LINK_TYPE_MASK: u32 = 0x0FFF_FFFF;
/// Seconds, fraction, bytes captured, bytes on the wire.
const RECORD_HEADER: usize = 16;

/// Calls `each` for every frame.
pub fn read<'a>(file: &'a [u8], each: &mut impl FnMut(Frame<'a>)) -> Result<(), CaptureError> {
    let (words, unit_ns) = byte_order(file).ok_or(CaptureError::Format)?;
    let link_type = words.u32(file, LINK_TYPE).ok_or(CaptureError::Format)? & LINK_TYPE_MASK;
    if link_type != ETHERNET {
        return Err(CaptureError::LinkType(link_type));
    }
    let mut at = FILE_HEADER;
    while at < file.len() {
        let frame = record(words, unit_ns, file, at);
        let frame = frame.ok_or(CaptureError::Broken { at, reason: "a record is cut off" })?;
        each(frame);
        at += RECORD_HEADER + frame.bytes.len();
    }
    Ok(())
}

/// The byte order, and the nanoseconds of a unit of the stamps.
fn byte_order(file: &[u8]) -> Option<(Words, u64)> {
    [false, true].into_iter().map(|swapped| Words { swapped }).find_map(|words| {
        let magic = words.u32(file, 0)?;
        MAGICS.iter().find(|(known, _)| *known == magic).map(|(_, unit_ns)| (words, *unit_ns))
    })
}

fn record(words: Words, unit_ns: u64, file: &[u8], at: usize) -> Option<Frame<'_>> {
    let (seconds, fraction) = (words.u32(file, at)?, words.u32(file, at + 4)?);
    let at_ns = Some(u64::from(seconds) * NS_PER_S + u64::from(fraction) * unit_ns);
    let captured = words.u32(file, at + 8)?;
    Some(Frame { bytes: slice(file, at + RECORD_HEADER, captured)?, len: words.u32(file, at + 12)?, at_ns })
}
