//! `cargo xtask bench compare`: srnic beside raw frames on the same port and TCP on the same machine, in turn.

use serde_json::{Map, Value, json};

use super::samples::Samples;
use super::{Bench, chart, table};
use crate::error::Result;
use crate::tools::{Run, number};

/// What is measured in each round.
struct Contender {
    key: &'static str,
    label: &'static str,
    tool: &'static str,
    options: &'static str,
    /// Messages of a short round: some tenths of a second.
    iters: u64,
    metric: Metric,
}

/// Which of a result's numbers counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Gbps,
    Micros,
    Mpps,
}

impl Metric {
    pub const ALL: [Self; 3] = [Self::Gbps, Self::Micros, Self::Mpps];

    const fn key(self) -> &'static str {
        match self {
            Self::Gbps => "bw_avg_gbps",
            Self::Micros => "lat_us/p50",
            Self::Mpps => "msg_rate_mpps",
        }
    }

    pub const fn unit(self) -> &'static str {
        match self {
            Self::Gbps => "Gb/s",
            Self::Micros => "us",
            Self::Mpps => "M/s",
        }
    }
}

use Metric::{Gbps, Micros, Mpps};

#[rustfmt::skip]
const CONTENDERS: &[Contender] = &[
    Contender { key: "raw_bw", label: "raw frames, 4200 B", tool: "srnic_raw_bw",
                options: "-s 4200", iters: 800_000, metric: Gbps },
    Contender { key: "bw", label: "srnic WRITE, 64 KiB", tool: "srnic_write_bw",
                options: "-s 65536 -m 4096", iters: 40_000, metric: Gbps },
    Contender { key: "raw_copy_crc_bw", label: "raw frames, copy and CRC", tool: "srnic_raw_bw",
                options: "-s 4200 --copy --crc", iters: 600_000, metric: Gbps },
    Contender { key: "tcp_bw", label: "kernel TCP, one stream", tool: "srnic_tcp_bw",
                options: "-s 65536", iters: 30_000, metric: Gbps },
    Contender { key: "raw_lat", label: "raw frames, 64 B", tool: "srnic_raw_lat",
                options: "-s 64", iters: 200_000, metric: Micros },
    Contender { key: "lat", label: "srnic WRITE, 64 B", tool: "srnic_write_lat",
                options: "-s 64", iters: 100_000, metric: Micros },
    Contender { key: "tcp_lat_spin", label: "kernel TCP, 64 B, spinning", tool: "srnic_tcp_lat",
                options: "-s 64 --spin", iters: 20_000, metric: Micros },
    Contender { key: "tcp_lat", label: "kernel TCP, 64 B, blocking", tool: "srnic_tcp_lat",
                options: "-s 64", iters: 20_000, metric: Micros },
    Contender { key: "rate_1qp", label: "srnic WRITE, 64 B, 1 QP", tool: "srnic_write_bw",
                options: "-s 64 -t 256 -l 32 -Q 64", iters: 1_500_000, metric: Mpps },
    Contender { key: "rate_64qp", label: "srnic WRITE, 64 B, 64 QPs", tool: "srnic_write_bw",
                options: "-s 64 -q 64 -t 64 -l 16 -Q 32", iters: 25_000, metric: Mpps },
    Contender { key: "rpc_1qp", label: "srnic SEND there and back, 32 B", tool: "srnic_rpc",
                options: "-s 32 -w 64", iters: 1_000_000, metric: Mpps },
];

/// Runs it, prints the table, and writes the files.
pub fn run(bench: &Bench) -> Result<()> {
    let rounds = bench.pick(3, 9);
    let mut samples = Samples::default();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for contender in CONTENDERS {
            let options = format!("{} -n {}", contender.options, contender.iters * bench.pick(1, 3));
            let device = !contender.tool.starts_with("srnic_tcp");
            let run = Run { tool: contender.tool, options: &options, wrapper: "", device };
            samples.add(contender.key, number(&bench.run(&run)?, contender.metric.key())?);
        }
    }
    let keys = keys(&samples);
    let rows = CONTENDERS.iter().map(|contender| {
        let values = samples.of(contender.key);
        table::Row { label: contender.label, unit: contender.metric.unit(), values }
    });
    println!("{}\n", table::of_samples(rows));
    println!("{}\n{}", table::of_keys(&keys), bench.machine.line());
    bench.write_json(&json!({ "rounds": rounds, "samples": samples_json(&samples) }), &keys)?;
    bench.write_svg(|path| chart::bars(path, "srnic beside raw frames and TCP", &panels(&samples)))
}

/// The figures that are asked for: medians, and medians of the rounds' ratios.
fn keys(samples: &Samples) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut put = |key: &str, value: Option<f64>| {
        keys.insert(key.to_owned(), json!(value));
    };
    put("bw_vs_raw", samples.ratio("bw", "raw_bw"));
    put("bw_vs_raw_copy_crc", samples.ratio("bw", "raw_copy_crc_bw"));
    put("bw_gbps", samples.median("bw"));
    put("lat_vs_raw", samples.ratio("lat", "raw_lat"));
    put("lat_us", samples.median("lat"));
    put("rate_1qp_mps", samples.median("rate_1qp"));
    put("rate_64qp_mps", samples.median("rate_64qp"));
    put("rpc_1qp_mps", samples.median("rpc_1qp"));
    put("bw_vs_tcp", samples.ratio("bw", "tcp_bw"));
    put("lat_vs_tcp", samples.ratio("lat", "tcp_lat"));
    put("lat_vs_tcp_spinning", samples.ratio("lat", "tcp_lat_spin"));
    keys
}

fn samples_json(samples: &Samples) -> Value {
    CONTENDERS.iter().map(|contender| (contender.key.to_owned(), json!(samples.of(contender.key)))).collect()
}

fn panels(samples: &Samples) -> Vec<chart::Panel<'static>> {
    let of = |metric: Metric| {
        let bars = CONTENDERS.iter().filter(move |contender| contender.metric == metric);
        bars.filter_map(|contender| Some((contender.label, samples.median(contender.key)?))).collect()
    };
    Metric::ALL.into_iter().map(|metric| chart::Panel { unit: metric.unit(), bars: of(metric) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_contenders() {
        let mut samples = Samples::default();
        for (index, contender) in (1_u8..).zip(CONTENDERS) {
            samples.add(contender.key, index.into());
        }
        let keys = keys(&samples);
        assert!(keys.values().all(Value::is_f64), "{keys:?}");
        assert_eq!(keys["bw_vs_raw"], 2.0);
    }
}
