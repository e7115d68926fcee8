//! The accesses that a key allows.

bitflags::bitflags! {
    /// Access flags of a memory region or a queue pair; the values of `ibv_access_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Access: u8 {
        /// The engine may write on behalf of the owner (receives, READ responses).
        const LOCAL_WRITE = 1;
        /// A peer may WRITE.
        const REMOTE_WRITE = 2;
        /// A peer may READ.
        const REMOTE_READ = 4;
        /// A peer may run atomics.
        const REMOTE_ATOMIC = 8;
        /// Memory windows may be bound.
        const MW_BIND = 16;
    }
}

impl Access {
    /// Remote writes and atomics need local write (protocol.md 1.11).
    #[must_use]
    pub const fn is_consistent(self) -> bool {
        let writes = Self::REMOTE_WRITE.bits() | Self::REMOTE_ATOMIC.bits();
        self.bits() & writes == 0 || self.contains(Self::LOCAL_WRITE)
    }
}
