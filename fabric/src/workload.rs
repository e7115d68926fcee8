//! Flows: how long they are, when they begin, and between whom.

mod sizes;

pub use sizes::{Sizes, SizesError};

use crate::clock::Ps;
use crate::topology::Topology;
use core::iter::Peekable;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// When it begins.
    pub at: Ps,
    /// Where it goes.
    pub to: u32,
    /// Bytes.
    pub bytes: u32,
    /// Number of the workload that it is of.
    pub workload: u8,
}

/// The flows that one host begins, in the order in which it begins them.
pub type Arrivals = Box<dyn Iterator<Item = Flow> + Send>;

/// What hosts send.
#[derive(Clone, PartialEq, Debug)]
pub enum Workload {
    /// Every host sends at `load` (0 to 1) of its link: a Poisson process, to every other host
    /// equally often.
    Poisson {
        /// How long flows are.
        sizes: Sizes,
        /// Part of a host's link that its flows take.
        load: f64,
    },
    /// Again and again `senders` hosts, drawn at random, send `bytes` to one host at once.
    Incast {
        /// The host that they send to.
        to: u32,
        /// How many send.
        senders: u32,
        /// Bytes of each flow.
        bytes: u32,
        /// Time from one to the next; the first is half of it after the beginning.
        every: Ps,
    },
    /// Every host sends `bytes` to one other, at the beginning, and every host is sent to once.
    Permutation {
        /// Bytes of each flow.
        bytes: u32,
    },
    /// Every host sends `bytes` to every other, at the beginning.
    AllToAll {
        /// Bytes of each flow.
        bytes: u32,
    },
    /// These flows, each with the host that begins it.
    Flows(Vec<(u32, Flow)>),
}

/// Why a workload does not fit its network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A host that does not exist.
    #[error("host {0} does not exist: the network has {1} hosts, numbered from 0")]
    Host(u32, u32),
    /// A host sends to itself.
    #[error("host {0} would send to itself; name another receiver")]
    Itself(u32),
    /// An incast without a sender, or with more than there are.
    #[error("senders of an incast must be from 1 to {1}, the number of the other hosts, not {0}")]
    Senders(u32, u32),
    /// Nobody to send to.
    #[error("a workload needs two hosts; the network has {0}")]
    Alone(u32),
    /// A load that is none.
    #[error("a load must be above 0 and at most 1")]
    Load,
    /// A time that is none.
    #[error("the time from one incast to the next must not be 0")]
    Every,
    /// A flow that would never begin.
    #[error(
        "{what} begins at {at_us} us, after the {time_us} us in which flows begin: raise time_us or --time"
    )]
    Late {
        /// Which flow.
        what: String,
        /// When, in microseconds.
        at_us: u64,
        /// The time in which flows begin, in microseconds.
        time_us: u64,
    },
    /// Nothing would be measured.
    #[error(
        "the warm-up of {warm_up_us} us must end before the {time_us} us in which flows begin: a shorter one is \
         warm_up_us or --warm-up, a longer time time_us or --time"
    )]
    WarmUp {
        /// The warm-up, in microseconds.
        warm_up_us: u64,
        /// The time in which flows begin, in microseconds.
        time_us: u64,
    },
}

impl Workload {
    /// Says whether it fits a network of so many hosts.
    ///
    /// # Errors
    /// [`WorkloadError`].
    pub fn check(&self, hosts: u32) -> Result<(), WorkloadError> {
        let exists = |host| if host < hosts { Ok(()) } else { Err(WorkloadError::Host(host, hosts)) };
        match self {
            _ if hosts < 2 => Err(WorkloadError::Alone(hosts)),
            Self::Poisson { load, .. } if !(*load > 0.0 && *load <= 1.0) => Err(WorkloadError::Load),
            Self::Incast { every: Ps(0), .. } => Err(WorkloadError::Every),
            Self::Incast { senders, .. } if !(1..hosts).contains(senders) => {
                Err(WorkloadError::Senders(*senders, hosts - 1))
            }
            Self::Incast { to, .. } => exists(*to),
            Self::Flows(flows) => flows.iter().try_for_each(|(from, flow)| {
                exists(*from).and(exists(flow.to))?;
                if *from == flow.to { Err(WorkloadError::Itself(*from)) } else { Ok(()) }
            }),
            _ => Ok(()),
        }
    }

    /// Whether all its flows begin with the run.
    #[must_use]
    pub fn is_at_once(&self) -> bool {
        match self {
            Self::Permutation { .. } | Self::AllToAll { .. } => true,
            Self::Flows(flows) => flows.iter().all(|(_, flow)| flow.at == Ps(0)),
            Self::Poisson { .. } | Self::Incast { .. } => false,
        }
    }

    /// A flow that begins only when the run's `time` is over, though somebody asked for it.
    pub(crate) fn late(&self, time: Ps) -> Option<(String, Ps)> {
        match self {
            Self::Flows(flows) => {
                let late = flows.iter().find(|(_, flow)| flow.at >= time);
                late.map(|(from, flow)| (format!("a flow of host {from}"), flow.at))
            }
            Self::Incast { every, .. } => {
                let first = Ps(every.0 / 2);
                (first >= time).then(|| ("the first incast, after half of its every_us,".to_owned(), first))
            }
            _ => None,
        }
    }

