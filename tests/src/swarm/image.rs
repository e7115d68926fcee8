//! The whole target region of a flow against what may stand in it.

use super::flow::{CONSUMED, Flow, Withdrawn};
use super::message::Kind;
use super::oracle::BITS_OFF_MAX;
use simnet::Rig;
use std::collections::BTreeMap;

/// What a byte of the target may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Byte {
    /// Exactly this.
    Is(u8),
    /// This, or still 0.
    Maybe(u8),
    /// This, still 0, or as a damaged packet brought it: this byte, of this message.
    Damaged(u8, usize, usize),
    /// It belongs to WRITEs that share an address or to atomics, which are watched elsewhere.
    Shared,
}

impl Flow {
    /// Checks every byte of the target region. With `settled`, messages that were posted must be
    /// there.
    ///
    /// # Panics
    /// If a byte is what nobody may have written.
    pub fn check_image(&self, rig: &Rig, settled: bool) {
        let bytes = rig.bytes(self.target.all());
        let image = self.image(settled);
        let mut damage: BTreeMap<(usize, usize), (u32, bool)> = BTreeMap::new();
        for (offset, (&byte, &expected)) in bytes.iter().zip(&image).enumerate() {
            let good = match expected {
                Byte::Is(value) => byte == value,
                Byte::Maybe(value) => byte == value || byte == 0,
                Byte::Shared => true,
                Byte::Damaged(value, index, packet) => {
                    let (bits, is_odd) = damage.entry((index, packet)).or_insert((0, false));
                    *bits += (byte ^ value).count_ones();
                    *is_odd |= byte != value && byte != 0;
                    true
                }
            };
            assert!(good, "byte {offset} of the target is {byte:#04x}: {}", self.owner_of(offset));
        }
        // Only the packet that comes next can lie there damaged, and it is what was sent but for a
        // few bits.
        let odd: Vec<_> = damage.iter().filter(|(_, (_, is_odd))| *is_odd).collect();
        let few = odd.iter().all(|(_, (bits, _))| *bits <= BITS_OFF_MAX);
        assert!(odd.len() <= 1 && few, "packets lie there that nobody sent (message, packet, bits): {odd:?}");
        self.check_words(rig, settled);
        self.check_sinks(rig, settled);
        if let Some(Withdrawn::Target(before)) = &self.withdrawn {
            for (offset, (&byte, &then)) in bytes.iter().zip(before).enumerate() {
                let consumed = image[offset] == Byte::Is(CONSUMED);
                assert!(
                    byte == then || consumed,
                    "byte {offset} was written after its region was deregistered"
                );
            }
        }
        if let Some(Withdrawn::Window(before)) = &self.withdrawn {
            self.check_behind_window(&bytes, before);
        }
        for number in 0..self.groups.len() {
            let Some(visible) = self.visible(rig, number) else {
                assert!(!settled, "group {number} ends with a damaged packet");
                continue;
            };
            assert!(visible >= self.groups[number].seen, "group {number} fell back to {visible:?}");
            let posted = self.groups[number].members.iter().rposition(|(index, _)| *index < self.posted);
            assert!(!settled || visible == posted, "group {number} ends with {visible:?}, not {posted:?}");
        }
    }

    fn image(&self, settled: bool) -> Vec<Byte> {
        let mut image = vec![Byte::Is(0); self.target.len];
        for (index, message) in self.messages.iter().enumerate() {
            let bytes = self.bytes_of(index);
            let places = message.target.iter().flat_map(|piece| piece.offset..piece.offset + piece.len);
            if matches!(message.kind, Kind::Read(Some(_))) {
                continue;
            }
            for (at, (offset, value)) in places.zip(bytes).enumerate() {
                image[offset] = if message.group.is_some() || message.kind.is_atomic() {
                    Byte::Shared
                } else if message.kind.has_response() {
                    Byte::Is(value)
                } else if index < self.arrived {
                    Byte::Is(CONSUMED)
                } else if index >= self.posted {
                    Byte::Is(0)
                } else if settled {
                    Byte::Is(value)
                } else if let Some(packet) = self.damaged_packet(index, at) {
                    Byte::Damaged(value, index, packet)
                } else {
                    Byte::Maybe(value)
                };
            }
        }
        image
    }

    fn owner_of(&self, offset: usize) -> String {
        let owns = |piece: &super::message::Piece| (piece.offset..piece.offset + piece.len).contains(&offset);
        let owner = self.messages.iter().position(|message| message.target.iter().any(owns));
        owner.map_or_else(
            || "no message writes there".to_owned(),
            |index| format!("message {index} of {} arrived, {:?}", self.arrived, self.messages[index]),
        )
    }
}
