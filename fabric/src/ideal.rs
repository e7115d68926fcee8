//! What a flow takes in an empty network: what its slowdown is counted against.

use crate::clock::Ps;
use crate::packet::WIRE_OVERHEAD;
use crate::topology::Hop;

/// Bytes of the frames that carry a flow, without preamble, FCS and gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// A data packet's beside its payload.
    pub data_headers: u32,
    /// An acknowledgement's.
    pub acknowledgement: u64,
}

impl Frames {
    /// The engine's (protocol.md 1.2 and 1.3): Ethernet, IPv4, UDP, BTH, RETH, META, ICRC.
    pub const SRNIC: Self = Self { data_headers: 78, acknowledgement: 74 };

    /// Bytes of a data packet's frame.
    #[must_use]
    pub const fn data(&self, payload: u32) -> u32 {
        self.data_headers + payload.next_multiple_of(4)
    }
}

/// The time from the beginning of a flow of `bytes` by `path` until its sender has the
/// acknowledgement of its last packet, if there is no other flow, and both hosts look at packets at
/// once. Full packets have `mtu` bytes of payload.
#[must_use]
pub fn completion(path: &[Hop], frames: &Frames, mtu: u32, bytes: u32) -> Ps {
    let packets = bytes.max(1).div_ceil(mtu);
    let last = u64::from(frames.data(bytes - (packets - 1) * mtu));
    let full = (packets > 1).then_some(frames.data(mtu)).map(u64::from);
    // The slowest link so far sets the distance of two full packets, and the last one may catch up
    // with the one before it.
    let (mut ahead, mut arrived, mut slowest) = (0, 0, 0);
    for (link, hop) in path.iter().enumerate() {
        if let Some(full) = full {
            let time = time(hop.ps_per_byte, full);
            let wait = u64::from(packets - 2) * time.saturating_sub(slowest);
            slowest = slowest.max(time);
            ahead += wait + time;
        }
        arrived = if link == 0 { ahead } else { arrived.max(ahead) } + time(hop.ps_per_byte, last);
        ahead += hop.delay.0;
        arrived += hop.delay.0;
    }
    let back: u64 = path.iter().map(|hop| time(hop.ps_per_byte, frames.acknowledgement) + hop.delay.0).sum();
    Ps(arrived + back)
}

const fn time(ps_per_byte: u32, frame: u64) -> u64 {
    (frame + WIRE_OVERHEAD as u64) * ps_per_byte as u64
}
