//! Byte streams by size of the writes, by each way that their bytes can go and by the one that the
//! library chooses; beside one SEND or WRITE alone, kernel TCP, and QUIC.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::quic::{Quic, What};
use super::thresholds::{self, Thresholds};
use crate::bench::claim::{self, Claim, Limit};
use crate::bench::samples::median;
use crate::bench::{Bench, chart, table};
use crate::error::Result;
use crate::tools::{Over, Run, number};

/// Bytes of a write.
const SIZES: &[u64] =
    &[64, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Where the ratios to one SEND and to one WRITE are asked for.
const SMALL: u64 = 64;
const LARGE: u64 = 1 << 20;
/// The ways, the one that the library chooses last.
const WAYS: [&str; 4] = ["send", "write", "read", "chosen"];
const CHOSEN: usize = 3;
/// The places behind the ways: of the chosen one without copies, of kernel TCP, and of QUIC.
const IN_PLACE: usize = 4;
const TCP: usize = 5;
const QUIC: usize = 6;
const SERIES: usize = 7;
/// Bytes of a bandwidth run.
const BYTES: u64 = 256 << 20;
/// Messages of a bandwidth run at most.
const MESSAGES_MAX: u64 = 400_000;
/// Bytes of a latency run, and its messages at most.
const LATENCY_BYTES: u64 = 64 << 20;
const ROUND_TRIPS_MAX: u64 = 20_000;
/// What a person is shown.
const NAMES: [&str; SERIES] =
    ["by SEND", "by WRITE", "by READ", "as chosen", "in place", "kernel TCP", "QUIC"];
/// QUIC encrypts, and is measured with so much less.
const QUIC_PART: u64 = 4;

/// What was measured of one size: a sample of each round, by series.
#[derive(Clone, Default)]
struct Cell {
    size: u64,
    gbps: [Vec<f64>; SERIES],
    micros: [Vec<f64>; SERIES],
}

/// What the ratios are over.
#[derive(Default)]
struct Alone {
    /// Half a round trip of a SEND of [`SMALL`] bytes.
    send_micros: Vec<f64>,
    /// WRITEs of [`LARGE`] bytes.
    write_gbps: Vec<f64>,
    /// Writes of [`LARGE`] bytes to a stream, with the checksum from end to end.
    checked_gbps: Vec<f64>,
}

/// Runs it, prints the tables, and writes the files.
pub fn run(bench: &Bench<'_>, quic: &Quic) -> Result<()> {
    let mut cells: Vec<Cell> = SIZES.iter().map(|&size| Cell { size, ..Cell::default() }).collect();
    let mut alone = Alone::default();
    let begun = Instant::now();
    let rounds = bench.rounds([1, 3], |round| {
        let parts = cells.len() + 1;
        let tell = |done: usize, what: &str| {
            let all = parts * usize::try_from(bench.pick(1, 3)).unwrap_or(1);
            let so_far = parts * usize::try_from(round - 1).unwrap_or(0) + done;
            let left = begun.elapsed().as_secs_f64() / so_far as f64 * (all - so_far) as f64;
            eprintln!("  {what} done; {left:.0} s left");
        };
        for (at, cell) in cells.iter_mut().enumerate() {
            cell.measure(bench, quic)?;
            tell(at + 1, &bytes(cell.size));
        }
        alone.measure(bench)?;
        tell(parts, "requests alone");
        Ok(())
    })?;
    let keys = keys(&cells, &alone);
    let best = Thresholds::best(&measured(&cells));
    let claims = claims(&keys);
    println!("{}\n", table_of("Gb/s", &cells, best, |cell| &cell.gbps, f64::max));
    println!("{}\n", table_of("us, half a round trip", &cells, best, |cell| &cell.micros, f64::min));
    println!("* the best way   < the way of the thresholds that suit this run best: {best}\n");
    println!("{}\n{}\n\n{}", table::of_keys(&keys), claim::table(&claims), bench.machine.line());
    let claims: Vec<Value> = claims.iter().map(Claim::to_json).collect();
    let details = json!({
        "rounds": rounds.done, "table": table_json(&cells), "best_thresholds": best.to_json(), "claims": claims,
    });
    bench.write_json(&details, &keys)?;
    bench.write_svg(|path| {
        let title = "Byte streams by the size of a write";
        let names: Vec<String> = cells.iter().map(|cell| bytes(cell.size)).collect();
        chart::lines_marked(
            path,
            title,
            ["bytes of a write", "Gb/s"],
            &names,
            &lines(&cells),
            &marks(&cells, best),
        )
    })?;
    rounds.end
}

/// What the issue of thresholds needs of each size.
fn measured(cells: &[Cell]) -> Vec<thresholds::Measured> {
    let of = |samples: &[Vec<f64>; SERIES]| [0, 1, 2].map(|way: usize| middle(&samples[way]));
    cells
        .iter()
        .map(|cell| thresholds::Measured { size: cell.size, gbps: of(&cell.gbps), micros: of(&cell.micros) })
        .collect()
}

/// Where the way changes with the thresholds that suit the run best.
fn marks(cells: &[Cell], best: Thresholds) -> Vec<(f64, String)> {
    let place = |from: u64| (0_u8..).map(f64::from).zip(cells).find(|(_, cell)| cell.size >= from);
    let mark = |(from, name): (Option<u64>, &str)| {
        let (at, _) = place(from?)?;
        Some((at - 0.5, format!("{name} from {}", bytes(from?))))
    };
    [(best.write_from, "WRITE"), (best.read_from, "READ")].into_iter().filter_map(mark).collect()
}

impl Cell {
    fn measure(&mut self, bench: &Bench<'_>, quic: &Quic) -> Result<()> {
        let size = self.size;
        let (messages, trips) = (messages(bench, size), round_trips(bench, size));
        let ways = WAYS.map(|way| format!("--way {way}"));
        let in_place = "--in-place".to_owned();
        for (series, way) in ways.into_iter().chain([in_place]).enumerate() {
            let stream = |tool, count: u64| {
                let options = format!("-s {size} -n {count} {way}");
                bench.run(&Run { tool, options: &options, wrapper: "", over: Over::Memif })
            };
            self.gbps[series].push(number(&stream("stream-bw", messages)?, "bw_avg_gbps")?);
            self.micros[series].push(number(&stream("stream-lat", trips)?, "lat_us/p50")?);
        }
        let tcp = |tool, count: u64| {
            let options = format!("-s {size} -n {count}");
            bench.run(&Run { tool, options: &options, wrapper: "", over: Over::Tcp })
        };
        self.gbps[TCP].push(number(&tcp("tcp-bw", messages)?, "bw_avg_gbps")?);
        self.micros[TCP].push(number(&tcp("tcp-lat", trips)?, "lat_us/p50")?);
        let part = |count: u64| (count / QUIC_PART).max(8);
        self.gbps[QUIC].push(quic.here(bench, What::Bandwidth, size, part(messages))?);
        self.micros[QUIC].push(quic.here(bench, What::Latency, size, part(trips))?);
        Ok(())
    }

    /// What the chosen way reaches of the best one: of throughput and of latency.
    fn chosen_of_best(&self) -> [f64; 2] {
        let of = |samples: &[Vec<f64>; SERIES], better: fn(f64, f64) -> f64| {
            let all: Vec<f64> = samples[..=CHOSEN].iter().map(|samples| middle(samples)).collect();
            let best = all.iter().copied().reduce(better).unwrap_or(f64::NAN);
            (all[CHOSEN], best)
        };
        let ((gbps, most), (micros, least)) = (of(&self.gbps, f64::max), of(&self.micros, f64::min));
        [gbps / most, least / micros]
    }
}

impl Alone {
    fn measure(&mut self, bench: &Bench<'_>) -> Result<()> {
        let run = |tool, size: u64, count: u64| {
            let options = format!("-s {size} -n {count}");
            bench.run(&Run { tool, options: &options, wrapper: "", over: Over::Memif })
        };
        let trips = round_trips(bench, SMALL);
        self.send_micros.push(number(&run("send-lat", SMALL, trips)?, "lat_us/p50")?);
        let count = messages(bench, LARGE);
        self.write_gbps.push(number(&run("write-bw", LARGE, count)?, "bw_avg_gbps")?);
        let options = format!("-s {LARGE} -n {count} --checked");
        let checked = Run { tool: "stream-bw", options: &options, wrapper: "", over: Over::Memif };
        self.checked_gbps.push(number(&bench.run(&checked)?, "bw_avg_gbps")?);
        Ok(())
    }
}

fn messages(bench: &Bench<'_>, size: u64) -> u64 {
    (BYTES * bench.pick(1, 4) / size).clamp(8, MESSAGES_MAX)
}

fn round_trips(bench: &Bench<'_>, size: u64) -> u64 {
    (LATENCY_BYTES * bench.pick(1, 4) / size).clamp(8, ROUND_TRIPS_MAX)
}

fn middle(samples: &[f64]) -> f64 {
    median(samples).unwrap_or(f64::NAN)
}

/// The figures that are asked for.
fn keys(cells: &[Cell], alone: &Alone) -> Map<String, Value> {
    let least =
        |index: usize| cells.iter().map(|cell| cell.chosen_of_best()[index]).fold(f64::INFINITY, f64::min);
    let of = |size: u64| cells.iter().find(|cell| cell.size == size);
    let small = of(SMALL).map(|cell| middle(&cell.micros[CHOSEN]) / middle(&alone.send_micros));
    let large =
        |series: usize, samples: &[f64]| of(LARGE).map(|cell| middle(&cell.gbps[series]) / middle(samples));
    let checked = large(CHOSEN, &alone.checked_gbps).map(f64::recip);
    let mut keys = Map::new();
    keys.insert("chosen_of_best_gbps".into(), json!(least(0)));
    keys.insert("chosen_of_best_latency".into(), json!(least(1)));
    keys.insert("lat_64b_vs_send".into(), json!(small));
    keys.insert("bw_1mib_in_place_vs_write".into(), json!(large(IN_PLACE, &alone.write_gbps)));
    keys.insert("bw_1mib_copied_vs_write".into(), json!(large(CHOSEN, &alone.write_gbps)));
    keys.insert("bw_1mib_checked_vs_not".into(), json!(checked));
    keys
}

/// What is claimed of the figures.
fn claims(keys: &Map<String, Value>) -> Vec<Claim> {
    [
        (
            "throughput of the chosen way over the best way's, worst size",
            "chosen_of_best_gbps",
            Limit::AtLeast(0.9),
        ),
        (
            "latency of the best way over the chosen way's, worst size",
            "chosen_of_best_latency",
            Limit::AtLeast(0.9),
        ),
        ("half a round trip of 64 B over a SEND's", "lat_64b_vs_send", Limit::AtMost(1.5)),
        ("1 MiB writes in place over `srnic write-bw`", "bw_1mib_in_place_vs_write", Limit::AtLeast(0.85)),
    ]
    .map(|(what, key, limit)| {
        Claim::new(what, limit, keys.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN))
    })
    .to_vec()
}

