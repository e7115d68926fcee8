//! What a queue pair may send in one turn, and how its turn ends.

/// What a queue pair may send in one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// Work requests that may be read from the send queue.
    pub wqes: u32,
    /// Bytes of payload.
    pub bytes: usize,
    /// Packets, so that small messages leave room for others in the transmit batch.
    pub packets: usize,
}

impl Grant {
    /// Whether it covers one more packet, however long.
    #[inline]
    pub const fn has_room(&self, pmtu: u16) -> bool {
        self.packets > 0 && self.bytes >= pmtu as usize
    }
}

/// Why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransmitEnd {
    /// The queue pair sent what it may; true if it is still ready.
    Done { ready: bool },
    /// The port has no slot.
    PortFull,
}
