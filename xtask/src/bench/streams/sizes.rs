//! Byte streams by size of the writes, by each way that their bytes can go and by the one that the
//! library chooses; beside one SEND or WRITE alone, kernel TCP, and QUIC.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::cell::{
    CHOSEN, Cell, Figure, OPTION_IN_PLACE, SERIES, by, messages, middle, round_trips, stream_gbps,
    stream_micros, worst,
};
use super::quic::Quic;
use super::thresholds::{self, Thresholds};
use crate::bench::bracket;
use crate::bench::claim::{self, Claim, Limit};
use crate::bench::measured::{Measured, Ratio};
use crate::bench::{Bench, chart, table};
use crate::error::Result;
use crate::tools::{Over, Run, number};

/// Bytes of a write.
const SIZES: &[u64] =
    &[64, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Where the ratios to one SEND and to one WRITE are asked for.
const SMALL: u64 = 64;
const LARGE: u64 = 1 << 20;
/// What a person is shown.
const NAMES: [&str; SERIES] =
    ["by SEND", "by WRITE", "by READ", "as chosen", "in place", "kernel TCP", "QUIC"];
/// How often a ratio is measured in a round.
const PAIRS: [u64; 2] = [2, 3];

/// A stream beside one request alone, or beside a stream with the checksum from end to end.
#[rustfmt::skip]
const RATIOS: [Ratio; 4] = [
    Ratio { key: "lat_64b_vs_send", of: "stream_64b_us", over: "send_64b_us" },
    Ratio { key: "bw_1mib_in_place_vs_write", of: "in_place_1mib_gbps", over: "write_1mib_gbps" },
    Ratio { key: "bw_1mib_copied_vs_write", of: "copied_1mib_gbps", over: "write_1mib_gbps" },
    Ratio { key: "bw_1mib_checked_vs_not", of: "checked_1mib_gbps", over: "copied_1mib_gbps" },
];

/// Runs it, prints the tables, and writes the files.
pub fn run(bench: &Bench<'_>, quic: &Quic) -> Result<()> {
    let mut cells: Vec<Cell> = SIZES.iter().map(|&size| Cell { size, ..Cell::default() }).collect();
    let mut alone = Measured::default();
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
        measure_alone(bench, &mut alone)?;
        tell(parts, "requests alone");
        Ok(())
    })?;
    let keys = keys(&cells, &alone);
    let best = Thresholds::best(&measured(&cells));
    let claims = claims(&keys);
    println!("{}\n", table_of("Gb/s", &cells, best, |cell| &cell.gbps.samples, f64::max));
    println!("{}\n", table_of("us, half a round trip", &cells, best, |cell| &cell.micros.samples, f64::min));
    println!("* the best way   < the way of the thresholds that suit this run best: {best}\n");
    println!("{}\n{}\n\n{}", table::of_keys(&keys), claim::table(&claims), bench.machine.line());
    alone.report_unsteady();
    bracket::report_unsteady(cells.iter().map(|cell| cell.gbps.unsteady + cell.micros.unsteady).sum());
    let claims: Vec<Value> = claims.iter().map(Claim::to_json).collect();
    let details = json!({
        "table": table_json(&cells), "best_thresholds": best.to_json(), "claims": claims,
        "alone": alone.to_json(rounds.done, RATIOS.iter().flat_map(|ratio| [ratio.of, ratio.over]), RATIOS.iter()),
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

/// What the choice of thresholds needs of each size.
fn measured(cells: &[Cell]) -> Vec<thresholds::Measured> {
    let of = |figure: &Figure| [0, 1, 2].map(|way: usize| middle(&figure.samples[way]));
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

/// Measures each of [`RATIOS`] some times more.
fn measure_alone(bench: &Bench<'_>, alone: &mut Measured) -> Result<()> {
    let copied = by(CHOSEN);
    let send = || request(bench, "send-lat", SMALL, round_trips(bench, SMALL), "lat_us/p50");
    let write = || request(bench, "write-bw", LARGE, messages(bench, LARGE), "bw_avg_gbps");
    let large = |options: &str| stream_gbps(bench, LARGE, options);
    let [latency, in_place, beside_write, checked] = &RATIOS;
    for _ in 0..bench.pick(PAIRS[0], PAIRS[1]) {
        alone.compare(latency, send, || stream_micros(bench, SMALL, &copied))?;
        alone.compare(in_place, write, || large(OPTION_IN_PLACE))?;
        alone.compare(beside_write, write, || large(&copied))?;
        alone.compare(checked, || large(&copied), || large("--checked"))?;
    }
    Ok(())
}

/// A figure of a tool that posts requests of `size` bytes.
fn request(bench: &Bench<'_>, tool: &str, size: u64, count: u64, figure: &str) -> Result<f64> {
    let options = format!("-s {size} -n {count}");
    number(&bench.run(&Run { tool, options: &options, wrapper: "", over: Over::Memif })?, figure)
}

/// The figures that are asked for.
fn keys(cells: &[Cell], alone: &Measured) -> Map<String, Value> {
    let least = |index: usize| worst(cells.iter().map(|cell| cell.chosen_of_best()[index]));
    let mut keys: Map<String, Value> =
        RATIOS.iter().map(|ratio| (ratio.key.to_owned(), json!(alone.median_of(ratio)))).collect();
    keys.insert("chosen_of_best_gbps".into(), json!(least(0)));
    keys.insert("chosen_of_best_latency".into(), json!(least(1)));
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
            let (gbps, micros) = (&cell.gbps.samples[series], &cell.micros.samples[series]);
            rows.push(json!({
                "size": cell.size, "series": name,
                "bw_avg_gbps": middle(gbps), "bw_samples": gbps,
                "lat_us_p50": middle(micros), "lat_samples": micros,
            }));
        }
    }
    json!(rows)
}

fn lines(cells: &[Cell]) -> Vec<chart::Line<'static>> {
    let points = |series: usize| {
        (0_u8..).map(f64::from).zip(cells.iter().map(move |cell| middle(&cell.gbps.samples[series])))
    };
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
    use crate::bench::bracket::Bracket;

    /// By the values of the series.
    fn figure(values: [f64; SERIES]) -> Figure {
        let chosen = values[CHOSEN];
        let beside = |way| vec![Bracket { before: chosen, of: values[way], after: chosen }];
        Figure {
            samples: values.map(|value| vec![value; 3]),
            beside_chosen: [0, 1, 2].map(beside),
            unsteady: 0,
        }
    }

    fn cell(size: u64, gbps: [f64; SERIES], micros: [f64; SERIES]) -> Cell {
        Cell { size, gbps: figure(gbps), micros: figure(micros) }
    }

    #[test]
    fn the_figures_are_those_of_the_worst_size_and_of_one_request_alone() {
        let cells = [
            cell(SMALL, [4.0, 2.0, 1.0, 3.0, 9.5, 9.0, 8.0], [5.0, 6.0, 9.0, 6.0, 0.5, 1.0, 2.0]),
            cell(LARGE, [10.0, 20.0, 15.0, 19.0, 34.2, 90.0, 8.0], [50.0, 40.0, 45.0, 40.0, 0.5, 1.0, 2.0]),
        ];
        let mut alone = Measured::default();
        for (ratio, [of, over]) in RATIOS.iter().zip([[6.0, 4.0], [34.2, 38.0], [19.0, 38.0], [9.5, 19.0]]) {
            alone.take(ratio, Bracket { before: over, of, after: over });
        }
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
        let table = table_of("Gb/s", &cells, best, |cell| &cell.gbps.samples, f64::max);
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(rows[0].starts_with("64 B ") && rows[0].contains("4.00*<"), "{table}");
        assert!(rows[1].starts_with("1 MiB ") && rows[1].contains("20.00*<"), "{table}");
        assert_eq!(marks(&cells, best), [(0.5, "WRITE from 1 MiB".to_owned())]);
    }
}
