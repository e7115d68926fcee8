//! `cargo xtask bench loss`: goodput against loss, as in the paper's Figure 11, with selective
//! repeat and with go-back-N.
//!
//! The client writes 4 KB messages; its port drops what it sends, or both ways. "As shipped" is
//! what a program gets that chooses nothing; the other series have a constant window of 500
//! packets.
//! Without loss it stands behind the same injector, so that what is compared is the loss.

use serde_json::{Map, Value, json};

use super::samples::median;
use super::{Bench, chart};
use crate::error::Result;
use crate::tools::{Over, Run, number};

/// Percent.
const LOSSES: &[&str] = &["0", "0.001", "0.01", "0.1", "0.5", "1", "2", "5"];
/// Where 1 % stands.
const ONE_PERCENT: usize = 5;
/// A name, the options that make it, and which frames are lost; those at [`SHIPPED`] and
/// [`GO_BACK_N`] are judged.
const SERIES: &[(&str, &str, &str)] = &[
    ("as shipped", "", "tx"),
    ("selective repeat, window 500", "--window 500 --cc fixed", "tx"),
    ("go-back-N, window 500", GO_BACK, "tx"),
    ("as shipped, loss both ways", "", "both"),
    ("go-back-N, loss both ways", GO_BACK, "both"),
];
const GO_BACK: &str = "--window 500 --cc fixed --recovery go-back-n";
/// Where the defaults stand.
const SHIPPED: usize = 0;
/// Where go-back-N stands.
const GO_BACK_N: usize = 2;

/// Samples of one series at one loss.
#[derive(Clone, Default)]
struct Cell {
    gbps: Vec<f64>,
    /// Packets sent again for each that was lost, of all rounds together.
    retransmits: f64,
    drops: f64,
}

impl Cell {
    fn gbps(&self) -> f64 {
        median(&self.gbps).unwrap_or(f64::NAN)
    }
}

/// Runs it, prints the table, and writes the files.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    let mut cells = vec![vec![Cell::default(); LOSSES.len()]; SERIES.len()];
    let mut round_trips = Vec::new();
    let rounds = bench.rounds([3, 7], |round| {
        for (index, loss) in LOSSES.iter().enumerate() {
            for (series, row) in SERIES.iter().zip(&mut cells) {
                measure(bench, round, loss, *series, &mut row[index])?;
            }
        }
        round_trips.push(round_trip_p99(bench, round)?);
        Ok(())
    })?;
    let keys = keys(&cells, &round_trips);
    println!("{}\n", table(&cells));
    println!("{}\n{}", super::table::of_keys(&keys), bench.machine.line());
    let names: Vec<String> = LOSSES.iter().map(|loss| format!("{loss} %")).collect();
    bench.write_json(&json!({ "rounds": rounds.done, "table": table_json(&cells) }), &keys)?;
    bench.write_svg(|path| {
        let title = "Goodput of 4 KB WRITEs against loss";
        chart::lines(path, title, ["packets lost", "Gb/s"], &names, &lines(&cells))
    })?;
    rounds.end
}

fn measure(
    bench: &Bench<'_>,
    round: u64,
    loss: &str,
    (_, series, direction): (&str, &str, &str),
    cell: &mut Cell,
) -> Result<()> {
    let wrapper = format!("fault:loss={loss}%,dir={direction},seed={round}:");
    // Go-back-N takes long where there is much loss.
    let iters = bench.pick(100_000, 400_000) / if series == GO_BACK { 4 } else { 1 };
    let options = format!("-s 4096 -m 4096 -n {iters} -t 1024 {series} -u 18");
    let run = Run { tool: "write-bw", options: &options, wrapper: &wrapper, over: Over::Memif };
    let result = bench.run(&run)?;
    cell.gbps.push(number(&result, "bw_avg_gbps")?);
    cell.retransmits += number(&result, "retransmits")?;
    cell.drops += number(&result, "drops")?;
    Ok(())
}

/// Of 64-byte round trips at 1 % loss both ways, in microseconds.
fn round_trip_p99(bench: &Bench<'_>, round: u64) -> Result<f64> {
    let wrapper = format!("fault:loss=1%,seed={round}:");
    let options = format!("-s 64 -n {} -u 18", bench.pick(20_000, 100_000));
    let run = Run { tool: "write-lat", options: &options, wrapper: &wrapper, over: Over::Memif };
    // The tool shows half of each.
    Ok(2.0 * number(&bench.run(&run)?, "lat_us/p99")?)
}

