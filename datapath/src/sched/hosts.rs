//! Hosts that are sent to no faster than they take it: RHCC's rates, one for each peer host, beside
//! the windows of its queue pairs (docs/adr/0074).
//!
//! A host begins without a rate. While it has one, its queue pairs have their turns when its gate
//! is open. One that comes to its turn too early waits in the host's own list, and when the gate
//! opens the first of the list is put back among those that are ready.

use super::TimerWheel;
use super::meter::Meter;
use super::slot_lists::{Ends, Links};
use crate::time::Time;
use cc_dctcp::{HostRate, HostRateConfig};
use core::net::IpAddr;
use std::collections::HashMap;
use wire::Psn;

/// Hosts that have rates at most; others are sent to as if there were none.
const HOSTS_MAX: usize = 4096;
/// Width of the buckets in which hosts wait, as a power of two of nanoseconds: 1 us.
const CLOSED_NS_LOG2: u32 = 10;
/// What a rate saves at most, in time: gates open late by less.
const SLACK_NS: u64 = 4_096;
/// A turn takes what the rate gives in so many nanoseconds, one packet at least: what is sent at
/// once waits at the receiver.
const TURN_NS: u64 = 2_048;
/// The longest packet.
const PACKET_BYTES: usize = 4096;

#[derive(Debug)]
struct Host {
    /// Queue pairs that have it.
    users: u32,
    rate: HostRate,
    gate: Meter,
    /// Streams that wait for their turn.
    streams: Ends,
    /// One that waited, and has its turn next.
    released: Option<u32>,
    /// Bytes sent since the last step of the rate, when that was, and the delays heard of since.
    sent: u64,
    stepped_at: Time,
    delays: (u64, u32),
    /// How long steps lasted of late, in nanoseconds; 0: there was none.
    step_ns: u64,
    /// What the stream that brought about the last step was to send next then: when that is
    /// acknowledged, a round trip has passed.
    mark: Option<(u32, Psn)>,
}

impl Host {
    fn new(now: Time) -> Self {
        Self {
            users: 0,
            rate: HostRate::default(),
            gate: Meter::NONE,
            streams: Ends::EMPTY,
            released: None,
            sent: 0,
            stepped_at: now,
            delays: (0, 0),
            step_ns: 0,
            mark: None,
        }
    }

    /// Forgets what was heard and sent since the last step.
    fn begin_step(&mut self, sign: &HostSign, now: Time) {
        (self.sent, self.delays, self.stepped_at) = (0, (0, 0), now);
        self.mark = Some((sign.stream, sign.nxt));
    }

    /// How much the step that lasted so long weighs beside those before it; 256: as much.
    fn weigh(&mut self, lasted_ns: u64) -> u16 {
        let usual = if self.step_ns == 0 { lasted_ns } else { self.step_ns };
        self.step_ns = usual - usual / 8 + lasted_ns / 8;
        let weight = lasted_ns.saturating_mul(256) / usual.max(1);
        u16::try_from(weight.clamp(128, 1024)).unwrap_or(1024)
    }

    /// Whether a round trip has passed since the last step, which was `passed` nanoseconds ago.
    /// That is seen, or a smoothed one, which is long after losses.
    fn has_gone_round(&self, sign: &HostSign, passed: u64) -> bool {
        let seen = self.mark.is_some_and(|(stream, psn)| stream == sign.stream && psn.is_before(sign.una));
        seen || passed >= sign.srtt_ns
    }
}

/// What an acknowledgement says of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSign {
    /// Longest time that the packet can have spent there, in nanoseconds.
    pub delay_ns: u32,
    /// A round trip, in nanoseconds; 0: not known.
    pub srtt_ns: u64,
    /// The stream: its number, what of it is acknowledged, and what it sends next.
    pub stream: u32,
    /// Its oldest PSN not acknowledged.
    pub una: Psn,
    /// Its next new PSN.
    pub nxt: Psn,
    /// The stream has nothing more to send: a host that is not kept busy may sleep.
    pub app_limited: bool,
}

