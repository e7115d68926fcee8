//! pcapng files: blocks in sections, each section in a byte order of its own.

use super::{CaptureError, ETHERNET, Frame, NS_PER_S, Words, slice};

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// In a section's header, in its byte order.
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// Type and length before a block's body, the length once more behind it.
const BLOCK_HEADER: usize = 8;
const BLOCK_MIN: u32 = 12;
/// Bytes of an interface's description before its options.
const INTERFACE_HEADER: usize = 8;
/// The option of an interface that says the unit of its stamps: 10^-n s, or 2^-n s with the upper
/// bit.
const TIMESTAMP_UNIT: u16 = 9;
const BINARY_UNIT: u8 = 0x80;

/// What a section says of an interface.
#[derive(Clone, Copy)]
struct Interface {
    link_type: u32,
    snaplen: u32,
    /// Stamps in a second; 0 if they cannot be counted.
    ticks_per_s: u64,
}

/// Returns `true` if the file begins with a section.
pub fn is_ng(file: &[u8]) -> bool {
    Words { swapped: false }.u32(file, 0) == Some(SECTION)
}

/// Calls `each` for every frame.
pub fn read<'a>(file: &'a [u8], each: &mut impl FnMut(Frame<'a>)) -> Result<(), CaptureError> {
    let mut words = Words { swapped: false };
    let mut interfaces: Vec<Interface> = Vec::new();
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
                let (number, ticks, frame) = enhanced(words, body).ok_or(broken("a packet is cut off"))?;
                let from = check_link(&interfaces, number)
                    .map_err(|link| link.unwrap_or(broken("an unknown interface")))?;
                each(Frame { at_ns: nanoseconds(ticks, from.ticks_per_s), ..frame });
            }
            SIMPLE_PACKET => {
                let from = check_link(&interfaces, 0)
                    .map_err(|link| link.unwrap_or(broken("an unknown interface")))?;
                each(simple(words, body, from.snaplen).ok_or(broken("a packet is cut off"))?);
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

fn interface(words: Words, body: &[u8]) -> Option<Interface> {
    let ticks_per_s = body.get(INTERFACE_HEADER..).and_then(|options| unit(words, options));
    Some(Interface {
        link_type: words.u16(body, 0)?.into(),
        snaplen: words.u32(body, 4)?,
        ticks_per_s: ticks_per_s.unwrap_or(1_000_000),
    })
}

/// Stamps in a second, if an option says it.
fn unit(words: Words, options: &[u8]) -> Option<u64> {
    let mut at = 0;
    loop {
        let (code, len) = (words.u16(options, at)?, words.u16(options, at + 2)?);
        let value = *options.get(at + 4)?;
        if code == TIMESTAMP_UNIT && len == 1 {
            let base: u64 = if value & BINARY_UNIT == 0 { 10 } else { 2 };
            return Some(base.checked_pow(u32::from(value & !BINARY_UNIT)).unwrap_or(0));
        }
        at += 4 + usize::from(len).next_multiple_of(4);
    }
}

fn nanoseconds(ticks: u64, ticks_per_s: u64) -> Option<u64> {
    let ns = u128::from(ticks) * u128::from(NS_PER_S);
    u64::try_from(ns.checked_div(ticks_per_s.into())?).ok()
}

/// The interface of a number, if it is one of Ethernet; `Err(None)` if there is no such interface.
fn check_link(interfaces: &[Interface], number: u32) -> Result<Interface, Option<CaptureError>> {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    match interfaces.get(index) {
        Some(found) if found.link_type == ETHERNET => Ok(*found),
        Some(found) => Err(Some(CaptureError::LinkType(found.link_type))),
        None => Err(None),
    }
}

/// Interface, stamp in two halves, bytes captured, bytes on the wire, the frame. The stamp is in
/// units of the interface.
fn enhanced(words: Words, body: &[u8]) -> Option<(u32, u64, Frame<'_>)> {
    let bytes = slice(body, 20, words.u32(body, 12)?)?;
    let ticks = u64::from(words.u32(body, 4)?) << 32 | u64::from(words.u32(body, 8)?);
    Some((words.u32(body, 0)?, ticks, Frame { bytes, len: words.u32(body, 16)?, at_ns: None }))
}

/// Bytes on the wire, the frame up to the interface's snapshot length; 0 means without end.
fn simple(words: Words, body: &[u8], snaplen: u32) -> Option<Frame<'_>> {
    let len = words.u32(body, 0)?;
    let captured = if snaplen == 0 { len } else { len.min(snaplen) };
    Some(Frame { bytes: slice(body, 4, captured)?, len, at_ns: None })
}