/// The figures that are asked for.
fn keys(cells: &[Vec<Cell>], round_trips: &[f64]) -> Map<String, Value> {
    let (selective, go_back_n) = (&cells[SHIPPED], &cells[GO_BACK_N]);
    let of_rounds = |one: &Cell, two: &Cell| {
        let ratios: Vec<f64> = one.gbps.iter().zip(&two.gbps).map(|(one, two)| one / two).collect();
        median(&ratios)
    };
    let at_one = &selective[ONE_PERCENT];
    let mut keys = Map::new();
    keys.insert("goodput_1pct_vs_lossless".into(), json!(of_rounds(at_one, &selective[0])));
    keys.insert("sr_vs_gbn_1pct".into(), json!(of_rounds(at_one, &go_back_n[ONE_PERCENT])));
    keys.insert("retransmitted_per_lost".into(), json!(at_one.retransmits / at_one.drops));
    keys.insert("rtt_64b_1pct_p99_us".into(), json!(median(round_trips)));
    keys
}

fn table(cells: &[Vec<Cell>]) -> String {
    let mut table = format!("{:34}", "Gb/s at a loss of");
    LOSSES.iter().for_each(|loss| table += &format!(" {:>8}", format!("{loss} %")));
    for ((name, ..), row) in SERIES.iter().zip(cells) {
        table += &format!("\n{name:34}");
        row.iter().for_each(|cell| table += &format!(" {:>8.2}", cell.gbps()));
        table += &format!("\n{:34}", "  sent again for each lost");
        let again = |cell: &Cell| if cell.drops > 0.0 { cell.retransmits / cell.drops } else { f64::NAN };
        row.iter().map(again).for_each(|ratio| {
            table += &if ratio.is_nan() { format!(" {:>8}", "-") } else { format!(" {ratio:>8.2}") };
        });
    }
    table
}

fn table_json(cells: &[Vec<Cell>]) -> Value {
    let mut rows = Vec::new();
    for ((name, options, direction), row) in SERIES.iter().zip(cells) {
        for (loss, cell) in LOSSES.iter().zip(row) {
            rows.push(json!({
                "series": name, "options": options, "direction": direction,
                "loss_percent": loss.parse::<f64>().ok(), "bw_avg_gbps": cell.gbps(), "samples": cell.gbps,
                "retransmits": cell.retransmits, "drops": cell.drops,
            }));
        }
    }
    json!(rows)
}

fn lines(cells: &[Vec<Cell>]) -> Vec<chart::Line<'static>> {
    let points = |row: &[Cell]| (0_u8..).map(f64::from).zip(row.iter().map(Cell::gbps)).collect();
    SERIES.iter().zip(cells).map(|((name, ..), row)| chart::Line { name, points: points(row) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_the_data_direction_at_one_percent() {
        assert_eq!(LOSSES[ONE_PERCENT], "1");
        let cell = |gbps: f64, retransmits, drops| Cell { gbps: vec![gbps; 3], retransmits, drops };
        let mut cells = vec![vec![cell(1.0, 0.0, 1.0); LOSSES.len()]; SERIES.len()];
        cells[SHIPPED][0] = cell(100.0, 0.0, 0.0);
        cells[SHIPPED][ONE_PERCENT] = cell(90.0, 110.0, 100.0);
        cells[GO_BACK_N][ONE_PERCENT] = cell(20.0, 900.0, 100.0);
        let keys = keys(&cells, &[80.0, 90.0, 70.0]);
        assert_eq!((&keys["goodput_1pct_vs_lossless"], &keys["sr_vs_gbn_1pct"]), (&json!(0.9), &json!(4.5)));
        assert_eq!(
            (&keys["retransmitted_per_lost"], &keys["rtt_64b_1pct_p99_us"]),
            (&json!(1.1), &json!(80.0))
        );
        let table = table(&cells);
        assert!(
            table.lines().nth(1).is_some_and(|row| row.contains("100.00") && row.contains("90.00")),
            "{table}"
        );
    }
}
