//! Queue pair numbers of a device with several engines: which engine a number belongs to.

/// Bits of a QPN.
pub(crate) const QPN_BITS: u32 = 24;
/// QPN 0 and 1 are special queue pairs: each engine has its own.
pub(crate) const FIRST_FREE_QPN: u32 = 2;

/// The number that all members of a multicast group are sent to; no queue pair has it (protocol.md
/// 1.11).
pub const MULTICAST_QPN: u32 = (1 << QPN_BITS) - 1;

/// Bits of a QPN that tell the lives of a slot apart, at least: so a slot does not have a number
/// again before 16 others.
const LIFE_BITS_MIN: u32 = 4;
/// Largest number of queue pairs of all engines of a device; each of several has its share, a power
/// of two.
pub const QPS_LIMIT: u32 = 1 << (QPN_BITS - LIFE_BITS_MIN);

/// The index of an engine among those of a device. It is in the highest bits of the QPNs that the
/// engine gives, so that every receiver of a packet knows which engine it is for.
///
/// ```
/// use datapath::qpn::EngineId;
///
/// let engines = EngineId::all(3).unwrap();
/// assert_eq!(engines[2].owner_of(0x80_0005), Some(2));
/// assert_eq!(EngineId::default().owner_of(0x80_0005), Some(0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EngineId {
    index: u8,
    count: u8,
}

/// The only one of its device.
impl Default for EngineId {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl EngineId {
    /// Engines of a device, at most.
    pub const COUNT_MAX: u8 = 8;

    /// The engines of a device with `count` engines, 1 to [`EngineId::COUNT_MAX`]; `None` for any
    /// other count.
    #[must_use]
    pub fn all(count: u8) -> Option<Vec<Self>> {
        let possible = (1..=Self::COUNT_MAX).contains(&count);
        possible.then(|| (0..count).map(|index| Self { index, count }).collect())
    }

    /// The index, from 0.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// Engines of the device.
    #[must_use]
    pub const fn count(self) -> u8 {
        self.count
    }

    /// Bits of a QPN below those that are the index.
    pub(crate) const fn free_bits(self) -> u32 {
        QPN_BITS - self.count.next_power_of_two().trailing_zeros()
    }

    /// Queue pairs of an engine at most: its share of [`QPS_LIMIT`].
    pub(crate) const fn qps_max(self) -> u32 {
        1 << (self.free_bits() - LIFE_BITS_MIN)
    }

    /// What the free bits of its QPNs are added to.
    pub(crate) const fn base(self) -> u32 {
        (self.index as u32) << self.free_bits()
    }

    /// The index of the engine that has the queue pair of this number; `None` if none can have it,
    /// or each has one.
    #[inline]
    #[must_use]
    pub fn owner_of(self, qpn: u32) -> Option<u8> {
        let index = u8::try_from(qpn >> self.free_bits()).ok()?;
        (qpn >= FIRST_FREE_QPN && index < self.count).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_engine_and_special_ones_name_none() {
        for (count, qpn, owner) in [
            (1, 0xFF_FFFE, Some(0)),
            (1, 2, Some(0)),
            (1, 1, None),
            (2, 0x7F_FFFF, Some(0)),
            (2, 0x80_0000, Some(1)),
            (2, 1, None),
            (3, 0xBF_FFFF, Some(2)),
            (3, 0xC0_0000, None),
            (8, 0xE0_0000, Some(7)),
            (8, 0x1F_FFFF, Some(0)),
            (1, 0x100_0000, None),
        ] {
            for engine in EngineId::all(count).expect("possible") {
                assert_eq!(engine.owner_of(qpn), owner, "{qpn:#x} of {count}");
            }
        }
        assert_eq!((EngineId::all(0), EngineId::all(9)), (None, None));
    }
}
