//! Delays for probes over a part, to see what an alarm looks like.

use super::path::Path;
use crate::error::{Error, Result};
use core::str::FromStr;
use datapath::port::options::duration_ns;
use std::time::Duration;

/// A part by its name, and how much later each probe over it is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delay {
    part: String,
    by: Duration,
}

impl FromStr for Delay {
    type Err = &'static str;

    fn from_str(text: &str) -> core::result::Result<Self, Self::Err> {
        const SHAPE: &str = "a part and a time up to 1 s, as in 'CPU 1=20us'; ns, us, ms, s";
        const NS_MAX: u64 = 1_000_000_000;
        let (part, time) = text.rsplit_once('=').ok_or(SHAPE)?;
        let ns = duration_ns(time).ok().filter(|ns| (1..=NS_MAX).contains(ns)).ok_or(SHAPE)?;
        Ok(Self { part: part.to_owned(), by: Duration::from_nanos(ns) })
    }
}

/// How much later a probe on this way is to be.
#[must_use]
pub fn of(delays: &[Delay], path: &Path) -> Duration {
    let names: Vec<String> = path.parts().iter().map(ToString::to_string).collect();
    delays.iter().filter(|delay| names.contains(&delay.part)).map(|delay| delay.by).sum()
}

/// Whether each names a part of one of the ways.
///
/// # Errors
/// [`Error::Options`], with the parts that there are.
pub fn check(delays: &[Delay], paths: &[Path]) -> Result<()> {
    let mut parts: Vec<_> = paths.iter().flat_map(Path::parts).collect();
    parts.sort_unstable();
    parts.dedup();
    let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
    match delays.iter().find(|delay| !names.contains(&delay.part)) {
        None => Ok(()),
        Some(Delay { part, .. }) => {
            Err(Error::Options(format!("--rehearse: no part {part:?}; parts are {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostping::path::Memory;

    #[test]
    fn a_delay_is_of_the_ways_over_its_part() {
        let delays: Vec<Delay> =
            ["CPU 1=20us", "ordinary pages=300ns"].map(|text| text.parse().expect("a delay")).to_vec();
        let path = |cpu, memory| Path { cpu, memory, peer: None };
        let ns = |cpu, memory| of(&delays, &path(cpu, memory)).as_nanos();
        assert_eq!(ns(1, Memory::Ordinary), 20_300);
        assert_eq!((ns(1, Memory::Huge), ns(0, Memory::Ordinary), ns(0, Memory::Huge)), (20_000, 300, 0));
        assert!(check(&delays, &[path(1, Memory::Ordinary)]).is_ok());
        let wrong = check(&delays, &[path(0, Memory::Ordinary)]).expect_err("no CPU 1").to_string();
        assert!(wrong.contains("parts are CPU 0, ordinary pages, the device"), "{wrong}");
        for text in ["CPU 1", "CPU 1=20", "CPU 1=us", "CPU 1=2s", "CPU 1=0us", "CPU 1=2000ms"] {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
    }
}