/// A host as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostReport {
    /// Its address.
    pub address: IpAddr,
    /// Queue pairs that send to it.
    pub queue_pairs: u32,
    /// The rate at which it is sent to, in bytes a second; `None`: no limit.
    pub bytes_per_s: Option<u64>,
    /// The delay that the last step of the rate heard of, in nanoseconds.
    pub delay_ns: u32,
}

/// The hosts that queue pairs of an engine send to.
#[derive(Debug)]
pub struct Hosts {
    config: HostRateConfig,
    hosts: Vec<Host>,
    free: Vec<u16>,
    by_address: HashMap<IpAddr, u16>,
    /// Of streams that wait.
    links: Links,
    /// Hosts whose gate is closed and whose streams wait.
    closed: TimerWheel<CLOSED_NS_LOG2>,
    /// Streams that wait.
    waiting: usize,
}

impl Hosts {
    /// No host, for an engine with so many streams.
    #[must_use]
    pub fn new(config: HostRateConfig, streams: usize) -> Self {
        Self {
            config,
            hosts: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            links: Links::new(streams),
            closed: TimerWheel::new(HOSTS_MAX),
            waiting: 0,
        }
    }

    /// A queue pair sends to the host with that address: the host's number; `None` if there are too
    /// many.
    pub fn join(&mut self, address: IpAddr, now: Time) -> Option<u16> {
        let number = match self.by_address.get(&address) {
            Some(known) => *known,
            None => {
                let number = self.free.pop().or_else(|| u16::try_from(self.hosts.len()).ok())?;
                if usize::from(number) >= HOSTS_MAX {
                    return None;
                }
                if usize::from(number) == self.hosts.len() {
                    self.hosts.push(Host::new(now));
                } else {
                    self.hosts[usize::from(number)] = Host::new(now);
                }
                self.by_address.insert(address, number);
                number
            }
        };
        self.hosts[usize::from(number)].users += 1;
        Some(number)
    }

    /// It does not any more; its streams must not wait ([`Hosts::forget`]).
    pub fn leave(&mut self, number: u16) {
        let host = &mut self.hosts[usize::from(number)];
        host.users -= 1;
        if host.users == 0 {
            self.closed.disarm(number.into());
            self.by_address.retain(|_, known| *known != number);
            self.free.push(number);
        }
    }

    /// Every host, in the order of their addresses.
    #[must_use]
    pub fn reports(&self) -> Vec<HostReport> {
        let report = |(address, number): (&IpAddr, &u16)| {
            let Host { users, rate, .. } = self.hosts[usize::from(*number)];
            let (bytes_per_s, delay_ns) = (rate.bytes_per_s(), rate.delay_ns());
            HostReport { address: *address, queue_pairs: users, bytes_per_s, delay_ns }
        };
        let mut reports: Vec<_> = self.by_address.iter().map(report).collect();
        reports.sort_unstable_by_key(|report| report.address);
        reports
    }

    /// The rate of a host in bytes a second; `None`: no limit.
    #[must_use]
    pub fn rate(&self, number: u16) -> Option<u64> {
        self.hosts[usize::from(number)].rate.bytes_per_s()
    }

    /// A stream to that host has its turn: how many bytes it may send in it. `None`: it waits, and
    /// [`Hosts::pop_open`] or [`Hosts::charge`] will name it.
    pub fn admit(&mut self, number: u16, stream: u32, now: Time) -> Option<usize> {
        let host = &mut self.hosts[usize::from(number)];
        let Some(rate) = host.rate.bytes_per_s() else {
            if host.released == Some(stream) {
                host.released = None;
            }
            return Some(usize::MAX);
        };
        let is_next = host.released == Some(stream) || (host.released.is_none() && host.streams.is_empty());
        if is_next && host.gate.is_open(now) {
            host.released = None;
            let bytes = u128::from(rate) * u128::from(TURN_NS) / 1_000_000_000;
            return Some(usize::try_from(bytes).unwrap_or(usize::MAX).max(PACKET_BYTES));
        }
        if host.released == Some(stream) {
            // It was open when the stream was put back, and another one's debt came between.
            host.released = None;
            self.links.push_front(&mut host.streams, stream);
        } else {
            self.links.push_back(&mut host.streams, stream);
        }
        self.waiting += 1;
        self.await_gate(number);
        None
    }

