//! `cargo xtask bench unmodified`: programs of others over the drop-in libibverbs, beside our own
//! tools on the same port, and beside the same programs over kernel TCP.

mod jobs;
mod programs;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::measured::{Measured, Ratio};
use super::{Bench, table};
use crate::dropin;
use crate::error::Result;
use crate::repo::{self, RELEASE};
use crate::setup::{self, UNMODIFIED};

/// One thing to measure.
struct Figure {
    key: &'static str,
    label: &'static str,
    unit: &'static str,
    /// Programs that must be there.
    programs: &'static [&'static str],
    measure: fn(&Stage<'_>) -> Result<f64>,
}

/// What a figure should be.
#[derive(Clone, Copy)]
enum Wanted {
    AtMost(f64),
    AtLeast(f64),
    /// It is reported only.
    Anything,
}

/// Where it is measured.
struct Stage<'a> {
    bench: &'a Bench<'a>,
    /// The directory of the drop-in library.
    library: PathBuf,
}

use jobs::Carrier::{OpenMpi, Ucx, UcxByWrites};
use programs::Network::{Kernel, Ours};
use programs::{idle, perftest_bw, perftest_lat, perftest_rate, srnic, ucx};

/// What perftest's programs and ours are both given.
const LATENCY: &str = "-s 64 -m 4096";
const BANDWIDTH: &str = "-s 65536 -m 4096 -t 128 -Q 100";
/// As perftest has it unless it is told otherwise. With a completion for each 100 of 128 writes,
/// few are under way while the program posts the next.
const RATE: &str = "-s 64 -m 4096 -t 128 -Q 100";
/// With a completion for each 32, as ours has it.
const RATE_OF_32: &str = "-s 64 -m 4096 -t 128 -Q 32";

const ROUND_TRIPS: u64 = 50_000;
/// Of a program that polls in memory: the engine's thread and it share a processor here, and each
/// waits until the other's time is over.
const SLOW_ROUND_TRIPS: u64 = 5_000;
const WRITES: u64 = 150_000;
const SMALL_WRITES: u64 = 3_000_000;

#[rustfmt::skip]
const FIGURES: &[Figure] = &[
    Figure { key: "send_lat", label: "ib_send_lat, 64 B", unit: "us", programs: &["ib_send_lat"],
             measure: |stage| perftest_lat(stage, "ib_send_lat", LATENCY, ROUND_TRIPS) },
    Figure { key: "srnic_send_lat", label: "srnic send-lat, 64 B", unit: "us", programs: &[],
             measure: |stage| srnic(stage, "send-lat", LATENCY, ROUND_TRIPS, "lat_us/p50") },
    Figure { key: "write_lat", label: "ib_write_lat, 64 B", unit: "us", programs: &["ib_write_lat"],
             measure: |stage| perftest_lat(stage, "ib_write_lat", LATENCY, SLOW_ROUND_TRIPS) },
    Figure { key: "srnic_write_lat", label: "srnic write-lat, 64 B", unit: "us", programs: &[],
             measure: |stage| srnic(stage, "write-lat", LATENCY, ROUND_TRIPS, "lat_us/p50") },
    Figure { key: "write_bw", label: "ib_write_bw, 64 KiB", unit: "Gb/s", programs: &["ib_write_bw"],
             measure: |stage| perftest_bw(stage, "ib_write_bw", BANDWIDTH, WRITES) },
    Figure { key: "srnic_write_bw", label: "srnic write-bw, 64 KiB", unit: "Gb/s", programs: &[],
             measure: |stage| srnic(stage, "write-bw", BANDWIDTH, WRITES, "bw_avg_gbps") },
    Figure { key: "write_rate", label: "ib_write_bw, 64 B", unit: "M/s", programs: &["ib_write_bw"],
             measure: |stage| perftest_rate(stage, "ib_write_bw", RATE, SMALL_WRITES) },
    Figure { key: "srnic_write_rate", label: "srnic write-bw, 64 B", unit: "M/s", programs: &[],
             measure: |stage| srnic(stage, "write-bw", RATE, SMALL_WRITES, "msg_rate_mpps") },
    Figure { key: "write_rate_32", label: "ib_write_bw -Q 32, 64 B", unit: "M/s", programs: &["ib_write_bw"],
             measure: |stage| perftest_rate(stage, "ib_write_bw", RATE_OF_32, SMALL_WRITES) },
    Figure { key: "srnic_write_rate_32", label: "srnic write-bw -Q 32, 64 B", unit: "M/s", programs: &[],
             measure: |stage| srnic(stage, "write-bw", RATE_OF_32, SMALL_WRITES, "msg_rate_mpps") },
    Figure { key: "idle", label: "a process that waits (ibv_asyncwatch)", unit: "% of a core",
             programs: &["ibv_asyncwatch"], measure: idle },
    Figure { key: "ucx_lat", label: "UCX over srnic, tags of 8 B", unit: "us", programs: &["ucx_perftest"],
             measure: |stage| ucx::latency(stage, Ours) },
    Figure { key: "ucx_tcp_lat", label: "UCX over TCP, tags of 8 B", unit: "us", programs: &["ucx_perftest"],
             measure: |stage| ucx::latency(stage, Kernel) },
    Figure { key: "ucx_bw", label: "UCX over srnic, tags of 64 KiB", unit: "Gb/s", programs: &["ucx_perftest"],
             measure: |stage| ucx::bandwidth(stage, Ours) },
    Figure { key: "ucx_tcp_bw", label: "UCX over TCP, tags of 64 KiB", unit: "Gb/s", programs: &["ucx_perftest"],
             measure: |stage| ucx::bandwidth(stage, Kernel) },
    Figure { key: "netpipe", label: "NetPIPE's peak over srnic", unit: "Gb/s", programs: NETPIPE,
             measure: |stage| jobs::netpipe(stage, Ucx(Ours)) },
    Figure { key: "netpipe_put", label: "the same by WRITEs (put_zcopy)", unit: "Gb/s", programs: NETPIPE,
             measure: |stage| jobs::netpipe(stage, UcxByWrites) },
    Figure { key: "netpipe_ucx_tcp", label: "NetPIPE's peak, UCX over TCP", unit: "Gb/s", programs: NETPIPE,
             measure: |stage| jobs::netpipe(stage, Ucx(Kernel)) },
    Figure { key: "netpipe_tcp", label: "NetPIPE's peak, OpenMPI's TCP", unit: "Gb/s", programs: NETPIPE,
             measure: |stage| jobs::netpipe(stage, OpenMpi) },
    Figure { key: "ring_lat", label: "hpcc's RandomRing over srnic", unit: "us", programs: HPCC,
             measure: |stage| jobs::random_ring(stage, Ucx(Ours), jobs::Ring::Latency) },
    Figure { key: "ring_tcp_lat", label: "hpcc's RandomRing, OpenMPI's TCP", unit: "us", programs: HPCC,
             measure: |stage| jobs::random_ring(stage, OpenMpi, jobs::Ring::Latency) },
    Figure { key: "ring_bw", label: "hpcc's RandomRing over srnic", unit: "GB/s", programs: HPCC,
             measure: |stage| jobs::random_ring(stage, Ucx(Ours), jobs::Ring::Bandwidth) },
    Figure { key: "ring_tcp_bw", label: "hpcc's RandomRing, OpenMPI's TCP", unit: "GB/s", programs: HPCC,
             measure: |stage| jobs::random_ring(stage, OpenMpi, jobs::Ring::Bandwidth) },
];

