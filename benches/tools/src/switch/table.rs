//! Which port an Ethernet address was last seen at.

use std::collections::HashMap;
use verbs_api::Time;

/// Addresses that are remembered at most; frames to further ones go to all ports.
const ADDRESSES_MAX: usize = 4096;
/// An address that was silent for so long is forgotten when room is needed, and no longer believed:
/// 300 s, as IEEE 802.1D has it.
const AGE_MAX_NS: u64 = 300_000_000_000;

/// Between two walks through a full table for addresses to forget.
const SWEEP_INTERVAL_NS: u64 = 1_000_000_000;

/// An Ethernet address.
pub type Mac = [u8; 6];

struct Seen {
    port: usize,
    at: Time,
}

/// A learning table.
#[derive(Default)]
pub struct MacTable {
    seen: HashMap<Mac, Seen>,
    /// When a full table may be looked through next.
    sweep_at: Time,
}

impl MacTable {
    /// A frame of `mac` came in at `port`.
    pub fn learn(&mut self, mac: Mac, port: usize, now: Time) {
        if let Some(seen) = self.seen.get_mut(&mac) {
            *seen = Seen { port, at: now };
            return;
        }
        if self.seen.len() >= ADDRESSES_MAX && now >= self.sweep_at {
            self.sweep_at = now.after(SWEEP_INTERVAL_NS);
            self.seen.retain(|_, seen| now.since(seen.at) <= AGE_MAX_NS);
        }
        if self.seen.len() < ADDRESSES_MAX {
            self.seen.insert(mac, Seen { port, at: now });
        }
    }

    /// The port that leads to `mac`.
    #[must_use]
    pub fn port_of(&self, mac: Mac, now: Time) -> Option<usize> {
        let seen = self.seen.get(&mac).filter(|seen| now.since(seen.at) <= AGE_MAX_NS)?;
        Some(seen.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mac(number: u16) -> Mac {
        let [high, low] = number.to_be_bytes();
        [2, 0, 0, 0, high, low]
    }

    #[test]
    fn an_address_is_where_it_was_last_seen() {
        let mut table = MacTable::default();
        assert_eq!(table.port_of(mac(1), Time(0)), None);
        table.learn(mac(1), 3, Time(5));
        assert_eq!(table.port_of(mac(1), Time(6)), Some(3));
        table.learn(mac(1), 1, Time(7));
        assert_eq!(table.port_of(mac(1), Time(8)), Some(1));
    }

    #[test]
    fn what_is_silent_for_long_is_not_believed() {
        let mut table = MacTable::default();
        table.learn(mac(1), 0, Time(0));
        assert_eq!(table.port_of(mac(1), Time(AGE_MAX_NS)), Some(0));
        assert_eq!(table.port_of(mac(1), Time(AGE_MAX_NS + 1)), None);
    }

    #[test]
    fn a_full_table_keeps_who_speaks_and_makes_room_of_who_does_not() {
        let mut table = MacTable::default();
        for number in 0..4096 {
            table.learn(mac(number), 1, Time(0));
        }
        table.learn(mac(5000), 2, Time(1));
        assert_eq!(table.port_of(mac(5000), Time(1)), None, "it is full");
        table.learn(mac(7), 1, Time(AGE_MAX_NS));
        table.learn(mac(5000), 2, Time(AGE_MAX_NS + 1));
        assert_eq!(table.port_of(mac(5000), Time(AGE_MAX_NS + 1)), Some(2));
        assert_eq!(table.port_of(mac(7), Time(AGE_MAX_NS + 1)), Some(1));
        assert_eq!(table.seen.len(), 2);
    }

    /// A flood of forged addresses costs a look at each frame, and not a walk through the table.
    #[test]
    fn a_full_table_is_looked_through_once_a_second() {
        let mut table = MacTable::default();
        for number in 0..4096 {
            table.learn(mac(number), 1, Time(u64::from(number)));
        }
        // The first address is too old, and makes room; the second one is a moment later.
        table.learn(mac(5000), 2, Time(AGE_MAX_NS + 1));
        assert_eq!(table.port_of(mac(5000), Time(AGE_MAX_NS + 1)), Some(2));
        table.learn(mac(5001), 2, Time(AGE_MAX_NS + 2));
        assert_eq!(table.port_of(mac(5001), Time(AGE_MAX_NS + 2)), None, "it was just looked through");
        table.learn(mac(5001), 2, Time(AGE_MAX_NS + 1 + SWEEP_INTERVAL_NS));
        assert_eq!(table.port_of(mac(5001), Time(AGE_MAX_NS + 1 + SWEEP_INTERVAL_NS)), Some(2));
    }
}
