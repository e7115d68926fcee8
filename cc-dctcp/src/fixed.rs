//! No congestion control.

/// A window that never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed {
    window_bytes: u32,
}

impl Fixed {
    /// A window of `window_bytes` bytes, at least 1.
    #[must_use]
    pub fn new(window_bytes: u32) -> Self {
        Self { window_bytes: window_bytes.max(1) }
    }

    /// The window, in bytes.
    #[must_use]
    pub const fn cwnd_bytes(&self) -> u32 {
        self.window_bytes
    }
}
