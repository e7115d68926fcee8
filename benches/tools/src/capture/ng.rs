//! pcapng files: blocks in sections, each section in a byte order of its own.

use super::{CaptureError, ETHERNET, Frame, Words, slice};

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// In a section's header, in its byte order.
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// Type and length before a block's body, the length once more behind it.
const BLOCK_HEADER: usize = 8;
const BLOCK_MIN: u32 = 12;

/// Returns `true` if the file begins with a section.
pub fn is_ng(file: &[u8]) -> bool {
    Words { swapped: false }.u32(file, 0) == Some(SECTION)
}

/// Calls `each` for every frame.
pub fn read<'a>(file: &'a [u8], each: &mut impl FnMut(Frame<'a>)) -> Result<(), CaptureError> {
    let mut words = Words { swapped: false };
    // Link type and snapshot length of the section's interfaces.
    let mut interfaces: Vec<(u32, u32)> = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let broken = |reason| CaptureError::Broken { at, reason };
        let kind = words.u32(file, at).ok_or(broken("a block is cut off"))?;
        if kind == SECTION {
            words = byte_order(file, at).ok_or(broken("a section without a byte order"))?;
            interfaces.clear();
        }
        let len = words.u32(file, at + 4).ok_or(broken("a block is cut off"))?;
        if len < BLOCK_MIN || !len.is_multiple_of(4) {
            return Err(broken("a block of an impossible length"));
        }
        let block = slice(file, at, len).ok_or(broken("a block is cut off"))?;
        let body = &block[BLOCK_HEADER..block.len() - 4];
        match kind {
            INTERFACE => interfaces.push(interface(words, body).ok_or(broken("an interface is cut off"))?),
            ENHANCED_PACKET => {
                let (number, frame) = enhanced(words, body).ok_or(broken("a packet is cut off"))?;
                check_link(&interfaces, number)
                    .map_err(|link| link.unwrap_or(broken("an unknown interface")))?;
                each(frame);
            }
            SIMPLE_PACKET => {
                check_link(&interfaces, 0).map_err(|link| link.unwrap_or(broken("an unknown interface")))?;
                let snaplen = interfaces.first().map_or(0, |(_, snaplen)| *snaplen);
                each(simple(words, body, snaplen).ok_or(broken("a packet is cut off"))?);
            }
            _ => {}
        }
        at += block.len();
    }
    Ok(())
}

fn byte_order(file: &[u8], at: usize) -> Option<Words> {
    [false, true]
        .into_iter()
        .map(|swapped| Words { swapped })
        .find(|words| words.u32(file, at + BLOCK_HEADER) == Some(BYTE_ORDER))
}

fn interface(words: Words, body: &[u8]) -> Option<(u32, u32)> {
    Some((words.u16(body, 0)?.into(), words.u32(body, 4)?))
}

/// `Err(None)` if there is no such interface.
fn check_link(interfaces: &[(u32, u32)], number: u32) -> Result<(), Option<CaptureError>> {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    match interfaces.get(index) {
        Some((ETHERNET, _)) => Ok(()),
        Some((other, _)) => Err(Some(CaptureError::LinkType(*other))),
        None => Err(None),
    }
}

/// Interface, stamp, bytes captured, bytes on the wire, the frame.
fn enhanced(words: Words, body: &[u8]) -> Option<(u32, Frame<'_>)> {
    let bytes = slice(body, 20, words.u32(body, 12)?)?;
    Some((words.u32(body, 0)?, Frame { bytes, len: words.u32(body, 16)? }))
}

/// Bytes on the wire, the frame up to the interface's snapshot length; 0 means without end.
fn simple(words: Words, body: &[u8], snaplen: u32) -> Option<Frame<'_>> {
    let len = words.u32(body, 0)?;
    let captured = if snaplen == 0 { len } else { len.min(snaplen) };
    Some(Frame { bytes: slice(body, 4, captured)?, len })
}
