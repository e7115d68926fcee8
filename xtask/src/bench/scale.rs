//! `cargo xtask bench scale`: the rate of 512-byte SENDs against the number of queue pairs, whose
//! receives are their own or come from one shared receive queue.

use serde_json::{Map, Value, json};

use super::bracket::{self, Bracket};
use super::samples::median;
use super::{Bench, chart, table};
use crate::error::Result;
use crate::tools::{Over, Run, number};

/// Queue pairs.
const COUNTS: &[u64] = &[1, 4, 16, 64, FEW, 512, 1000, 2000, 5000, MANY, 16_000];
/// Those of a quick run.
const QUICK: &[u64] = &[1, FEW, 1000, MANY];
/// What is asked for is the rate of many over that of few, which are measured side by side.
const FEW: u64 = 128;
const MANY: u64 = 10_000;
/// A name, and where the receives are; as many for all together as keep the shared queue in the
/// caches.
const SERIES: [(&str, &str); 2] =
    [("own receive queues", "-r 32"), ("one shared receive queue", "--use-srq -r 2048")];
/// All but the receives. Depths are those of each queue pair.
const OPTIONS: &str = "-s 512 -t 16 -l 4 -Q 8 -u 18";

/// What was measured with so many queue pairs.
#[derive(Default)]
struct Point {
    count: u64,
    /// Millions of messages a second, of each series one for each run.
    rates: [Vec<f64>; 2],
    /// Of the sender's engine, with receive queues of their own.
    engine_bytes: f64,
    hot_bytes_per_qp: f64,
}

/// What was measured.
struct Measured {
    points: Vec<Point>,
    /// Of each series, many queue pairs between two runs of few.
    brackets: [Vec<Bracket>; 2],
    /// Times that the machine changed its speed under a ratio again and again.
    unsteady: u64,
}

/// Runs it, prints the table, and writes the files.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    let mut measured = Measured::new(if bench.options.quick { QUICK } else { COUNTS });
    let rounds = bench.rounds([3, 5], |_| measured.round(bench))?;
    let (keys, points) = (measured.keys(), &measured.points);
    println!("{}\n", table_of(points));
    println!("{}\n{}", table::of_keys(&keys), bench.machine.line());
    bracket::report_unsteady(measured.unsteady);
    bench.write_json(&measured.to_json(rounds.done), &keys)?;
    let names: Vec<String> = points.iter().map(|point| point.count.to_string()).collect();
    bench.write_svg(|path| {
        let title = "SENDs of 512 bytes against queue pairs";
        chart::lines(path, title, ["queue pairs", "millions a second"], &names, &lines(points))
    })?;
    rounds.end
}

impl Measured {
    fn new(counts: &[u64]) -> Self {
        let points = counts.iter().map(|&count| Point { count, ..Point::default() }).collect();
        Self { points, brackets: Default::default(), unsteady: 0 }
    }

    fn round(&mut self, bench: &Bench<'_>) -> Result<()> {
        for series in 0..SERIES.len() {
            let (mut few, mut many) = (None, None);
            for point in &mut self.points {
                match point.count {
                    FEW => few = Some(point),
                    MANY => many = Some(point),
                    _ => {
                        point.measure(bench, series)?;
                    }
                }
            }
            let (Some(few), Some(many)) = (few, many) else { continue };
            match bracket::measure(|| few.measure(bench, series), || many.measure(bench, series))? {
                Some(bracket) => self.brackets[series].push(bracket),
                None => self.unsteady += 1,
            }
        }
        Ok(())
    }

    /// The figures that are asked for.
    fn keys(&self) -> Map<String, Value> {
        let ratio = |series: usize| {
            let ratios: Vec<f64> = self.brackets[series].iter().map(Bracket::ratio).collect();
            median(&ratios)
        };
        let many = self.points.iter().find(|point| point.count == MANY);
        let mut keys = Map::new();
        keys.insert("qp10k_vs_qp128".into(), json!(ratio(0)));
        keys.insert("qp10k_vs_qp128_srq".into(), json!(ratio(1)));
        keys.insert("hot_bytes_per_qp".into(), json!(many.map(|point| point.hot_bytes_per_qp)));
        keys.insert("engine_bytes_10k".into(), json!(many.map(|point| point.engine_bytes)));
        keys
    }

