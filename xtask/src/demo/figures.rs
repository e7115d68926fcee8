//! Bandwidth and latency, with data that is verified, beside raw frames on the same port and kernel
//! TCP.

use serde_json::Value;

use super::outcome::Row;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::scratch::Scratch;
use crate::tools::{Over, Run, Tools, number};

/// A run, what the table calls it, and how its data is checked: `--verify` fails the run on the
/// first wrong byte.
struct Figure {
    name: &'static str,
    run: Run<'static>,
    data: &'static str,
}

const fn rdma(
    name: &'static str,
    tool: &'static str,
    options: &'static str,
    wrapper: &'static str,
) -> Figure {
    Figure { name, run: Run { tool, options, wrapper, over: Over::Memif }, data: "verified" }
}

/// Where buffers are lent.
const fn zero_copy(name: &'static str, tool: &'static str, options: &'static str) -> Figure {
    Figure { name, run: Run { tool, options, wrapper: "", over: Over::ZeroCopy }, data: "verified" }
}

const fn other(name: &'static str, tool: &'static str, options: &'static str, over: Over) -> Figure {
    Figure { name, run: Run { tool, options, wrapper: "", over }, data: "-" }
}

/// A pause of the whole machine is no failure of the peer: a try lasts 1 s.
#[rustfmt::skip]
const FIGURES: &[Figure] = &[
    rdma("WRITE, 64 KiB", "write-bw", "-s 65536 -n 20000 -u 18 --verify", ""),
    zero_copy("WRITE, 64 KiB, zero-copy", "write-bw", "-s 65536 -n 20000 -u 18 --verify"),
    rdma("SEND, 64 KiB", "send-bw", "-s 65536 -n 20000 -u 18 --verify", ""),
    rdma("WRITE, 64 KiB, 1 % of packets lost", "write-bw", "-s 65536 -n 10000 -u 18 --verify", LOSSY),
    other("raw frames, 4200 B, same port", "raw-bw", "-s 4200 -n 500000", Over::Memif),
    other("kernel TCP, 64 KiB", "tcp-bw", "-s 65536 -n 20000", Over::Tcp),
    rdma("WRITE, 64 B", "write-lat", "-s 64 -n 50000 -u 18 --verify", ""),
    zero_copy("WRITE, 64 B, zero-copy", "write-lat", "-s 64 -n 50000 -u 18 --verify"),
    rdma("SEND, 64 B", "send-lat", "-s 64 -n 50000 -u 18 --verify", ""),
    other("raw frames, 64 B, same port", "raw-lat", "-s 64 -n 100000", Over::Memif),
    other("kernel TCP, 64 B, spinning", "tcp-lat", "-s 64 -n 20000 --spin", Over::Tcp),
    other("kernel TCP, 64 B, blocking", "tcp-lat", "-s 64 -n 10000", Over::Tcp),
];
const LOSSY: &str = "fault:loss=1%,seed=7:";

/// Measures each of them.
pub fn measure(tools: &Tools, scratch: &Scratch) -> Result<Vec<Row>> {
    let cpus = Machine::here().two_cpus();
    let row = |figure: &Figure| {
        println!("measuring: {}", figure.name);
        row(figure, &tools.run(scratch, cpus, &figure.run)?)
    };
    FIGURES.iter().map(row).collect()
}

fn row(figure: &Figure, result: &Value) -> Result<Row> {
    let count = |key: &str| {
        let count = result[key].as_u64();
        count.ok_or_else(|| Error(format!("{}: `{key}` is missing or no number", figure.name)))
    };
    let again = if figure.data == "-" { None } else { Some([count("retransmits")?, count("drops")?]) };
    if figure.run.wrapper == LOSSY && again.is_some_and(|[_, dropped]| dropped == 0) {
        return Err(Error(format!("{}: no packet was dropped, so this run shows nothing", figure.name)));
    }
    let mut row = Row { name: figure.name.to_owned(), again, data: figure.data, ..Row::default() };
    if figure.run.tool.ends_with("-lat") {
        row.latency = Some([number(result, "lat_us/p50")?, number(result, "lat_us/p99")?]);
    } else {
        row.gbps = Some(number(result, "bw_avg_gbps")?);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lossy_run_without_loss_shows_nothing() {
        let lossy = FIGURES.iter().find(|figure| figure.run.wrapper == LOSSY).expect("there is one");
        let result = |drops: u64| json!({ "bw_avg_gbps": 20.0, "retransmits": drops, "drops": drops });
        assert_eq!(row(lossy, &result(7)).expect("a row").again, Some([7, 7]));
        let error = row(lossy, &result(0)).err().expect("nothing was lost");
        assert!(error.0.contains("shows nothing"), "{error}");
    }
}
