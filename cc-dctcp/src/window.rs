//! A window that grows by one PMTU for so many acknowledged bytes.

/// A window in bytes, between one PMTU and the largest, and the bytes acknowledged towards its
/// growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    bytes: u32,
    towards: u32,
}

impl Window {
    pub const fn new(bytes: u32) -> Self {
        Self { bytes, towards: 0 }
    }

    #[inline]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Takes `fraction` (Q17: 131,072 is 1) off, down to `min`; growth starts afresh.
    pub fn cut(&mut self, fraction: u32, min: u32) {
        let reduction = (u64::from(self.bytes) * u64::from(fraction)) >> 17;
        let reduction = u32::try_from(reduction).unwrap_or(u32::MAX);
        self.bytes = self.bytes.saturating_sub(reduction).max(min);
        self.towards = 0;
    }

    /// Goes back to `bytes`, if it is smaller.
    pub fn restore(&mut self, bytes: u32) {
        self.bytes = self.bytes.max(bytes);
    }

    /// Adds `mtu` each time that `step(window)` more bytes are acknowledged; what is over counts
    /// towards the next.
    pub fn grow(&mut self, acked_bytes: u32, mtu: u32, max: u32, step: impl Fn(u32) -> u32) {
        self.towards = self.towards.saturating_add(acked_bytes);
        while self.bytes < max {
            let step = step(self.bytes);
            if self.towards < step {
                return;
            }
            self.towards -= step;
            self.bytes = self.bytes.saturating_add(mtu).min(max);
        }
        self.towards = self.towards.min(max);
    }
}
