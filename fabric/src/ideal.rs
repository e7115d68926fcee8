//! What a flow takes in an empty network: what its slowdown is counted against.

use crate::clock::Ps;
use crate::host::HostConfig;
use crate::packet::WIRE_OVERHEAD;
use crate::topology::FatTree;

/// Bytes of a data packet's frame beside its payload: Ethernet, IPv4, UDP, BTH, RETH, META, ICRC
/// (protocol.md 1.2).
const DATA_HEADERS: u64 = 78;
/// Bytes of an acknowledgement's frame (protocol.md 1.3).
const ACKNOWLEDGEMENT: u64 = 74;

/// The time from the beginning of a flow of `bytes` over `links` links (2, 4 or 6) until its sender
/// has the acknowledgement of its last packet, if there is no other flow, and both hosts look at
/// packets at once.
#[must_use]
pub fn completion(tree: &FatTree, host: &HostConfig, links: u32, bytes: u32) -> Ps {
    let mtu = u64::from(host.mtu.bytes());
    let packets = u64::from(bytes.max(1)).div_ceil(mtu);
    let frame = |payload: u64| DATA_HEADERS + payload.next_multiple_of(4);
    let last = frame(u64::from(bytes) - (packets - 1) * mtu);
    let full = (packets > 1).then_some(frame(mtu));
    // All full packets leave back to back. The last one may catch up with the one before it.
    let mut ahead = full.map_or(0, |full| (packets - 2) * time(tree.host_ps_per_byte, full));
    let mut arrived = 0;
    for link in 0..links {
        let rate = rate(tree, links, link);
        if let Some(full) = full {
            ahead += time(rate, full);
        }
        arrived = if link == 0 { ahead } else { arrived.max(ahead) } + time(rate, last);
        ahead += tree.delay.0;
        arrived += tree.delay.0;
    }
    let back: u64 =
        (0..links).map(|link| time(rate(tree, links, link), ACKNOWLEDGEMENT) + tree.delay.0).sum();
    Ps(arrived + back)
}

/// Picoseconds a byte of the path's links: those to the hosts are the first and the last.
const fn rate(tree: &FatTree, links: u32, link: u32) -> u32 {
    if link == 0 || link == links - 1 { tree.host_ps_per_byte } else { tree.fabric_ps_per_byte }
}

const fn time(ps_per_byte: u32, frame: u64) -> u64 {
    (frame + WIRE_OVERHEAD as u64) * ps_per_byte as u64
}
