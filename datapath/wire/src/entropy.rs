//! The UDP source port as the flow's entropy (protocol.md 1.8).

/// The UDP source port of an IPv6 flow label (20 bits), in 0xC000..=0xFFFF.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "both halves are 14 bits wide")]
pub const fn sport_from_flow_label(flow_label: u32) -> u16 {
    let low = flow_label & 0x3FFF;
    let high = (flow_label & 0xFC000) >> 14;
    (low ^ high) as u16 | 0xC000
}

/// The flow label of a connection that was given none: the product of both QPNs, folded to 20 bits.
/// Both ends find the same one.
#[inline]
#[must_use]
pub const fn flow_label_from_qpns(lqpn: u32, rqpn: u32) -> u32 {
    let product = lqpn as u64 * rqpn as u64;
    let folded = product ^ product >> 20;
    let folded = folded ^ folded >> 40;
    (folded & 0xF_FFFF) as u32
}
