//! The frames: an Ethernet header of our own type, and a payload.

/// Bytes of an Ethernet header.
pub const HEADER: usize = 14;
/// The shortest frame, without its FCS.
pub const FRAME_MIN: usize = 60;
/// For local experiments (IEEE 802).
pub const ETHERTYPE: [u8; 2] = [0x88, 0xB5];

/// Returns `true` if a frame is the peer's, and not the operating system's.
pub fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..HEADER) == Some(&ETHERTYPE)
}
