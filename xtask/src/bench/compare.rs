//! `cargo xtask bench compare`: srnic beside raw frames on the same port, TCP and UCX on the same
//! machine, in turn.

use serde_json::{Map, Value, json};

use super::bracket::{self, Bracket};
use super::contender::{CONTENDERS, Contender, Metric};
use super::samples::{Samples, median};
use super::{Bench, chart, table};
use crate::error::Result;

/// A figure of ours over another that is measured before and after it.
struct Ratio {
    key: &'static str,
    of: &'static str,
    over: &'static str,
}

/// Over the native memif and over DPDK's each is judged by raw frames of its own. Raw frames of the
/// native one whose payload nobody touches move nothing but descriptors, so they are no measure of
/// bandwidth.
#[rustfmt::skip]
const RATIOS: &[Ratio] = &[
    Ratio { key: "bw_vs_raw_copy_crc", of: "bw", over: "raw_copy_crc_bw" },
    Ratio { key: "bw_dpdk_vs_raw", of: "bw_dpdk", over: "raw_bw_dpdk" },
    Ratio { key: "bw_dpdk_vs_raw_copy_crc", of: "bw_dpdk", over: "raw_copy_crc_bw_dpdk" },
    Ratio { key: "bw_vs_tcp", of: "bw", over: "tcp_bw" },
    Ratio { key: "bw_dpdk_vs_tcp", of: "bw_dpdk", over: "tcp_bw" },
    Ratio { key: "bw_vs_iperf3", of: "bw", over: "iperf3_bw" },
    Ratio { key: "bw_vs_ucx", of: "bw", over: "ucx_bw" },
    Ratio { key: "lat_vs_raw", of: "lat", over: "raw_lat" },
    Ratio { key: "lat_vs_raw_dpdk", of: "lat", over: "raw_lat_dpdk" },
    Ratio { key: "lat_dpdk_vs_raw", of: "lat_dpdk", over: "raw_lat_dpdk" },
    Ratio { key: "lat_vs_tcp", of: "lat", over: "tcp_lat" },
    Ratio { key: "lat_vs_tcp_spinning", of: "lat", over: "tcp_lat_spin" },
    Ratio { key: "lat_vs_ucx", of: "lat", over: "ucx_lat" },
];

/// Figures that stand for themselves, and what they are called.
const FIGURES: &[(&str, &str)] = &[
    ("bw_gbps", "bw"),
    ("bw_dpdk_gbps", "bw_dpdk"),
    ("lat_us", "lat"),
    ("lat_dpdk_us", "lat_dpdk"),
    ("rate_1qp_mps", "rate_1qp"),
    ("rate_1qp_dpdk_mps", "rate_1qp_dpdk"),
    ("rate_64qp_mps", "rate_64qp"),
    ("rate_64qp_dpdk_mps", "rate_64qp_dpdk"),
    ("rpc_1qp_mps", "rpc_1qp"),
    ("rpc_1qp_dpdk_mps", "rpc_1qp_dpdk"),
];

/// What was measured.
#[derive(Default)]
struct Measured {
    samples: Samples,
    /// By the index of its ratio.
    brackets: Vec<(usize, Bracket)>,
    /// Times that the machine changed its speed under a ratio again and again.
    unsteady: u64,
}

/// Runs it, prints the table, and writes the files.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    report_missing();
    let mut measured = Measured::default();
    let rounds = bench.rounds([3, 9], |_| measured.round(bench))?;
    let keys = measured.keys();
    println!("{}\n", table::of_samples(measured.rows()));
    println!("{}\n{}", table::of_keys(&keys), bench.machine.line());
    bracket::report_unsteady(measured.unsteady);
    bench.write_json(&measured.to_json(rounds.done), &keys)?;
    bench.write_svg(|path| chart::bars(path, "srnic beside raw frames, TCP and UCX", &measured.panels()))?;
    rounds.end
}

/// Says what is left out, and how it comes in.
fn report_missing() {
    let mut missing: Vec<_> = CONTENDERS.iter().filter_map(Contender::missing).collect();
    missing.dedup();
    for program in missing {
        eprintln!("without {program}, which is not here: `cargo xtask setup --bench` installs it");
    }
}

