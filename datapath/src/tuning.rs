//! Every knob of the engine, and what must hold between them.

use crate::port::Bursts;

/// Work requests that a queue pair may have read in one scheduling turn (paper section 4.2, n).
pub const WQES_PER_TURN: u32 = 8;
/// Bytes that a queue pair may send in one scheduling turn.
pub const BYTES_PER_TURN: usize = 16 * 1024;
/// Packets that a queue pair may send in one scheduling turn, so that small path MTUs cannot fill
/// the batch.
pub const PACKETS_PER_TURN: usize = 16;
/// The bytes that a packet takes of a share beside its payload: headers, ICRC, FCS and gap, about.
pub const PACKET_OVERHEAD: usize = 100;
/// Request packets in one transmit batch of the engine.
pub const TX_BATCH: usize = 32;
/// Acknowledgements in one transmit batch, beside the requests.
pub const ACK_BATCH: usize = 64;
/// A burst of more frames is traffic whose acknowledgements are not held back for what the
/// application may post: bandwidth comes before latency there.
pub const HOLD_BURST: usize = 4;
/// With fewer packets in flight, a sender that has no more to send asks for an acknowledgement each
/// time. With more, one that asked is in flight at a time: asking for each would cost a packet for
/// each.
pub const ASK_FLIGHT: u32 = 4;
/// Nanoseconds between two acknowledgements of a stream that nobody asked for, at least, where
/// acknowledgements may wait.
pub const ACK_SPACING: u64 = 4096;
/// A stream may have so many windows of packets outstanding, while a window's worth is in the
/// network: a hole that waits for its repair does not stop new data. The first copy, its resend and
/// the resend of that one take a round trip each.
pub const SEQUENCE_WINDOWS: u16 = 4;
/// Doorbells taken in one turn of the engine.
pub const DOORBELLS_PER_TURN: usize = 64;
/// Decisions of the slow path applied in one turn of the engine.
pub const COMMANDS_PER_TURN: usize = 256;
/// Timers looked at in one turn of the engine.
pub const TIMERS_PER_TURN: usize = 64;
/// Width of the buckets in which keepalives wait, as a power of two of nanoseconds: 1 ms. The wheel
/// goes round in 4.3 s.
pub const KEEPALIVE_NS_LOG2: u32 = 20;
/// Keepalives looked at in one turn of the engine.
pub const KEEPALIVES_PER_TURN: usize = 16;
/// Hosts of the link whose Ethernet address can be known at once.
pub const NEIGHBORS: usize = 256;
/// Receives of a shared queue that a queue pair may hold for messages whose turn has not come, for
/// each that it leaves to others: so it never takes the last one, and however many queue pairs do
/// so, some are left.
pub const SRQ_SHARE: u32 = 2;
/// Queue pairs that have ended whose last acknowledgement is kept, for peers that have not heard
/// it.
pub const LAST_WORDS: usize = 256;
/// Nanoseconds for which a peer that was not told of the end may send again what it did not hear
/// acknowledged: its tail probe and its first retransmissions come within that.
pub const LAST_WORD_LINGER: u64 = 20_000_000;

/// Multicast groups that queue pairs of a device can be members of.
pub const GROUPS: usize = 1024;
/// Members of a multicast group: a datagram is copied for each, within one turn.
pub const GROUP_MEMBERS: usize = 64;

/// Frames of two queue pairs of one engine to each other that can wait.
pub const LOOPBACK_FRAMES: usize = 64;

const _: () = assert!(PACKETS_PER_TURN <= TX_BATCH, "a turn fits a batch");
const _: () = assert!(ACK_BATCH >= Bursts::MOST, "each received packet can be answered at once");
