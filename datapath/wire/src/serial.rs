//! Serial numbers that wrap: PSN, MSN, SSN (protocol.md 1.6).

/// A `BITS`-wide serial number. It has no total order: compare two with [`Serial::distance_from`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Serial<const BITS: u32>(u32);

/// Packet sequence number, 24 bits.
pub type Psn = Serial<24>;
/// Number of a send-queue message as META carries it, 16 bits (protocol.md 2.2).
pub type Msn = Serial<16>;
/// Number of a receive-consuming message of one direction, 24 bits (protocol.md 2.2).
pub type Ssn = Serial<24>;

impl<const BITS: u32> Serial<BITS> {
    /// Largest value on the wire.
    pub const MASK: u32 = (1 << BITS) - 1;

    /// Takes the low `BITS` bits of `value`.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The value on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` steps further on.
    #[must_use]
    pub const fn add(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The number `n` steps back.
    #[must_use]
    pub const fn sub(self, n: u32) -> Self {
        Self::new(self.0.wrapping_sub(n))
    }

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// The number before.
    #[must_use]
    pub const fn prev(self) -> Self {
        self.sub(1)
    }

    /// Signed number of steps from `origin` to `self`, in `[-2^(BITS-1), 2^(BITS-1))`.
    #[must_use]
    pub const fn distance_from(self, origin: Self) -> i32 {
        let shift = 32 - BITS;
        (self.0.wrapping_sub(origin.0) << shift).cast_signed() >> shift
    }

    /// True if `self` comes strictly before `other`.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Unsigned number of steps forward from `origin` to `self`, modulo `2^BITS`.
    #[must_use]
    pub const fn steps_from(self, origin: Self) -> u32 {
        self.0.wrapping_sub(origin.0) & Self::MASK
    }
}

impl<const BITS: u32> core::fmt::Debug for Serial<BITS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl<const BITS: u32> core::fmt::Display for Serial<BITS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}