const NETPIPE: &[&str] = &["mpirun", "NPopenmpi"];
const HPCC: &[&str] = &["mpirun", "hpcc"];

use Wanted::{Anything, AtLeast, AtMost};

/// Each with what it should be.
#[rustfmt::skip]
const RATIOS: &[(Ratio, Wanted)] = &[
    (Ratio { key: "send_lat_vs_srnic", of: "send_lat", over: "srnic_send_lat" }, AtMost(1.25)),
    (Ratio { key: "write_lat_vs_srnic", of: "write_lat", over: "srnic_write_lat" }, Anything),
    (Ratio { key: "write_bw_vs_srnic", of: "write_bw", over: "srnic_write_bw" }, AtLeast(0.9)),
    (Ratio { key: "write_rate_vs_srnic", of: "write_rate", over: "srnic_write_rate" }, AtLeast(0.75)),
    (Ratio { key: "write_rate_32_vs_srnic", of: "write_rate_32", over: "srnic_write_rate_32" }, AtLeast(0.75)),
    (Ratio { key: "ucx_lat_vs_tcp", of: "ucx_lat", over: "ucx_tcp_lat" }, AtMost(0.35)),
    (Ratio { key: "ucx_bw_vs_tcp", of: "ucx_bw", over: "ucx_tcp_bw" }, AtLeast(4.0)),
    (Ratio { key: "netpipe_vs_ucx_tcp", of: "netpipe", over: "netpipe_ucx_tcp" }, AtLeast(3.0)),
    (Ratio { key: "netpipe_put_vs_ucx_tcp", of: "netpipe_put", over: "netpipe_ucx_tcp" }, Anything),
    (Ratio { key: "netpipe_vs_tcp", of: "netpipe", over: "netpipe_tcp" }, Anything),
];

/// What stands for itself.
const ALONE: &[(&str, Wanted)] = &[("idle", AtMost(2.0))];

/// What takes long, and is only reported: once in all.
const ONCE: &[&str] = &["ring_lat", "ring_tcp_lat", "ring_bw", "ring_tcp_bw"];