    /// A stream sent so many bytes to that host. Returns one that has its turn next.
    pub fn charge(&mut self, number: u16, bytes: u64, now: Time) -> Option<u32> {
        let host = &mut self.hosts[usize::from(number)];
        host.sent += bytes;
        host.gate.take(bytes, now);
        self.release(number, now)
    }

    /// A stream that has its turn next, as its host's gate opened. Ask until there is none.
    #[inline]
    pub fn pop_open(&mut self, now: Time) -> Option<u32> {
        while let Some(number) = self.closed.pop(now) {
            let released = u16::try_from(number).ok().and_then(|number| self.release(number, now));
            if let Some(stream) = released {
                return Some(stream);
            }
        }
        None
    }

    /// When [`Hosts::pop_open`] has one.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.closed.next_deadline()
    }

    /// Streams that wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// A stream to that host ends. Returns those that have their turn next: itself, if it waited,
    /// and one behind it.
    pub fn forget(&mut self, number: u16, stream: u32, now: Time) -> [Option<u32>; 2] {
        let host = &mut self.hosts[usize::from(number)];
        if self.links.remove(&mut host.streams, stream) {
            self.waiting -= 1;
            return [Some(stream), None];
        }
        if host.released == Some(stream) {
            host.released = None;
        }
        // It may have its turn now: then nobody will say that it is over.
        [None, self.release(number, now)]
    }

    /// An acknowledgement of a stream to that host says how long it took. Once a round trip the
    /// rate takes a step.
    pub fn learn(&mut self, number: u16, sign: HostSign, now: Time) -> Option<u32> {
        let host = &mut self.hosts[usize::from(number)];
        if sign.app_limited && sign.delay_ns > self.config.target_ns {
            return None;
        }
        host.delays.0 += u64::from(sign.delay_ns);
        host.delays.1 += 1;
        let passed = now.since(host.stepped_at);
        if passed < self.config.target_ns.into() || !host.has_gone_round(&sign, passed) {
            return None;
        }
        let delay = u32::try_from(host.delays.0 / u64::from(host.delays.1)).unwrap_or(u32::MAX);
        let sent_per_s = u128::from(host.sent) * 1_000_000_000 / u128::from(passed.max(1));
        let had_rate = host.rate.bytes_per_s();
        let (sent_per_s, weight) = (u64::try_from(sent_per_s).unwrap_or(u64::MAX), host.weigh(passed));
        host.rate.step(&self.config, delay, sent_per_s, weight);
        host.begin_step(&sign, now);
        let rate = host.rate.bytes_per_s();
        host.gate = match rate {
            Some(rate) if had_rate.is_some() => host.gate.changed(Meter::new(rate, 0, SLACK_NS), now),
            Some(rate) => Meter::new(rate, 0, SLACK_NS),
            None => Meter::NONE,
        };
        // The gate of another rate opens at another time.
        if host.streams.is_empty() { None } else { self.release(number, now) }
    }

    /// Puts the first that waits back, if the gate is open and none was already.
    fn release(&mut self, number: u16, now: Time) -> Option<u32> {
        let host = &mut self.hosts[usize::from(number)];
        if host.streams.is_empty() || host.released.is_some() {
            return None;
        }
        if !host.gate.is_open(now) {
            self.await_gate(number);
            return None;
        }
        let stream = self.links.pop_front(&mut host.streams)?;
        host.released = Some(stream);
        self.waiting -= 1;
        Some(stream)
    }

    /// The gate is looked at when it opens, unless somebody has the turn before that.
    fn await_gate(&mut self, number: u16) {
        let host = &self.hosts[usize::from(number)];
        if host.released.is_none() {
            self.closed.disarm(number.into());
            self.closed.arm(number.into(), host.gate.opens_at());
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.links.bytes() + self.hosts.capacity() * size_of::<Host>() + self.closed.bytes()
    }
}

#[cfg(test)]
mod tests;