/// A row of each size; the best way has a star, and the one of `best` an angle.
fn table_of(
    unit: &str,
    cells: &[Cell],
    best_thresholds: Thresholds,
    samples: impl Fn(&Cell) -> &[Vec<f64>; SERIES],
    better: fn(f64, f64) -> f64,
) -> String {
    let mut table = format!("{unit:24}");
    NAMES.iter().for_each(|name| table += &format!(" {name:>12}"));
    for cell in cells {
        let all: Vec<f64> = samples(cell).iter().map(|samples| middle(samples)).collect();
        let best = all[..CHOSEN].iter().copied().reduce(better);
        table += &format!("\n{:24}", bytes(cell.size));
        for (series, value) in all.iter().enumerate() {
            let star = if series < CHOSEN && Some(*value) == best { "*" } else { " " };
            let angle = if series == best_thresholds.way(cell.size) { "<" } else { " " };
            table += &format!(" {value:>10.2}{star}{angle}");
        }
    }
    table
}

fn table_json(cells: &[Cell]) -> Value {
    let mut rows = Vec::new();
    for cell in cells {
        for (series, name) in NAMES.iter().enumerate() {
            rows.push(json!({
                "size": cell.size, "series": name,
                "bw_avg_gbps": middle(&cell.gbps[series]), "bw_samples": cell.gbps[series],
                "lat_us_p50": middle(&cell.micros[series]), "lat_samples": cell.micros[series],
            }));
        }
    }
    json!(rows)
}