impl Measured {
    fn round(&mut self, bench: &Bench<'_>) -> Result<()> {
        for (index, ratio) in RATIOS.iter().enumerate() {
            let [Some(of), Some(over)] = [ratio.of, ratio.over].map(Contender::of) else { continue };
            if of.missing().or(over.missing()).is_some() {
                continue;
            }
            let bracket =
                bracket::measure(|| over.measure(bench, &bench.tools), || of.measure(bench, &bench.tools))?;
            match bracket {
                Some(bracket) => self.take(index, bracket),
                None => self.unsteady += 1,
            }
        }
        for (_, key) in FIGURES {
            let alone = !RATIOS.iter().any(|ratio| ratio.of == *key);
            if let Some(contender) = Contender::of(key).filter(|_| alone) {
                self.samples.add(key, contender.measure(bench, &bench.tools)?);
            }
        }
        Ok(())
    }

    fn take(&mut self, index: usize, bracket: Bracket) {
        let Ratio { of, over, .. } = RATIOS[index];
        self.samples.add(of, bracket.of);
        self.samples.add(over, bracket.before);
        self.samples.add(over, bracket.after);
        self.brackets.push((index, bracket));
    }

    fn brackets_of(&self, index: usize) -> impl Iterator<Item = &Bracket> {
        self.brackets.iter().filter(move |(of, _)| *of == index).map(|(_, bracket)| bracket)
    }

    /// The figures that are asked for: medians, and medians of the brackets' ratios.
    fn keys(&self) -> Map<String, Value> {
        let ratio = |index: usize| {
            let ratios: Vec<f64> = self.brackets_of(index).map(Bracket::ratio).collect();
            median(&ratios)
        };
        let ratios = RATIOS.iter().enumerate().map(|(index, of)| (of.key, ratio(index)));
        let figures = FIGURES.iter().map(|(key, of)| (*key, self.samples.median(of)));
        figures.chain(ratios).map(|(key, value)| (key.to_owned(), json!(value))).collect()
    }

    fn rows(&self) -> impl Iterator<Item = table::Row<'_>> {
        CONTENDERS.iter().map(|contender| {
            let values = self.samples.of(contender.key);
            table::Row { label: contender.label, unit: contender.metric.unit(), values }
        })
    }

    fn to_json(&self, rounds: u64) -> Value {
        let samples: Value = CONTENDERS
            .iter()
            .map(|contender| (contender.key.to_owned(), json!(self.samples.of(contender.key))))
            .collect();
        let of = |index| bracket::to_json(self.brackets_of(index));
        let brackets: Value =
            RATIOS.iter().enumerate().map(|(index, ratio)| (ratio.key.to_owned(), of(index))).collect();
        json!({ "rounds": rounds, "samples": samples, "brackets": brackets, "unsteady": self.unsteady })
    }

    fn panels(&self) -> Vec<chart::Panel<'static>> {
        let of = |metric: Metric| {
            let bars = CONTENDERS.iter().filter(move |contender| contender.metric == metric);
            bars.filter_map(|contender| Some((contender.label, self.samples.median(contender.key)?)))
                .collect()
        };
        Metric::ALL.into_iter().map(|metric| chart::Panel { unit: metric.unit(), bars: of(metric) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_contenders() {
        let mut measured = Measured::default();
        for (index, ratio) in RATIOS.iter().enumerate() {
            for key in [ratio.of, ratio.over] {
                assert!(Contender::of(key).is_some(), "{key}");
            }
            measured.take(index, Bracket { before: 2.0, of: 3.0, after: 4.0 });
        }
        for (_, key) in FIGURES {
            assert!(Contender::of(key).is_some(), "{key}");
            measured.samples.add(key, 3.0);
        }
        let keys = measured.keys();
        assert!(keys.values().all(Value::is_f64), "{keys:?}");
        assert_eq!((&keys["bw_vs_raw_copy_crc"], &keys["bw_gbps"]), (&json!(1.0), &json!(3.0)));
        assert!(measured.rows().all(|row| !row.values.is_empty()));
    }

    #[test]
    fn a_ratio_compares_what_stood_side_by_side() {
        let mut measured = Measured::default();
        for speed in [1.0, 5.0, 1.1] {
            measured.take(0, Bracket { before: 100.0 * speed, of: 60.0 * speed, after: 100.0 * speed });
        }
        let keys = measured.keys();
        assert!((keys["bw_vs_raw_copy_crc"].as_f64().expect("three brackets") - 0.6).abs() < 1e-9);
        assert!(keys["bw_vs_ucx"].is_null());
    }
}
