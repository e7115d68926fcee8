//! Round trips of messages over a path: by a stream, by kernel TCP, and by QUIC.

use serde_json::{Value, json};

use super::path::Path;
use super::quic::{Quic, What};
use crate::bench::Bench;
use crate::bench::samples::median;
use crate::error::Result;
use crate::tools::number;

/// Bytes of a message.
const SIZES: [u32; 3] = [64, 64 << 10, 1 << 20];
/// What carries the messages.
const CARRIERS: [&str; 4] = ["srnic stream", "kernel TCP, cubic", "kernel TCP, bbr", "QUIC, cubic"];
/// Where the results have the median and the 99th percentile, in microseconds.
const QUANTILES: [&str; 2] = ["lat_us/p50", "lat_us/p99"];

/// Half round trips in microseconds, a sample of each round, by size, carrier and quantile.
#[derive(Clone, Default)]
pub struct Trips([[[Vec<f64>; QUANTILES.len()]; CARRIERS.len()]; SIZES.len()]);

impl Trips {
    /// Measures all once more; TCP with bbr only if the kernel has it.
    pub fn measure(&mut self, bench: &Bench<'_>, quic: &Quic, path: &Path<'_>, has_bbr: bool) -> Result<()> {
        let seconds = bench.pick(1, 2);
        for (row, size) in self.0.iter_mut().zip(SIZES) {
            let options = format!("-s {size} -D {seconds}");
            let by_quic = || {
                let amount = format!("-s {size} --seconds {seconds}");
                path.over_quic(quic, What::Latency, "cubic", &amount)
            };
            let results = [
                Some(path.over_rdma("stream-lat", &options)?),
                Some(path.over_tcp("tcp-lat", "cubic", &options)?),
                has_bbr.then(|| path.over_tcp("tcp-lat", "bbr", &options)).transpose()?,
                Some(by_quic()?),
            ];
            for (cell, result) in row.iter_mut().zip(results) {
                let Some(result) = result else { continue };
                for (samples, quantile) in cell.iter_mut().zip(QUANTILES) {
                    samples.push(number(&result, quantile)?);
                }
            }
        }
        Ok(())
    }

    /// Medians of the rounds: a row of each size, the median and the 99th percentile of each
    /// carrier.
    pub fn table(&self, path: &str) -> String {
        let mut table = format!("{:48}", format!("half a round trip in us, {path}"));
        CARRIERS.iter().for_each(|name| table += &format!(" {name:>21}"));
        for (row, size) in self.0.iter().zip(SIZES) {
            table += &format!("\n{:48}", format!("{size} B, median and 99 %"));
            for cell in row {
                let [middle, high] = [0, 1].map(|quantile: usize| median(&cell[quantile]));
                table += &match (middle, high) {
                    (Some(middle), Some(high)) => format!(" {middle:>10.0} {high:>10.0}"),
                    _ => format!(" {:>21}", "-"),
                };
            }
        }
        table
    }

    pub fn to_json(&self) -> Value {
        let cells = |(row, size): (&[[Vec<f64>; 2]; CARRIERS.len()], u32)| -> Vec<Value> {
            let cell = |(name, [middle, high]): (&str, &[Vec<f64>; 2])| json!({ "size": size, "carrier": name, "lat_us_p50": middle, "lat_us_p99": high });
            CARRIERS.into_iter().zip(row).map(cell).collect()
        };
        self.0.iter().zip(SIZES).flat_map(cells).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_a_row_and_what_was_not_measured_a_dash() {
        let mut trips = Trips::default();
        trips.0[1][0] = [vec![500.0, 700.0, 600.0], vec![900.0; 3]];
        let table = trips.table("a path");
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows.len(), 1 + SIZES.len());
        let words: Vec<&str> = rows[2].split_whitespace().collect();
        assert_eq!(words[6..], ["600", "900", "-", "-", "-"], "{table}");
        let json = trips.to_json();
        assert_eq!(json.as_array().map(Vec::len), Some(SIZES.len() * CARRIERS.len()));
        assert_eq!(json[4]["lat_us_p99"], json!([900.0, 900.0, 900.0]));
    }
}
