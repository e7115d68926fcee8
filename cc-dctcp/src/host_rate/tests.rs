//! A queue in virtual steps of a round trip: what senders add in one, less what the host takes.
//! They hear of what a step did one step late.

use super::*;

const CONFIG: HostRateConfig = HostRateConfig::DEFAULT;
/// What the host takes, in bytes a second.
const CAPACITY: u64 = 4_000_000_000;
/// A round trip without the host, in nanoseconds.
const PATH_NS: u64 = 4_000;

/// A sender that always has something to send, `most` bytes a second at most.
struct Sender {
    rate: HostRate,
    most: u64,
}

impl Sender {
    fn sends(&self) -> u64 {
        self.rate.bytes_per_s().unwrap_or(u64::MAX).min(self.most)
    }
}

struct Queue {
    bytes: u64,
    capacity: u64,
    /// What arrives in the next step, in bytes a second.
    under_way: u64,
}

impl Queue {
    fn delay_ns(&self) -> u64 {
        self.bytes * 1_000_000_000 / self.capacity
    }

    /// A round trip passes, in which all senders send, and hear of the delay at its end.
    fn pass(&mut self, senders: &mut [Sender], config: &HostRateConfig) -> u64 {
        let lasts = PATH_NS + self.delay_ns();
        let of = |per_s: u64| u64::try_from(u128::from(per_s) * u128::from(lasts) / 1_000_000_000).unwrap();
        let arrives = core::mem::replace(&mut self.under_way, senders.iter().map(Sender::sends).sum());
        self.bytes = (self.bytes + of(arrives)).saturating_sub(of(self.capacity));
        let delay = u32::try_from(self.delay_ns()).unwrap();
        for sender in senders {
            sender.rate.step(config, delay, sender.sends(), 256);
        }
        self.delay_ns()
    }
}

fn senders(rates: &[u64]) -> Vec<Sender> {
    let sender = |most| Sender { rate: HostRate::default(), most };
    rates.iter().copied().map(sender).collect()
}

fn jain(rates: &[u64]) -> f64 {
    let sum: f64 = rates.iter().map(|rate| *rate as f64).sum();
    let squares: f64 = rates.iter().map(|rate| (*rate as f64).powi(2)).sum();
    sum * sum / (rates.len() as f64 * squares)
}

#[test]
fn a_host_that_keeps_up_is_not_limited() {
    let mut rate = HostRate::default();
    for delay in [0, 100, CONFIG.target_ns, 0] {
        rate.step(&CONFIG, delay, CAPACITY, 256);
        assert_eq!(rate.bytes_per_s(), None);
    }
}

#[test]
fn the_delay_comes_to_its_target() {
    let mut senders = senders(&[12_500_000_000; 4]);
    let mut queue = Queue { bytes: 0, capacity: CAPACITY, under_way: 0 };
    for _ in 0..300 {
        queue.pass(&mut senders, &CONFIG);
    }
    let delays: Vec<u64> = (0..300).map(|_| queue.pass(&mut senders, &CONFIG)).collect();
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!(mean.abs_diff(CONFIG.target_ns.into()) * 5 <= u64::from(CONFIG.target_ns), "{mean}: {delays:?}");
}

/// One that sends ten times as much as the other begins.
fn shares_of_unequal(config: &HostRateConfig) -> f64 {
    let mut senders = senders(&[3_000_000_000, 400_000_000, 300_000_000, 300_000_000]);
    let mut queue = Queue { bytes: 400_000, capacity: CAPACITY, under_way: CAPACITY };
    queue.pass(&mut senders, config);
    senders.iter_mut().for_each(|sender| sender.most = 12_500_000_000);
    for _ in 0..3_000 {
        queue.pass(&mut senders, config);
    }
    jain(&senders.iter().map(Sender::sends).collect::<Vec<_>>())
}

#[test]
fn senders_come_to_share_alike_by_the_additive_term_alone() {
    let shared = shares_of_unequal(&CONFIG);
    assert!(shared > 0.95, "{shared}");
    let kept = shares_of_unequal(&HostRateConfig { step_bytes_per_s: 0, ..CONFIG });
    assert!(kept < 0.8, "{kept}");
}

#[test]
fn a_host_that_is_fast_again_has_three_times_as_much_after_forty_steps() {
    let mut senders = senders(&[12_500_000_000]);
    let mut queue = Queue { bytes: 0, capacity: CAPACITY, under_way: 0 };
    for _ in 0..200 {
        queue.pass(&mut senders, &CONFIG);
    }
    assert!(senders[0].rate.bytes_per_s().is_some_and(|rate| rate < 2 * CAPACITY));
    queue.capacity = 100 * CAPACITY;
    for _ in 0..40 {
        queue.pass(&mut senders, &CONFIG);
    }
    assert!(senders[0].sends() >= 3 * CAPACITY, "{}", senders[0].sends());
    for _ in 0..40 {
        queue.pass(&mut senders, &CONFIG);
    }
    assert_eq!(senders[0].rate.bytes_per_s(), None);
}

/// Whatever a peer says.
#[test]
fn no_delay_takes_more_than_half_or_ends_below_the_floor() {
    let mut rate = HostRate::default();
    for delay in [u32::MAX, 0, u32::MAX, 1, u32::MAX] {
        let before = rate.bytes_per_s().unwrap_or(1_000_000_000);
        rate.step(&CONFIG, delay, before, 256);
        if let Some(now) = rate.bytes_per_s() {
            assert!(now >= before / 2 && now <= before * 6 / 5 + CONFIG.step_bytes_per_s, "{before} {now}");
        }
    }
    for _ in 0..100 {
        rate.step(&HostRateConfig { step_bytes_per_s: 0, ..CONFIG }, u32::MAX, 1, 256);
    }
    assert_eq!(rate.bytes_per_s(), Some(CONFIG.floor_bytes_per_s));
    let bad = HostRateConfig { target_ns: 0, ..CONFIG };
    assert_eq!(bad.validate(), Err(ConfigError::Target { given_ns: 0 }));
    assert_eq!(HostRateConfig { floor_bytes_per_s: 0, ..CONFIG }.validate(), Err(ConfigError::ZeroFloor));
}
