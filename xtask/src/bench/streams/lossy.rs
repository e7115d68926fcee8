//! `cargo xtask bench streams --lossy`: what streams get on a path that loses packets, and TCP
//! programs through `srnic tunnel`, beside kernel TCP and QUIC on that path, and all of them
//! without loss.

use std::fs;

use serde_json::{Map, Value, json};

use super::path::{Kind, Path, Trouble};
use super::programs::{self, Program, Way};
use super::quic::{Quic, What};
use super::trips::Trips;
use crate::bench::chart::{self, Panel};
use crate::bench::claim::{self, Claim, Limit};
use crate::bench::samples::median;
use crate::bench::{Bench, table};
use crate::error::{Error, Result};
use crate::setup;
use crate::tools::number;

/// What the path does to frames.
const TROUBLE: Trouble = Trouble { loss_percent: 1, delay_us: 500 };
const KINDS: [Kind; 6] = [
    Kind { mtu: 1500, trouble: Some(TROUBLE), link_gbps: None },
    Kind { mtu: 1500, trouble: None, link_gbps: None },
    Kind { mtu: 4200, trouble: Some(TROUBLE), link_gbps: None },
    Kind { mtu: 4200, trouble: None, link_gbps: None },
    // Where the network limits, and not the processors that all processes share.
    Kind { mtu: 1500, trouble: Some(TROUBLE), link_gbps: Some(1) },
    Kind { mtu: 4200, trouble: Some(TROUBLE), link_gbps: Some(1) },
];
/// Where the programs run.
const PROGRAMS_AT: usize = 0;
/// Where round trips are measured: up to there.
const TRIPS_BEFORE: usize = 2;
/// Bytes of a write to a stream and to QUIC.
const WRITE: u32 = 64 << 10;

