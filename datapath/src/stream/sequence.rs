//! How far a stream runs ahead of a hole (protocol.md 2.4, gates).

use crate::tuning::SEQUENCE_WINDOWS;

/// Largest sequence window, in packets: META must stay unambiguous (protocol.md 2.2).
pub const SEQUENCE_LIMIT: u16 = 1 << 14;

/// The sequence window of a stream whose window is `window` packets: how many may be outstanding,
/// from the oldest that is not acknowledged, and how many its receiver takes ahead.
/// [`SEQUENCE_WINDOWS`] windows, 2^14 packets at most, or the window itself.
#[must_use]
pub const fn sequence_window(window: u16) -> u16 {
    let wanted = window.saturating_mul(SEQUENCE_WINDOWS);
    if wanted < SEQUENCE_LIMIT { wanted } else { SEQUENCE_LIMIT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_windows_as_far_as_the_wire_can_tell_them_apart() {
        let sizes = [1, 64, 512, 4_095, 4_096, 4_097, SEQUENCE_LIMIT, u16::MAX];
        let sequences =
            [4, 256, 2_048, 16_380, SEQUENCE_LIMIT, SEQUENCE_LIMIT, SEQUENCE_LIMIT, SEQUENCE_LIMIT];
        assert_eq!(sizes.map(sequence_window), sequences);
    }
}
