//! What becomes of frames on their way.

/// These bits of a byte are others.
pub fn damage(frame: &mut [u8], at: usize, bits: u8) {
    let at = at % frame.len();
    frame[at] ^= bits;
}

/// Congestion experienced, as a switch says it: with the checksum that goes with it.
pub fn mark(frame: &mut [u8]) {
    frame[15] |= 3;
    sum(frame);
}

/// Four bytes of payload fewer, and the lengths, the checksum and the ICRC that go with that.
pub fn shorten(frame: &mut Vec<u8>) {
    frame.truncate(frame.len() - 4);
    for length in [16..18, 38..40] {
        let [high, low] = frame[length.clone()] else { unreachable!("two bytes") };
        frame[length].copy_from_slice(&(u16::from_be_bytes([high, low]) - 4).to_be_bytes());
    }
    sum(frame);
    wire::icrc::seal(&mut frame[14..]);
}

/// The checksum of the IP header.
fn sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let folded = (folded & 0xFFFF) + (folded >> 16);
    let [.., high, low] = (!folded).to_be_bytes();
    frame[24..26].copy_from_slice(&[high, low]);
}