    fn to_json(&self, rounds: u64) -> Value {
        let [own, shared] = self.brackets.each_ref().map(bracket::to_json);
        json!({
            "rounds": rounds, "options": OPTIONS, "table": table_json(&self.points),
            "brackets": { "qp10k_vs_qp128": own, "qp10k_vs_qp128_srq": shared }, "unsteady": self.unsteady,
        })
    }
}

impl Point {
    /// Runs one of the series, and returns its rate.
    fn measure(&mut self, bench: &Bench<'_>, series: usize) -> Result<f64> {
        let iters = (bench.pick(2_000_000, 6_000_000) / self.count).max(64);
        let (_, receives) = SERIES[series];
        let options = format!("{OPTIONS} {receives} -q {} -n {iters}", self.count);
        let run = Run { tool: "send-bw", options: &options, wrapper: "", over: Over::Memif };
        let result = bench.run(&run)?;
        if series == 0 {
            self.engine_bytes = number(&result, "engine_bytes")?;
            self.hot_bytes_per_qp = number(&result, "hot_bytes_per_qp")?;
        }
        let rate = number(&result, "msg_rate_mpps")?;
        self.rates[series].push(rate);
        Ok(rate)
    }
}

fn rate(point: &Point, series: usize) -> f64 {
    median(&point.rates[series]).unwrap_or(f64::NAN)
}

fn table_of(points: &[Point]) -> String {
    let mut table =
        format!("{:>12} {:>26} {:>26} {:>14}", "queue pairs", SERIES[0].0, SERIES[1].0, "engine, MB");
    for point in points {
        let [own, shared] = [0, 1].map(|series| rate(point, series));
        let megabytes = point.engine_bytes / 1e6;
        table += &format!("\n{:>12} {own:>22.3} M/s {shared:>22.3} M/s {megabytes:>14.2}", point.count);
    }
    table
}

fn table_json(points: &[Point]) -> Value {
    let row = |point: &Point| {
        json!({
            "qps": point.count, "msg_rate_mpps": rate(point, 0), "msg_rate_mpps_srq": rate(point, 1),
            "samples": point.rates[0], "samples_srq": point.rates[1], "engine_bytes": point.engine_bytes,
        })
    };
    points.iter().map(row).collect()
}

fn lines(points: &[Point]) -> Vec<chart::Line<'static>> {
    let of = |series: usize| {
        (0_u8..).map(f64::from).zip(points.iter().map(move |point| rate(point, series))).collect()
    };
    SERIES.iter().enumerate().map(|(index, (name, _))| chart::Line { name, points: of(index) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(before: f64, of: f64, after: f64) -> Bracket {
        Bracket { before, of, after }
    }

    #[test]
    fn many_are_compared_with_few_that_ran_beside_them() {
        let mut measured = Measured::new(QUICK);
        measured.brackets[0] = vec![bracket(4.0, 3.0, 4.0), bracket(0.9, 0.9, 1.1), bracket(8.0, 5.0, 8.0)];
        measured.brackets[1] = vec![bracket(5.0, 4.5, 5.0)];
        for point in &mut measured.points {
            (point.hot_bytes_per_qp, point.engine_bytes) = (256.0, 1024.0);
        }
        let keys = measured.keys();
        assert_eq!((&keys["qp10k_vs_qp128"], &keys["qp10k_vs_qp128_srq"]), (&json!(0.75), &json!(0.9)));
        assert_eq!((&keys["hot_bytes_per_qp"], &keys["engine_bytes_10k"]), (&json!(256.0), &json!(1024.0)));
        assert_eq!(measured.to_json(3)["brackets"]["qp10k_vs_qp128_srq"], json!([[5.0, 4.5, 5.0]]));
    }

    #[test]
    fn every_count_has_a_row() {
        for counts in [QUICK, COUNTS] {
            assert!(counts.contains(&FEW) && counts.contains(&MANY));
            assert_eq!(table_of(&Measured::new(counts).points).lines().count(), 1 + counts.len());
        }
        assert!(Measured::new(QUICK).keys()["qp10k_vs_qp128"].is_null());
    }
}
