//! What holds of a queue pair as a whole, and is asked for often.

bitflags::bitflags! {
    /// State and attributes of a queue pair.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct QpFlags: u8 {
        /// Has rung its doorbell and not become idle since.
        const ACTIVE = 1;
        /// Waits for the end of an RNR delay: no request is sent.
        const RNR_WAIT = 2;
        /// The next request waits until a READ or atomic completes, or until WRITEs that it
        /// overlaps are acknowledged.
        const READ_WAIT = 4;
        /// Plain: has gone back, and sends again what it has sent before.
        const REWOUND = 8;
        /// WRITEs wait for those before them that they overlap: an attribute, asked for with each
        /// request.
        const ORDERED_OVERLAP = 16;
        /// Nothing of the peer's is placed out of order, or before it was verified: an attribute,
        /// asked for with each packet.
        const STRICT_PLACEMENT = 32;
        /// Its receives are taken from a shared queue: for who looks ahead, so that the other part
        /// need not be there.
        const SHARES_RECEIVES = 64;
        /// One of its send requests is sampled.
        const WATCHED = 128;
    }
}

impl QpFlags {
    /// What one life of the queue pair leaves behind: nothing of it is true of the next.
    pub const LIFE: Self = Self::RNR_WAIT.union(Self::READ_WAIT).union(Self::REWOUND);
}