/// Runs it, prints the tables, and writes the file.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    setup::implied(UNMODIFIED)?;
    let stage = Stage { bench, library: dropin::build(RELEASE)? };
    let missing = missing();
    for program in &missing {
        eprintln!("without {program}, which is not here: `cargo xtask setup --unmodified` installs it");
    }
    let mut measured = Measured::default();
    let rounds = bench.rounds([1, 5], |number| round(&stage, &mut measured, number))?;
    let keys = keys(&measured);
    let rows = FIGURES.iter().map(|figure| table::Row {
        label: figure.label,
        unit: figure.unit,
        values: measured.samples.of(figure.key),
    });
    println!("{}\n", table::of_samples(rows));
    println!("{}\n{}", verdicts(&keys), bench.machine.line());
    measured.report_unsteady();
    let figures = FIGURES.iter().map(|figure| figure.key);
    let mut all = measured.to_json(rounds.done, figures, RATIOS.iter().map(|(ratio, _)| ratio));
    all.insert("missing".to_owned(), json!(missing));
    bench.write_json(&all.into(), &keys)?;
    rounds.end
}

/// Programs that are not here.
fn missing() -> Vec<&'static str> {
    let mut missing: Vec<_> = FIGURES.iter().flat_map(Figure::missing).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

impl Figure {
    /// The one that is called `key`.
    fn of(key: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.key == key)
    }

    fn missing(&self) -> impl Iterator<Item = &'static str> {
        self.programs.iter().copied().filter(|program| repo::find(program).is_none())
    }

    /// The one that is called `key`, if its programs are here.
    fn here(key: &str) -> Option<&'static Self> {
        Self::of(key).filter(|figure| figure.missing().next().is_none())
    }
}

fn round(stage: &Stage<'_>, measured: &mut Measured, number: u64) -> Result<()> {
    for (ratio, _) in RATIOS {
        let [Some(of), Some(over)] = [ratio.of, ratio.over].map(Figure::here) else { continue };
        measured.compare(ratio, || (over.measure)(stage), || (of.measure)(stage))?;
    }
    let once = ONCE.iter().copied().filter(|_| number == 1);
    let keys = ALONE.iter().map(|(key, _)| *key).chain(once);
    for figure in keys.filter_map(Figure::here) {
        measured.samples.add(figure.key, (figure.measure)(stage)?);
    }
    Ok(())
}

/// Medians of the brackets' ratios, and of what stands for itself.
fn keys(measured: &Measured) -> Map<String, Value> {
    let ratios = RATIOS.iter().map(|(ratio, _)| (ratio.key, measured.median_of(ratio)));
    let alone = ALONE.iter().map(|(key, _)| *key).chain(ONCE.iter().copied());
    let alone = alone.map(|key| (key, measured.samples.median(key)));
    ratios.chain(alone).map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// What a figure should be, by its key.
fn wanted(key: &str) -> Wanted {
    let ratio = RATIOS.iter().find(|(ratio, _)| ratio.key == key).map(|(_, wanted)| *wanted);
    let alone = ALONE.iter().find(|(of, _)| *of == key).map(|(_, wanted)| *wanted);
    ratio.or(alone).unwrap_or(Anything)
}

/// Each figure, and beside it what it should be.
fn verdicts(keys: &Map<String, Value>) -> String {
    let mut table = String::new();
    for (key, value) in keys {
        let Some(value) = value.as_f64() else {
            table += &format!("{key:24} {:>12}\n", "-");
            continue;
        };
        let (is_so, should) = match wanted(key) {
            AtMost(most) => (value <= most, format!("at most {most}")),
            AtLeast(least) => (value >= least, format!("at least {least}")),
            Anything => (true, String::new()),
        };
        let miss = if is_so { "" } else { ", missed" };
        table += format!("{key:24} {value:>12.3}  {should}{miss}").trim_end();
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::bracket::Bracket;
    use super::*;

    #[test]
    fn every_key_is_of_a_figure_and_every_figure_is_measured() {
        for (ratio, _) in RATIOS {
            assert!(Figure::of(ratio.of).is_some() && Figure::of(ratio.over).is_some(), "{}", ratio.key);
        }
        for key in ALONE.iter().map(|(key, _)| key).chain(ONCE) {
            assert!(Figure::of(key).is_some(), "{key}");
        }
        for figure in FIGURES {
            let in_ratio = RATIOS.iter().any(|(ratio, _)| [ratio.of, ratio.over].contains(&figure.key));
            let alone = ALONE.iter().any(|(key, _)| *key == figure.key);
            assert!(in_ratio || alone || ONCE.contains(&figure.key), "{}", figure.key);
        }
    }

    #[test]
    fn what_is_missed_is_said() {
        let mut measured = Measured::default();
        measured.take(&RATIOS[0].0, Bracket { before: 2.0, of: 3.0, after: 2.0 });
        measured.samples.add("idle", 1.0);
        let table = verdicts(&keys(&measured));
        let line =
            |key: &str| table.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
        assert_eq!(line("send_lat_vs_srnic"), "send_lat_vs_srnic               1.500  at most 1.25, missed");
        assert_eq!(line("idle"), "idle                            1.000  at most 2");
        assert!(line("ucx_bw_vs_tcp").ends_with('-'), "{table}");
    }
}