    /// Bytes of its largest flow.
    #[must_use]
    pub fn largest(&self) -> u32 {
        match self {
            Self::Poisson { sizes, .. } => sizes.largest(),
            Self::Incast { bytes, .. } | Self::Permutation { bytes } | Self::AllToAll { bytes } => *bytes,
            Self::Flows(flows) => flows.iter().map(|(_, flow)| flow.bytes).max().unwrap_or(1),
        }
    }

    /// The flows of one host that begin before `until`. It is workload `number` of its run.
    fn arrivals(&self, (number, seed): (u8, u64), topology: &Topology, host: u32, until: Ps) -> Arrivals {
        let hosts = topology.hosts();
        let at_once = move |to, bytes| Flow { at: Ps(0), to, bytes, workload: number };
        // Workloads beside each other differ; the first one's flows are those of its seed alone.
        let seed = seed ^ u64::from(number) << 56;
        match self {
            Self::Poisson { sizes, load } => {
                let rate = topology.host_ps_per_byte(host);
                let flows = Poisson::new(seed, (host, hosts), sizes.clone(), *load, rate);
                Box::new(
                    flows
                        .map(move |flow| Flow { workload: number, ..flow })
                        .take_while(move |flow| flow.at < until),
                )
            }
            Self::Incast { to, senders, bytes, every } => {
                let (to, senders, bytes, every) = (*to, *senders, *bytes, *every);
                let times = (0..).map(move |round: u64| (round, Ps(every.0 / 2 + every.0 * round)));
                let own = times.take_while(move |(_, at)| *at < until);
                let own = own.filter(move |(round, _)| sends(seed ^ round << 20, (hosts, to, senders), host));
                Box::new(own.map(move |(_, at)| Flow { at, to, bytes, workload: number }))
            }
            Self::Permutation { bytes } => {
                let flow = at_once(shuffled_ring(seed, hosts, host), *bytes);
                Box::new(core::iter::once(flow))
            }
            Self::AllToAll { bytes } => {
                // Not all begin with the same one.
                let bytes = *bytes;
                Box::new((1..hosts).map(move |step| at_once((host + step) % hosts, bytes)))
            }
            Self::Flows(flows) => {
                let mut own: Vec<_> = flows
                    .iter()
                    .filter(|(from, _)| *from == host)
                    .map(|(_, flow)| Flow { workload: number, ..*flow })
                    .collect();
                own.sort_by_key(|flow| flow.at);
                Box::new(own.into_iter().take_while(move |flow| flow.at < until))
            }
        }
    }
}

/// The flows of one host, of all workloads, that begin before `until`.
#[must_use]
pub fn arrivals(workloads: &[Workload], seed: u64, topology: &Topology, host: u32, until: Ps) -> Arrivals {
    let of = |(number, workload): (u8, &Workload)| {
        workload.arrivals((number, seed), topology, host, until).peekable()
    };
    Box::new(Merged((0..).zip(workloads).map(of).collect()))
}

/// Flows of several workloads, by the time at which they begin.
struct Merged(Vec<Peekable<Arrivals>>);

impl Iterator for Merged {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        let first =
            self.0.iter_mut().enumerate().filter_map(|(place, flows)| Some((flows.peek()?.at, place))).min();
        self.0[first?.1].next()
    }
}

/// Whether `host` is one of the `senders` that are drawn among all hosts but `to`.
fn sends(seed: u64, (hosts, to, senders): (u32, u32, u32), host: u32) -> bool {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut left, mut wanted) = (hosts - 1, senders);
    for other in (0..hosts).filter(|other| *other != to) {
        let drawn = uniform(&mut random) * f64::from(left) < f64::from(wanted);
        if other == host {
            return drawn;
        }
        left -= 1;
        wanted -= u32::from(drawn);
    }
    false
}

/// The host behind `host` in a ring of all hosts in random order.
fn shuffled_ring(seed: u64, hosts: u32, host: u32) -> u32 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut ring: Vec<_> = (0..hosts).collect();
    for place in (1..ring.len()).rev() {
        ring.swap(place, whole(uniform(&mut random) * (place + 1) as f64) as usize);
    }
    let place = ring.iter().position(|other| *other == host).unwrap_or(0);
    ring[(place + 1) % ring.len()]
}

/// The flows that one host begins: a Poisson process, to every other host equally often.
#[derive(Clone, Debug)]
pub struct Poisson {
    random: Xoshiro256PlusPlus,
    host: u32,
    hosts: u32,
    sizes: Sizes,
    mean_gap_ps: f64,
    at: f64,
}

impl Poisson {
    /// Of `host` among `hosts`, which sends at `load` (0 to 1) of a link of `ps_per_byte`.
    #[must_use]
    pub fn new(seed: u64, (host, hosts): (u32, u32), sizes: Sizes, load: f64, ps_per_byte: u32) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(host) << 32);
        let mean_gap_ps = sizes.mean() * f64::from(ps_per_byte) / load;
        Self { random, host, hosts, sizes, mean_gap_ps, at: 0.0 }
    }
}

