//! Jobs of MPI with two ranks, over the library and over TCP.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Stage;
use super::programs::{Network, over_library};
use crate::bench::others::UCX_OVER_TCP;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::unmodified::{HPCC_INPUT, MPI_AS_ROOT, MPI_OVER_UCX};

/// Longest of a job.
const LIMIT: Duration = Duration::from_secs(600);
/// Bytes of NetPIPE's longest message.
const LARGEST: &str = "4194304";

/// What carries messages between the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// UCX, which READs long messages over the library.
    Ucx(Network),
    /// UCX over the library, which is told to WRITE them.
    UcxByWrites,
    /// OpenMPI's own TCP, over the loopback interface.
    OpenMpi,
}

/// A figure of hpcc's ring of ranks in random order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ring {
    /// Microseconds.
    Latency,
    /// Gigabytes a second for each rank.
    Bandwidth,
}

/// The most that NetPIPE reaches, in Gb/s.
pub fn netpipe(stage: &Stage<'_>, carrier: Carrier) -> Result<f64> {
    let repeats = stage.bench.pick(20, 100).to_string();
    let program = ["NPopenmpi", "-u", LARGEST, "-n", &repeats, "-o", "netpipe.out"];
    let text = job(stage, carrier, &program, "netpipe.out", |_| Ok(()))?;
    peak(&text).ok_or_else(|| Error(format!("NetPIPE wrote no figures:\n{text}")))
}

/// The largest of the second column, which is in megabits a second.
fn peak(text: &str) -> Option<f64> {
    let rates = text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    rates.reduce(f64::max).map(|rate| rate / 1e3)
}

/// A figure of hpcc.
pub fn random_ring(stage: &Stage<'_>, carrier: Carrier, ring: Ring) -> Result<f64> {
    let text = job(stage, carrier, &["hpcc"], "hpccoutf.txt", |dir| {
        let input =
            fs::read_to_string(HPCC_INPUT).map_err(|e| Error::io("read", Path::new(HPCC_INPUT), &e))?;
        let path = dir.join("hpccinf.txt");
        fs::write(&path, for_two(&input)).map_err(|e| Error::io("write", &path, &e))
    })?;
    let key = match ring {
        Ring::Latency => "RandomlyOrderedRingLatency_usec",
        Ring::Bandwidth => "RandomlyOrderedRingBandwidth_GBytes",
    };
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| Error(format!("hpcc wrote no {key}")))
}

/// An input of hpcc's for four ranks, made for two: its grid has one row.
fn for_two(input: &str) -> String {
    let row = |line: &str| line.split_whitespace().last() == Some("Ps");
    let lines = input.lines().map(|line| if row(line) { "1            Ps" } else { line });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Runs a program with two ranks, in a directory that `prepare` fills; what is in the file `output`
/// afterwards.
fn job(
    stage: &Stage<'_>,
    carrier: Carrier,
    program: &[&str],
    output: &str,
    prepare: impl FnOnce(&Path) -> Result<()>,
) -> Result<String> {
    let dir = stage.bench.scratch.subdirectory()?;
    let run = || {
        prepare(&dir)?;
        let mut mpirun = Command::new("mpirun");
        mpirun.envs(MPI_AS_ROOT);
        match carrier {
            Carrier::Ucx(Network::Ours) => {
                // Whoever comes first is the memif's server.
                over_library(&mut mpirun, stage, &dir, "");
                mpirun.envs(MPI_OVER_UCX);
            }
            Carrier::UcxByWrites => {
                over_library(&mut mpirun, stage, &dir, "");
                mpirun.envs(MPI_OVER_UCX).env("UCX_RNDV_SCHEME", "put_zcopy");
            }
            Carrier::Ucx(Network::Kernel) => {
                mpirun.envs(MPI_OVER_UCX).envs(UCX_OVER_TCP);
            }
            Carrier::OpenMpi => {
                mpirun.envs([
                    ("OMPI_MCA_pml", "ob1"),
                    ("OMPI_MCA_btl", "tcp,self"),
                    ("OMPI_MCA_btl_tcp_if_include", "lo"),
                ]);
            }
        }
        mpirun.args(["-n", "2", "--oversubscribe", "--bind-to", "none"]).args(program).current_dir(&dir);
        Process::start("mpirun", mpirun, &dir)?.finish(LIMIT)?;
        let output = dir.join(output);
        fs::read_to_string(&output).map_err(|e| Error::io("read", &output, &e))
    };
    let result = run();
    fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
    result.map_err(|error| Error(format!("{} over {carrier:?}: {error}", program.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_of_the_second_column() {
        let text = "       1 1.5 0.000005\n    4096 42000.5 0.00001\n 8192 41000.0 0.00002\n";
        assert_eq!(peak(text), Some(42.0005));
        assert_eq!(peak("nothing\n"), None);
    }

    #[test]
    fn two_ranks_have_a_grid_of_one_row() {
        let input = "1            # of process grids (P x Q)\n2            Ps\n2            Qs\n";
        assert!(for_two(input).contains("\n1            Ps\n2            Qs\n"));
    }
}