/// What carries the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carrier {
    /// Kernel TCP with this congestion control.
    Tcp(&'static str),
    Tunnel,
    /// A stream of ours.
    Stream,
    /// QUIC with this congestion control.
    Quic(&'static str),
}

const CARRIERS: [(Carrier, &str); 6] = [
    (Carrier::Tcp(CUBIC), "kernel TCP, cubic"),
    (Carrier::Tcp(BBR), "kernel TCP, bbr"),
    (Carrier::Tunnel, "srnic tunnel"),
    (Carrier::Stream, "srnic stream"),
    (Carrier::Quic(CUBIC), "QUIC (quinn), cubic"),
    (Carrier::Quic(BBR), "QUIC (quinn), bbr"),
];
const CUBIC: &str = "cubic";
const BBR: &str = "bbr";
/// Their places.
const TCP_CUBIC: usize = 0;
const TCP_BBR: usize = 1;
const TUNNEL: usize = 2;

/// Samples of a path, by carrier: a sample of each round.
type Row = [Vec<f64>; CARRIERS.len()];
/// Samples of a program, by TCP and through the tunnel.
type Pair = [Vec<f64>; 2];

/// Installs what it takes, and says what else is missing.
pub fn prepare() -> Result<()> {
    setup::implied(setup::CARRIED)?;
    if !setup::is_root() {
        return Err(Error::new("network namespaces take root: run this as root"));
    }
    Ok(())
}

/// Runs it, prints the tables, and writes the files.
pub fn run(bench: &Bench<'_>, quic: &Quic) -> Result<()> {
    if !has_bbr() {
        println!("this kernel has no bbr: its column stays empty");
    }
    let mut rows: Vec<Row> = vec![Row::default(); KINDS.len()];
    let mut trips = vec![Trips::default(); TRIPS_BEFORE];
    let mut programs: Vec<Pair> = vec![Pair::default(); Program::ALL.len()];
    let rounds = bench.rounds([1, 3], |round| {
        for (at, kind) in KINDS.iter().enumerate() {
            let dir = bench.scratch.subdirectory()?;
            let path = Path::new(bench, &dir, *kind, round)?;
            measure(bench, quic, &path, *kind, &mut rows[at])?;
            if let Some(trips) = trips.get_mut(at) {
                trips.measure(bench, quic, &path, has_bbr())?;
                eprintln!("  {}, round trips", kind.name());
            }
            if at == PROGRAMS_AT {
                run_programs(bench, &path, &mut programs)?;
            }
            drop(path);
            fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
        }
        Ok(())
    })?;
    let claims = claims(&rows);
    println!("{}\n", table_of(&rows));
    for (kind, trips) in KINDS.iter().zip(&trips) {
        println!("{}\n", trips.table(&kind.name()));
    }
    println!("{}\n", table_of_programs(&programs));
    println!("{}\n\n{}", claim::table(&claims), bench.machine.line());
    let claims: Vec<Value> = claims.iter().map(Claim::to_json).collect();
    let details = json!({
        "rounds": rounds.done, "bbr": has_bbr(), "paths": paths_json(&rows),
        "trips": trips_json(&trips), "programs": programs_json(&programs), "claims": claims,
    });
    bench.write_json(&details, &Map::new())?;
    bench.write_svg(|path| draw(path, &rows))?;
    rounds.end
}

fn has_bbr() -> bool {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    available.is_ok_and(|names| names.split_whitespace().any(|name| name == BBR))
}

fn measure(bench: &Bench<'_>, quic: &Quic, path: &Path<'_>, kind: Kind, row: &mut Row) -> Result<()> {
    let seconds = bench.pick(3, 5);
    for (samples, (carrier, name)) in row.iter_mut().zip(CARRIERS) {
        let gbps = match carrier {
            Carrier::Tcp(BBR) if !has_bbr() => continue,
            Carrier::Tcp(congestion) => programs::iperf3(path, &Way::Tcp, seconds, &["-C", congestion])?,
            Carrier::Tunnel => programs::iperf3(path, &Way::Tunnel, seconds, &[])?,
            Carrier::Stream => {
                let options = format!("-s {WRITE} -D {seconds}");
                number(&path.over_rdma("stream-bw", &options)?, "bw_avg_gbps")?
            }
            Carrier::Quic(congestion) => {
                let amount = format!("-s {WRITE} --seconds {seconds}");
                let result = path.over_quic(quic, What::Bandwidth, congestion, &amount)?;
                number(&result, What::Bandwidth.figure())?
            }
        };
        eprintln!("  {}, {name}: {gbps:.3} Gb/s", kind.name());
        samples.push(gbps);
    }
    Ok(())
}

fn run_programs(bench: &Bench<'_>, path: &Path<'_>, programs: &mut [Pair]) -> Result<()> {
    let len = bench.pick(8, 32) << 20;
    programs::prepare(path.dir, len)?;
    for (program, pair) in Program::ALL.into_iter().zip(programs) {
        let work = if program == Program::Redis { bench.pick(2_000, 20_000) } else { len };
        for (way, samples) in [Way::Tcp, Way::Tunnel].iter().zip(pair) {
            samples.push(program.run(path, way, work)?);
        }
        eprintln!("  {} over TCP and through the tunnel", program.name());
    }
    Ok(())
}

fn middle(samples: &[f64]) -> f64 {
    median(samples).unwrap_or(f64::NAN)
}

/// What is claimed of the tunnel on each path.
fn claims(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (kind, row) in KINDS.iter().zip(rows) {
        let of = |other: usize| middle(&row[TUNNEL]) / middle(&row[other]);
        let name = kind.name();
        if kind.trouble.is_none() {
            claims.push(Claim::new(format!("tunnel over TCP, {name}"), Limit::AtLeast(0.5), of(TCP_CUBIC)));
            continue;
        }
        // Ten times what cubic has is more than the slow link carries.
        if kind.link_gbps.is_none() {
            claims.push(Claim::new(
                format!("tunnel over cubic, {name}"),
                Limit::AtLeast(10.0),
                of(TCP_CUBIC),
            ));
        }
        if !row[TCP_BBR].is_empty() {
            claims.push(Claim::new(format!("tunnel over bbr, {name}"), Limit::AtLeast(1.0), of(TCP_BBR)));
        }
    }
    claims
}

/// A line of each path and carrier that was measured.
fn table_of(rows: &[Row]) -> String {
    let labels: Vec<String> = KINDS
        .iter()
        .flat_map(|kind| CARRIERS.iter().map(|(_, name)| format!("{}: {name}", kind.name())))
        .collect();
    let measured = labels.iter().zip(rows.iter().flatten()).filter(|(_, samples)| !samples.is_empty());
    table::of_samples(measured.map(|(label, values)| table::Row { label, unit: "Gb/s", values }))
}

fn table_of_programs(programs: &[Pair]) -> String {
    let mut table = format!("{:40} {:>12} {:>12}", KINDS[PROGRAMS_AT].name(), "kernel TCP", "tunnel");
    for (program, [tcp, tunnel]) in Program::ALL.iter().zip(programs) {
        table += &format!(
            "\n{:40} {:>12.1} {:>12.1}  {}",
            program.name(),
            middle(tcp),
            middle(tunnel),
            program.unit()
        );
    }
    table
}

fn paths_json(rows: &[Row]) -> Value {
    let of = |(kind, row): (&Kind, &Row)| {
        let carriers = CARRIERS.iter().zip(row).map(
            |((_, name), samples)| json!({ "carrier": name, "gbps": median(samples), "samples": samples }),
        );
        json!({
            "mtu": kind.mtu,
            "link_gbps": kind.link_gbps,
            "loss_percent": kind.trouble.map_or(0, |trouble| trouble.loss_percent),
            "delay_us": kind.trouble.map_or(0, |trouble| trouble.delay_us),
            "carriers": carriers.collect::<Vec<_>>(),
        })
    };
    KINDS.iter().zip(rows).map(of).collect()
}

fn trips_json(trips: &[Trips]) -> Value {
    KINDS
        .iter()
        .zip(trips)
        .map(|(kind, trips)| json!({ "path": kind.name(), "sizes": trips.to_json() }))
        .collect()
}

fn programs_json(programs: &[Pair]) -> Value {
    let of = |(program, [tcp, tunnel]): (&Program, &Pair)| {
        json!({
            "program": program.name(), "unit": program.unit(), "path": KINDS[PROGRAMS_AT].name(),
            "tcp": median(tcp), "tcp_samples": tcp, "tunnel": median(tunnel), "tunnel_samples": tunnel,
        })
    };
    Program::ALL.iter().zip(programs).map(of).collect()
}

fn draw(path: &std::path::Path, rows: &[Row]) -> Result<()> {
    let units: Vec<String> = KINDS.iter().map(|kind| format!("Gb/s, {}", kind.name())).collect();
    let panels: Vec<Panel<'_>> = rows
        .iter()
        .zip(&units)
        .map(|(row, unit)| {
            let bars = CARRIERS.iter().zip(row).filter(|(_, samples)| !samples.is_empty());
            Panel { unit, bars: bars.map(|((_, name), samples)| (*name, middle(samples))).collect() }
        })
        .collect();
    chart::bars(path, "One TCP program over a path, and through srnic tunnel", &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_depends_on_the_path() {
        let row = |tunnel: f64, bbr: Vec<f64>| -> Row {
            [vec![0.1; 3], bbr, vec![tunnel; 3], vec![], vec![], vec![]]
        };
        let rows = [
            row(1.1, vec![1.2; 3]),
            row(0.05, vec![]),
            row(0.9, vec![]),
            row(0.06, vec![]),
            // Of slow links nothing is claimed beside cubic.
            row(0.2, vec![]),
            row(0.9, vec![1.0; 3]),
        ];
        let kept: Vec<bool> = claims(&rows).iter().map(Claim::is_kept).collect();
        assert_eq!(kept, [true, false, true, false, true, false]);
        let table = table_of(&rows);
        assert_eq!(
            table.lines().count(),
            1 + 3 + 2 + 2 + 2 + 2 + 3,
            "what was not measured has no line: {table}"
        );
    }
}
