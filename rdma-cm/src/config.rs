//! Times and limits.

use core::net::IpAddr;
use core::time::Duration;

/// The configuration of a [`Manager`](crate::Manager): its addresses, times and limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The host's address.
    pub ip: IpAddr,
    /// GUID of its device.
    pub ca_guid: u64,
    /// Connection numbers and transactions are drawn from it; take it from the operating system.
    pub seed: [u8; 32],
    /// Time after which an unanswered message is sent again the first time; it doubles each time.
    /// Default 20 ms.
    pub retry_first: Duration,
    /// Time after which an unanswered DREQ is sent again the first time; it doubles each time, too.
    /// Default 4 ms: who has answered and leaves stays for [`linger`](Self::linger) only, and
    /// several repeats must come within that (protocol.md 1.14).
    pub disconnect_first: Duration,
    /// The longest such time, which peers are told as the time in which they are to answer. Default
    /// 1 s.
    pub retry_max: Duration,
    /// How often an unanswered message is sent again, 0 to 15. Default 15: about 12 s with the
    /// default times.
    pub retries: u8,
    /// How long the end of a connection is remembered, to answer what comes late. Default 500 ms.
    pub time_wait: Duration,
    /// How long after its last answer to a DREQ or a request an end [owes](crate::Manager::owes)
    /// its peer another one, if the peer does not show that it has the first. Default 250 ms.
    pub linger: Duration,
    /// How long a rejection is remembered since the peer last asked; longer than the time between
    /// its repeated requests, or the next would be taken for a new one. Default 2 s.
    pub reject_wait: Duration,
    /// How long a request waits for the program without the peer repeating it. Default 30 s.
    pub request_lifetime: Duration,
    /// Connections at most, in any state. Default 65,536.
    pub connections_max: usize,
    /// Ends of connections that are remembered at once; beyond that the oldest are forgotten.
    /// Default 4096.
    pub ended_max: usize,
    /// Messages that wait to be sent; more are dropped. Default 1024.
    pub output_max: usize,
}

impl Config {
    /// Usable times and limits.
    #[must_use]
    pub const fn new(ip: IpAddr, ca_guid: u64, seed: [u8; 32]) -> Self {
        Self {
            ip,
            ca_guid,
            seed,
            retry_first: Duration::from_millis(20),
            disconnect_first: Duration::from_millis(4),
            retry_max: Duration::from_secs(1),
            retries: 15,
            time_wait: Duration::from_millis(500),
            linger: Duration::from_millis(250),
            reject_wait: Duration::from_secs(2),
            request_lifetime: Duration::from_secs(30),
            connections_max: 1 << 16,
            ended_max: 1 << 12,
            output_max: 1 << 10,
        }
    }
}

/// The unit of times in messages, in nanoseconds.
const TICK_NS: u128 = 4096;
/// The largest code of a time.
const CODE_MAX: u8 = 31;

/// The smallest code of a time that is at least `time`: 4.096 us x 2^code.
pub(crate) fn timeout_code(time: Duration) -> u8 {
    (0..CODE_MAX).find(|code| TICK_NS << code >= time.as_nanos()).unwrap_or(CODE_MAX)
}

/// The time of a code.
pub(crate) fn timeout(code: u8) -> Duration {
    Duration::from_nanos(4096 << code.min(CODE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_times() {
        for (ns, code) in [(0, 0), (4096, 0), (4097, 1), (8192, 1), (1_000_000_000, 18), (u64::MAX, 31)] {
            assert_eq!(timeout_code(Duration::from_nanos(ns)), code, "{ns} ns");
        }
        for code in 0..=31 {
            assert_eq!(timeout_code(timeout(code)), code);
        }
    }
}
