//! What is measured of byte streams by writes of one size: each way that their bytes can go beside
//! the one that the library chooses, kernel TCP, and QUIC.

use super::quic::{Quic, What};
use crate::bench::Bench;
use crate::bench::bracket::{self, Bracket};
use crate::bench::samples::median;
use crate::error::Result;
use crate::tools::{Over, Run, number};

/// The ways, the one that the library chooses last.
const WAYS: [&str; 4] = ["send", "write", "read", "chosen"];
/// The option of a tool that reads and writes in place, which goes the chosen way.
pub const OPTION_IN_PLACE: &str = "--in-place";
pub const CHOSEN: usize = 3;
/// The places behind the ways: of the chosen one without copies, of kernel TCP, and of QUIC.
pub const IN_PLACE: usize = 4;
pub const TCP: usize = 5;
pub const QUIC: usize = 6;
pub const SERIES: usize = 7;
/// Bytes of a bandwidth run.
const BYTES: u64 = 1 << 30;
/// Messages of a bandwidth run at most.
const MESSAGES_MAX: u64 = 400_000;
/// Bytes of a latency run, and its messages at most.
const LATENCY_BYTES: u64 = 64 << 20;
const ROUND_TRIPS_MAX: u64 = 20_000;
/// Kernel TCP and QUIC, which encrypts, are slower, and are measured with so much less.
const TCP_BYTES_PART: u64 = 4;
const QUIC_BYTES_PART: u64 = 16;
const QUIC_TRIPS_PART: u64 = 4;

/// What was measured of one size.
#[derive(Clone, Default)]
pub struct Cell {
    pub size: u64,
    pub gbps: Figure,
    pub micros: Figure,
}

/// Throughput or latency.
#[derive(Clone, Default)]
pub struct Figure {
    /// By series.
    pub samples: [Vec<f64>; SERIES],
    /// Each way but the chosen one, between two runs of that.
    pub beside_chosen: [Vec<Bracket>; CHOSEN],
    /// Times that the machine never settled.
    pub unsteady: u64,
}

impl Cell {
    pub fn measure(&mut self, bench: &Bench<'_>, quic: &Quic) -> Result<()> {
        let size = self.size;
        let (messages, trips) = (messages(bench, size), round_trips(bench, size));
        self.gbps.measure(|way| stream_gbps(bench, size, way))?;
        self.micros.measure(|way| stream_micros(bench, size, way))?;
        let part = |count: u64, of: u64| (count / of).max(8);
        let tcp = |tool, count: u64, figure| {
            let options = format!("-s {size} -n {count}");
            number(&bench.run(&Run { tool, options: &options, wrapper: "", over: Over::Tcp })?, figure)
        };
        self.gbps.samples[TCP].push(tcp("tcp-bw", part(messages, TCP_BYTES_PART), "bw_avg_gbps")?);
        self.micros.samples[TCP].push(tcp("tcp-lat", trips, "lat_us/p50")?);
        let quic = |what, count| quic.here(bench, what, size, count);
        self.gbps.samples[QUIC].push(quic(What::Bandwidth, part(messages, QUIC_BYTES_PART))?);
        self.micros.samples[QUIC].push(quic(What::Latency, part(trips, QUIC_TRIPS_PART))?);
        Ok(())
    }

    /// What the chosen way reaches of the best one: of throughput and of latency; NaN if one way
    /// could not be compared.
    pub fn chosen_of_best(&self) -> [f64; 2] {
        let least = |figure: &Figure, reached: fn(&Bracket) -> f64| {
            let of = |brackets: &Vec<Bracket>| middle(&brackets.iter().map(reached).collect::<Vec<_>>());
            worst(figure.beside_chosen.iter().map(of))
        };
        [least(&self.gbps, |bracket| bracket.ratio().recip()), least(&self.micros, Bracket::ratio)]
    }
}

impl Figure {
    /// Measures the ways once more, by what measures one with the options of a tool.
    pub fn measure(&mut self, run: impl Fn(&str) -> Result<f64>) -> Result<()> {
        for way in 0..CHOSEN {
            let bracket = bracket::measure(|| run(&by(CHOSEN)), || run(&by(way)))?;
            let Some(bracket) = bracket else {
                self.unsteady += 1;
                continue;
            };
            self.samples[way].push(bracket.of);
            self.samples[CHOSEN].extend([bracket.before, bracket.after]);
            self.beside_chosen[way].push(bracket);
        }
        self.samples[IN_PLACE].push(run(OPTION_IN_PLACE)?);
        Ok(())
    }
}

/// The option of a tool for a way.
pub fn by(way: usize) -> String {
    format!("--way {}", WAYS[way])
}

/// Throughput of a stream by writes of `size` bytes, with these options, in Gb/s.
pub fn stream_gbps(bench: &Bench<'_>, size: u64, options: &str) -> Result<f64> {
    let options = format!("-s {size} -n {} {options}", messages(bench, size));
    let run = Run { tool: "stream-bw", options: &options, wrapper: "", over: Over::Memif };
    number(&bench.run(&run)?, "bw_avg_gbps")
}

/// Half a round trip of `size` bytes over a stream, with these options, in microseconds.
pub fn stream_micros(bench: &Bench<'_>, size: u64, options: &str) -> Result<f64> {
    let options = format!("-s {size} -n {} {options}", round_trips(bench, size));
    let run = Run { tool: "stream-lat", options: &options, wrapper: "", over: Over::Memif };
    number(&bench.run(&run)?, "lat_us/p50")
}

pub fn messages(bench: &Bench<'_>, size: u64) -> u64 {
    (BYTES * bench.pick(1, 4) / size).clamp(8, MESSAGES_MAX)
}

pub fn round_trips(bench: &Bench<'_>, size: u64) -> u64 {
    (LATENCY_BYTES * bench.pick(1, 4) / size).clamp(8, ROUND_TRIPS_MAX)
}

/// The least; NaN if one is.
pub fn worst(ratios: impl Iterator<Item = f64>) -> f64 {
    ratios.fold(f64::INFINITY, |least, ratio| if ratio < least || ratio.is_nan() { ratio } else { least })
}

pub fn middle(samples: &[f64]) -> f64 {
    median(samples).unwrap_or(f64::NAN)
}
