//! Which numbers of a network processes have: each has one while it is there.

use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Numbers that are given at most: each is a port.
const PORTS_MAX: u32 = 1024;
/// For how long a number that was given back is not given again, while there are others: packets
/// for whoever had it may be on their way.
const REST: Duration = Duration::from_secs(10);

/// A network, as in `10.77.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    base: u32,
    /// Addresses of hosts in it.
    hosts: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("`{text}` is no network as in 10.77.0.0/16, with 8 to 30 bits before its hosts");
        let (address, bits) = text.split_once('/').ok_or_else(form)?;
        let base = address.parse::<Ipv4Addr>().map_err(|_| form())?.to_bits();
        let bits = bits.parse::<u32>().ok().filter(|bits| (8..=30).contains(bits)).ok_or_else(form)?;
        let hosts = u32::MAX >> bits;
        if base & hosts != 0 {
            return Err(format!("{text}: {} is the network's address", Ipv4Addr::from_bits(base & !hosts)));
        }
        // The last one is that of broadcasts.
        Ok(Self { base, hosts: hosts - 1 })
    }
}

impl Network {
    /// The address of a number.
    #[must_use]
    pub const fn address(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + number)
    }
}

/// The numbers of a network.
#[derive(Debug)]
pub struct Leases {
    most: u32,
    /// Since when each that was ever given is free, from number 1 on; `None`: it is taken.
    free_since: Vec<Option<Instant>>,
}

impl Leases {
    #[must_use]
    pub fn new(network: &Network) -> Self {
        Self { most: network.hosts.min(PORTS_MAX), free_since: Vec::new() }
    }

    /// How many there are.
    #[must_use]
    pub const fn most(&self) -> u32 {
        self.most
    }

    /// A number, from 1 on, and whether nobody had it before.
    pub fn take(&mut self, now: Instant) -> Option<(u32, bool)> {
        let free = self.free_since.iter().enumerate();
        let oldest = free.filter_map(|(index, since)| since.map(|since| (since, index))).min();
        let given = u32::try_from(self.free_since.len()).unwrap_or(u32::MAX);
        let index = match oldest {
            Some((since, index)) if given == self.most || now.duration_since(since) >= REST => index,
            _ if given < self.most => {
                self.free_since.push(None);
                return Some((given + 1, true));
            }
            _ => return None,
        };
        self.free_since[index] = None;
        Some((u32::try_from(index).unwrap_or(u32::MAX) + 1, false))
    }

    /// Who had `number` is gone.
    pub fn give_back(&mut self, number: u32, now: Instant) {
        let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        if let Some(since) = index.and_then(|index| self.free_since.get_mut(index)) {
            *since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_hosts_and_their_addresses() {
        let network: Network = "10.77.0.0/16".parse().expect("a network");
        assert_eq!((network.hosts, network.address(258)), (65_534, Ipv4Addr::new(10, 77, 1, 2)));
        assert_eq!("10.0.0.0/30".parse::<Network>().map(|network| network.hosts), Ok(2));
        for (text, said) in [
            ("10.77.0.0", "as in 10.77.0.0/16"),
            ("10.77.0.0/31", "8 to 30 bits"),
            ("fd00::/64", "is no network"),
            ("10.77.3.1/16", "10.77.0.0 is the network's address"),
        ] {
            let error = text.parse::<Network>().expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_number_is_given_again_when_it_has_rested_or_there_are_no_others() {
        let network: Network = "10.77.0.0/30".parse().expect("a network");
        let mut leases = Leases::new(&network);
        let begin = Instant::now();
        assert_eq!(leases.take(begin), Some((1, true)));
        leases.give_back(1, begin);
        assert_eq!(leases.take(begin), Some((2, true)), "the first one rests");
        assert_eq!(leases.take(begin), Some((1, false)), "there is no other");
        assert_eq!(leases.take(begin), None);
        leases.give_back(2, begin);
        leases.give_back(1, begin + Duration::from_secs(1));
        assert_eq!(leases.take(begin + REST), Some((2, false)), "it is free for longer");
        leases.give_back(9, begin);
        assert_eq!(leases.most(), 2);
    }

    #[test]
    fn a_number_that_has_rested_is_given_before_a_new_one() {
        let network: Network = "10.77.0.0/24".parse().expect("a network");
        let mut leases = Leases::new(&network);
        let begin = Instant::now();
        assert_eq!(leases.take(begin), Some((1, true)));
        leases.give_back(1, begin);
        assert_eq!(leases.take(begin + REST), Some((1, false)));
    }
}
