//! What becomes of frames on their way.

/// These bits of a byte are others.
pub fn damage(frame: &mut [u8], at: usize, bits: u8) {
    let at = at % frame.len();
    frame[at] ^= bits;
}

/// Congestion experienced, as a switch says it: with the checksum that goes with it.
pub fn mark(frame: &mut [u8]) {
    frame[15] |= 3;
    frame[24..26].fill(0);
    let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let folded = (folded & 0xFFFF) + (folded >> 16);
    let [.., high, low] = (!folded).to_be_bytes();
    frame[24..26].copy_from_slice(&[high, low]);
}