fn lines(cells: &[Cell]) -> Vec<chart::Line<'static>> {
    let points =
        |series: usize| (0_u8..).map(f64::from).zip(cells.iter().map(move |cell| middle(&cell.gbps[series])));
    let line =
        |(series, name): (usize, &&'static str)| chart::Line { name, points: points(series).collect() };
    NAMES.iter().enumerate().map(line).collect()
}

/// A size as a person says it.
fn bytes(size: u64) -> String {
    match size {
        0..=1023 => format!("{size} B"),
        1024..=1_048_575 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", size >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(size: u64, gbps: [f64; SERIES], micros: [f64; SERIES]) -> Cell {
        Cell { size, gbps: gbps.map(|value| vec![value; 3]), micros: micros.map(|value| vec![value; 3]) }
    }

    #[test]
    fn the_figures_are_those_of_the_worst_size_and_of_one_request_alone() {
        let cells = [
            cell(SMALL, [4.0, 2.0, 1.0, 3.0, 9.5, 9.0, 8.0], [5.0, 6.0, 9.0, 6.0, 0.5, 1.0, 2.0]),
            cell(LARGE, [10.0, 20.0, 15.0, 19.0, 34.2, 90.0, 8.0], [50.0, 40.0, 45.0, 40.0, 0.5, 1.0, 2.0]),
        ];
        let alone = Alone { send_micros: vec![4.0], write_gbps: vec![38.0], checked_gbps: vec![9.5] };
        let keys = keys(&cells, &alone);
        assert_eq!((&keys["chosen_of_best_gbps"], &keys["lat_64b_vs_send"]), (&json!(0.75), &json!(1.5)));
        assert_eq!(
            (&keys["bw_1mib_copied_vs_write"], &keys["chosen_of_best_latency"]),
            (&json!(0.5), &json!(5.0 / 6.0))
        );
        assert_eq!(
            (&keys["bw_1mib_checked_vs_not"], &keys["bw_1mib_in_place_vs_write"]),
            (&json!(0.5), &json!(0.9))
        );
        let kept: Vec<bool> = claims(&keys).iter().map(Claim::is_kept).collect();
        assert_eq!(kept, [false, false, true, true]);
        let best = Thresholds::best(&measured(&cells));
        assert_eq!(best, Thresholds { write_from: Some(LARGE), read_from: None });
        let table = table_of("Gb/s", &cells, best, |cell| &cell.gbps, f64::max);
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(rows[0].starts_with("64 B ") && rows[0].contains("4.00*<"), "{table}");
        assert!(rows[1].starts_with("1 MiB ") && rows[1].contains("20.00*<"), "{table}");
        assert_eq!(marks(&cells, best), [(0.5, "WRITE from 1 MiB".to_owned())]);
    }
}
