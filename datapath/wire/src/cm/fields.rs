//! Fields at fixed places of a message, big-endian.

/// `N` bytes from `at` on; all callers name constants that fit.
pub(super) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|index| bytes[at + index])
}

/// Writes `value` from `at` on.
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(get(bytes, at))
}

/// The 24 bits from `at` on, and the byte behind them.
pub(super) fn get_u24(bytes: &[u8], at: usize) -> (u32, u8) {
    let [a, b, c, low] = get(bytes, at);
    (u32::from_be_bytes([0, a, b, c]), low)
}

/// Writes 24 bits from `at` on, and the byte behind them.
pub(super) fn put_u24(bytes: &mut [u8], at: usize, value: u32, low: u8) {
    let [_, a, b, c] = value.to_be_bytes();
    put(bytes, at, [a, b, c, low]);
}