impl Iterator for Poisson {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        self.at -= self.mean_gap_ps * (1.0 - uniform(&mut self.random)).ln();
        let other = whole(uniform(&mut self.random) * f64::from(self.hosts - 1));
        let to = other + u32::from(other >= self.host);
        let size = uniform(&mut self.random);
        Some(Flow { at: moment(self.at), to, bytes: self.sizes.quantile(size), workload: 0 })
    }
}

/// A number from 0 up to 1, each as likely as any other.
pub(crate) fn uniform(random: &mut impl Rng) -> f64 {
    const BITS: u32 = 53;
    (random.next_u64() >> (64 - BITS)) as f64 / (1_u64 << BITS) as f64
}

/// Without what is behind the point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and numbers of hosts fit")]
pub(crate) const fn whole(number: f64) -> u32 {
    number as u32
}

/// Whole picoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive, and shorter than 213 days"
)]
const fn moment(ps: f64) -> Ps {
    Ps(ps as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flows of a host are as many and as large as its load says, and none is to itself.
    #[test]
    fn a_host_sends_at_its_load() {
        let flows: Vec<_> = Poisson::new(3, (5, 16), Sizes::CACHE_FOLLOWER, 0.7, 80).take(40_000).collect();
        let bytes: f64 = flows.iter().map(|flow| f64::from(flow.bytes)).sum();
        let load = bytes * 80.0 / flows.last().expect("some").at.0 as f64;
        assert!((load - 0.7).abs() < 0.02, "{load}");
        assert!(flows.iter().all(|flow| flow.to != 5 && flow.to < 16));
    }

    /// Of an incast as many hosts send as it says, others each time, and never the receiver.
    #[test]
    fn an_incast_has_its_senders() {
        let tree = Topology::from(crate::topology::FatTree::of_hosts(64).expect("a size of the figure"));
        let every = Ps::from_ns(1000);
        let incast = Workload::Incast { to: 5, senders: 60, bytes: 500_000, every };
        let flows = |host| arrivals(core::slice::from_ref(&incast), 9, &tree, host, Ps(10 * every.0));
        let all: Vec<_> = (0..64).flat_map(|host| flows(host).map(move |flow| (host, flow))).collect();
        assert_eq!(all.len(), 600);
        assert!(all.iter().all(|(from, flow)| *from != 5 && flow.to == 5 && flow.bytes == 500_000));
        let silent = |at| {
            (0..64)
                .filter(|host| !all.iter().any(|(from, flow)| from == host && flow.at == at))
                .collect::<Vec<_>>()
        };
        assert_ne!(silent(Ps(every.0 / 2)), silent(Ps(every.0 * 3 / 2)), "others are silent");
    }

    #[test]
    fn a_permutation_reaches_everybody_once() {
        let mut receivers: Vec<_> = (0..64).map(|host| shuffled_ring(3, 64, host)).collect();
        assert!(receivers.iter().zip(0..).all(|(to, from)| *to != from));
        receivers.sort_unstable();
        assert_eq!(receivers, (0..64).collect::<Vec<_>>());
    }

    /// Workloads beside each other come in the order of time, each with its number.
    #[test]
    fn workloads_are_merged_by_time() {
        let tree = Topology::from(crate::topology::FatTree::of_hosts(16).expect("a size of the figure"));
        let poisson = Workload::Poisson { sizes: Sizes::all(1000), load: 0.5 };
        let both = [poisson.clone(), Workload::AllToAll { bytes: 1 }, poisson];
        let flows: Vec<_> = arrivals(&both, 1, &tree, 3, Ps::from_ns(100_000)).collect();
        assert!(flows.is_sorted_by_key(|flow| flow.at));
        let of = |number| {
            flows.iter().filter(|flow| flow.workload == number).map(|flow| flow.at).collect::<Vec<_>>()
        };
        assert_eq!(of(1).len(), 15);
        assert!(of(0).len() > 10 && of(0) != of(2), "{flows:?}");
    }

    #[test]
    fn workloads_that_do_not_fit_are_refused() {
        let incast = |senders, to| Workload::Incast { to, senders, bytes: 1, every: Ps(1) };
        assert_eq!(incast(4, 0).check(4), Err(WorkloadError::Senders(4, 3)));
        assert_eq!(incast(0, 0).check(4), Err(WorkloadError::Senders(0, 3)));
        assert_eq!(incast(3, 4).check(4), Err(WorkloadError::Host(4, 4)));
        assert_eq!(Workload::AllToAll { bytes: 1 }.check(1), Err(WorkloadError::Alone(1)));
        let flow = Flow { at: Ps(0), to: 1, bytes: 1, workload: 0 };
        assert_eq!(Workload::Flows(vec![(1, flow)]).check(4), Err(WorkloadError::Itself(1)));
        assert_eq!(Workload::Poisson { sizes: Sizes::all(1), load: 0.0 }.check(4), Err(WorkloadError::Load));
    }
}
