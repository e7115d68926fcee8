//! `cargo xtask bench scale`: the rate of 512-byte SENDs against the number of queue pairs, whose receives are their own
//! or come from one shared receive queue.

use serde_json::{Map, Value, json};

use super::samples::median;
use super::{Bench, chart, table};
use crate::error::Result;
use crate::tools::{Over, Run, number};

/// Queue pairs.
const COUNTS: &[u64] = &[1, 4, 16, 64, 128, 512, 1000, 2000, 5000, 10_000, 16_000];
/// Those of a quick run.
const QUICK: &[u64] = &[1, 128, 1000, 10_000];
/// A name, and where the receives are; as many for all together as keep the shared queue in the caches.
const SERIES: [(&str, &str); 2] =
    [("own receive queues", "-r 32"), ("one shared receive queue", "--use-srq -r 2048")];
/// All but the receives. Depths are those of each queue pair.
const OPTIONS: &str = "-s 512 -t 16 -l 4 -Q 8 -u 18";

/// What was measured with so many queue pairs.
struct Point {
    count: u64,
    /// Millions of messages a second, of each series one for each round.
    rates: [Vec<f64>; 2],
    /// Of the sender's engine, with receive queues of their own.
    engine_bytes: f64,
    hot_bytes_per_qp: f64,
}

/// Runs it, prints the table, and writes the files.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    let counts = if bench.options.quick { QUICK } else { COUNTS };
    let new = |&count| Point { count, rates: Default::default(), engine_bytes: 0.0, hot_bytes_per_qp: 0.0 };
    let mut points: Vec<Point> = counts.iter().map(new).collect();
    let rounds = bench.rounds([3, 5], |_| points.iter_mut().try_for_each(|point| measure(bench, point)))?;
    let keys = keys(&points);
    println!("{}\n", table_of(&points));
    println!("{}\n{}", table::of_keys(&keys), bench.machine.line());
    bench.write_json(
        &json!({ "rounds": rounds.done, "options": OPTIONS, "table": table_json(&points) }),
        &keys,
    )?;
    let names: Vec<String> = points.iter().map(|point| point.count.to_string()).collect();
    bench.write_svg(|path| {
        let title = "SENDs of 512 bytes against queue pairs";
        chart::lines(path, title, ["queue pairs", "millions a second"], &names, &lines(&points))
    })?;
    rounds.end
}

fn measure(bench: &Bench<'_>, point: &mut Point) -> Result<()> {
    let iters = (bench.pick(2_000_000, 6_000_000) / point.count).max(64);
    for (index, (_, receives)) in SERIES.iter().enumerate() {
        let options = format!("{OPTIONS} {receives} -q {} -n {iters}", point.count);
        let run = Run { tool: "srnic_send_bw", options: &options, wrapper: "", over: Over::Memif };
        let result = bench.run(&run)?;
        point.rates[index].push(number(&result, "msg_rate_mpps")?);
        if index == 0 {
            point.engine_bytes = number(&result, "engine_bytes")?;
            point.hot_bytes_per_qp = number(&result, "hot_bytes_per_qp")?;
        }
    }
    Ok(())
}

/// The figures that are asked for.
fn keys(points: &[Point]) -> Map<String, Value> {
    let of = |count| points.iter().find(|point| point.count == count);
    let ratio = |series: usize| {
        let (many, few) = (&of(10_000)?.rates[series], &of(128)?.rates[series]);
        let ratios: Vec<f64> = many.iter().zip(few).map(|(many, few)| many / few).collect();
        median(&ratios)
    };
    let mut keys = Map::new();
    keys.insert("qp10k_vs_qp128".into(), json!(ratio(0)));
    keys.insert("qp10k_vs_qp128_srq".into(), json!(ratio(1)));
    keys.insert("hot_bytes_per_qp".into(), json!(of(10_000).map(|point| point.hot_bytes_per_qp)));
    keys.insert("engine_bytes_10k".into(), json!(of(10_000).map(|point| point.engine_bytes)));
    keys
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

    fn point(count: u64, rate: f64, shared: f64) -> Point {
        let rates = [vec![rate; 3], vec![shared; 3]];
        Point { count, rates, engine_bytes: 1024.0, hot_bytes_per_qp: 256.0 }
    }

    #[test]
    fn ten_thousand_are_compared_with_a_hundred_and_twenty_eight() {
        for counts in [QUICK, COUNTS] {
            assert!(counts.contains(&128) && counts.contains(&10_000));
        }
        let points = [point(1, 9.0, 9.0), point(128, 4.0, 5.0), point(10_000, 3.0, 4.5)];
        let keys = keys(&points);
        assert_eq!((&keys["qp10k_vs_qp128"], &keys["qp10k_vs_qp128_srq"]), (&json!(0.75), &json!(0.9)));
        assert_eq!((&keys["hot_bytes_per_qp"], &keys["engine_bytes_10k"]), (&json!(256.0), &json!(1024.0)));
        assert_eq!(table_of(&points).lines().count(), 4);
    }
}
