//! `cargo xtask bench compare`: srnic beside raw frames on the same port, TCP and UCX on the same
//! machine, in turn.

use serde_json::{Map, Value, json};

use super::contender::{CONTENDERS, Contender, Metric};
use super::measured::{Measured, Ratio};
use super::{Bench, chart, table};
use crate::error::Result;

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

/// Runs it, prints the table, and writes the files.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    report_missing();
    let mut measured = Measured::default();
    let rounds = bench.rounds([3, 9], |_| round(bench, &mut measured))?;
    let keys = keys(&measured);
    println!("{}\n", table::of_samples(rows(&measured)));
    println!("{}\n{}", table::of_keys(&keys), bench.machine.line());
    measured.report_unsteady();
    let figures = CONTENDERS.iter().map(|contender| contender.key);
    bench.write_json(&measured.to_json(rounds.done, figures, RATIOS.iter()).into(), &keys)?;
    bench.write_svg(|path| chart::bars(path, "srnic beside raw frames, TCP and UCX", &panels(&measured)))?;
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

fn round(bench: &Bench<'_>, measured: &mut Measured) -> Result<()> {
    for ratio in RATIOS {
        let [Some(of), Some(over)] = [ratio.of, ratio.over].map(Contender::of) else { continue };
        if of.missing().or(over.missing()).is_some() {
            continue;
        }
        measured.compare(ratio, || over.measure(bench, &bench.tools), || of.measure(bench, &bench.tools))?;
    }
    for (_, key) in FIGURES {
        let alone = !RATIOS.iter().any(|ratio| ratio.of == *key);
        if let Some(contender) = Contender::of(key).filter(|_| alone) {
            measured.samples.add(key, contender.measure(bench, &bench.tools)?);
        }
    }
    Ok(())
}

/// The figures that are asked for: medians, and medians of the brackets' ratios.
fn keys(measured: &Measured) -> Map<String, Value> {
    let ratios = RATIOS.iter().map(|ratio| (ratio.key, measured.median_of(ratio)));
    let figures = FIGURES.iter().map(|(key, of)| (*key, measured.samples.median(of)));
    figures.chain(ratios).map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

fn rows(measured: &Measured) -> impl Iterator<Item = table::Row<'_>> {
    CONTENDERS.iter().map(|contender| {
        let values = measured.samples.of(contender.key);
        table::Row { label: contender.label, unit: contender.metric.unit(), values }
    })
}

fn panels(measured: &Measured) -> Vec<chart::Panel<'static>> {
    let of = |metric: Metric| {
        let bars = CONTENDERS.iter().filter(move |contender| contender.metric == metric);
        bars.filter_map(|contender| Some((contender.label, measured.samples.median(contender.key)?)))
            .collect()
    };
    Metric::ALL.into_iter().map(|metric| chart::Panel { unit: metric.unit(), bars: of(metric) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::bracket::Bracket;
    use super::*;

    #[test]
    fn every_figure_has_its_contenders() {
        let mut measured = Measured::default();
        for ratio in RATIOS {
            for key in [ratio.of, ratio.over] {
                assert!(Contender::of(key).is_some(), "{key}");
            }
            measured.take(ratio, Bracket { before: 2.0, of: 3.0, after: 4.0 });
        }
        for (_, key) in FIGURES {
            assert!(Contender::of(key).is_some(), "{key}");
            measured.samples.add(key, 3.0);
        }
        let keys = keys(&measured);
        assert!(keys.values().all(Value::is_f64), "{keys:?}");
        assert_eq!((&keys["bw_vs_raw_copy_crc"], &keys["bw_gbps"]), (&json!(1.0), &json!(3.0)));
        assert!(rows(&measured).all(|row| !row.values.is_empty()));
    }

    #[test]
    fn a_ratio_compares_what_stood_side_by_side() {
        let mut measured = Measured::default();
        for speed in [1.0, 5.0, 1.1] {
            measured
                .take(&RATIOS[0], Bracket { before: 100.0 * speed, of: 60.0 * speed, after: 100.0 * speed });
        }
        let keys = keys(&measured);
        assert!((keys["bw_vs_raw_copy_crc"].as_f64().expect("three brackets") - 0.6).abs() < 1e-9);
        assert!(keys["bw_vs_ucx"].is_null());
    }
}
