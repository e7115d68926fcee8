//! Which numbers of a network processes have: each has one while it is there.

use std::net::{IpAddr, Ipv4Addr};
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

    /// The number of an address; 0 is the network itself.
    fn number(&self, address: IpAddr) -> Option<u32> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        address.to_bits().checked_sub(self.base).filter(|number| *number <= self.hosts)
    }
}

/// What is known of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    New,
    Taken,
    /// It was given back then.
    Free(Instant),
}

/// A number that was given, from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    pub number: u32,
    /// Nobody had it before.
    pub is_new: bool,
}

/// The numbers of a network.
#[derive(Debug)]
pub struct Leases {
    network: Network,
    /// Of each number, from 1 on.
    states: Vec<State>,
}

impl Leases {
    #[must_use]
    pub fn new(network: Network) -> Self {
        let most = usize::try_from(network.hosts.min(PORTS_MAX)).unwrap_or(usize::MAX);
        Self { network, states: vec![State::New; most] }
    }

    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// How many there are.
    #[must_use]
    pub fn most(&self) -> u32 {
        u32::try_from(self.states.len()).unwrap_or(u32::MAX)
    }

    /// A number: one that has rested, else a new one, else the one that is free for longest.
    ///
    /// # Errors
    /// All are taken.
    pub fn take(&mut self, now: Instant) -> Result<Given, String> {
        let free = self.states.iter().enumerate().filter_map(|(index, state)| match state {
            State::Free(since) => Some((*since, index)),
            State::New | State::Taken => None,
        });
        let oldest = free.min();
        let rested = oldest.filter(|(since, _)| now.duration_since(*since) >= REST).map(|(_, index)| index);
        let new = || self.states.iter().position(|state| *state == State::New);
        let index = rested.or_else(new).or(oldest.map(|(_, index)| index));
        let index = index.ok_or_else(|| format!("all {} addresses of the pool are taken", self.most()))?;
        Ok(self.give(index))
    }

    /// The number of an address.
    ///
    /// # Errors
    /// The pool has no such address, or it is taken.
    pub fn take_address(&mut self, address: IpAddr) -> Result<Given, String> {
        let number = self.network.number(address).filter(|number| (1..=self.most()).contains(number));
        let number = number.ok_or_else(|| {
            let [first, last] = [1, self.most()].map(|number| self.network.address(number));
            format!("{address} is none of the pool's addresses, which are {first} to {last}")
        })?;
        let index = index_of(number);
        match self.states[index] {
            State::Taken => Err(format!("{address} is taken")),
            State::New | State::Free(_) => Ok(self.give(index)),
        }
    }

    fn give(&mut self, index: usize) -> Given {
        let was = std::mem::replace(&mut self.states[index], State::Taken);
        Given { number: u32::try_from(index).unwrap_or(u32::MAX) + 1, is_new: was == State::New }
    }

    /// The process that had `number` is gone.
    pub fn give_back(&mut self, number: u32, now: Instant) {
        self.states[index_of(number)] = State::Free(now);
    }

    /// A number that was just given has no port.
    pub fn take_back(&mut self, number: u32) {
        self.states[index_of(number)] = State::New;
    }
}

/// Where a number that was given is.
fn index_of(number: u32) -> usize {
    usize::try_from(number - 1).unwrap_or(usize::MAX)
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

    fn leases(network: &str) -> Leases {
        Leases::new(network.parse().expect("a network"))
    }

    fn new(number: u32) -> Result<Given, String> {
        Ok(Given { number, is_new: true })
    }

    fn again(number: u32) -> Result<Given, String> {
        Ok(Given { number, is_new: false })
    }

    #[test]
    fn a_number_is_given_again_when_it_has_rested_or_there_are_no_others() {
        let mut leases = leases("10.77.0.0/30");
        let begin = Instant::now();
        assert_eq!(leases.take(begin), new(1));
        leases.give_back(1, begin);
        assert_eq!(leases.take(begin), new(2), "the first one rests");
        assert_eq!(leases.take(begin), again(1), "there is no other");
        assert_eq!(leases.take(begin), Err("all 2 addresses of the pool are taken".to_owned()));
        leases.give_back(2, begin);
        leases.give_back(1, begin + Duration::from_secs(1));
        assert_eq!(leases.take(begin + REST), again(2), "it is free for longer");
    }

    #[test]
    fn a_number_that_has_rested_is_given_before_a_new_one() {
        let mut leases = leases("10.77.0.0/24");
        let begin = Instant::now();
        assert_eq!(leases.take(begin), new(1));
        leases.give_back(1, begin);
        assert_eq!(leases.take(begin + REST), again(1));
    }

    #[test]
    fn a_number_without_a_port_is_new_again() {
        let mut leases = leases("10.77.0.0/24");
        let begin = Instant::now();
        assert_eq!(leases.take(begin), new(1));
        leases.take_back(1);
        assert_eq!(leases.take(begin), new(1));
    }

    #[test]
    fn an_address_is_given_to_one_process_and_not_by_turns() {
        let mut leases = leases("10.77.0.0/16");
        let begin = Instant::now();
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(leases.take_address(address("10.77.0.2")), new(2));
        assert_eq!(
            leases.take_address(address("::ffff:10.77.0.2")),
            Err("::ffff:10.77.0.2 is taken".to_owned())
        );
        assert_eq!(leases.take(begin), new(1));
        assert_eq!(leases.take(begin), new(3), "2 is taken");
        leases.give_back(2, begin);
        assert_eq!(leases.take_address(address("10.77.0.2")), again(2), "it need not rest");
        for other in ["10.77.0.0", "10.77.4.1", "10.76.255.255", "10.78.0.1", "fd00::1"] {
            let refused = leases.take_address(address(other)).expect_err(other);
            assert!(refused.ends_with("which are 10.77.0.1 to 10.77.4.0"), "{refused}");
        }
    }
}
