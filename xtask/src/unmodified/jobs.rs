//! Jobs of MPI, whose ranks meet at a switch with a pool.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{FAULTS, INSTALL, LIMIT, Place, Rows};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::repo::{self, CHECKED};
use crate::scratch::Scratch;

/// Debian's, which has mpi4py: others may come before it.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = "xtask/src/unmodified/reduce.py";
/// An input of hpcc's for four ranks.
pub const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";
const INTERVAL: Duration = Duration::from_millis(20);

/// OpenMPI runs for root only if it is told so twice.
pub const MPI_AS_ROOT: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// What OpenMPI is told, so that everything between ranks goes by UCX, over our device.
pub const MPI_OVER_UCX: [(&str, &str); 5] = [
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_osc", "ucx"),
    ("OMPI_MCA_pml_ucx_tls", "any"),
    ("OMPI_MCA_pml_ucx_devices", "any"),
    ("OMPI_MCA_btl", "self"),
];

/// There are more ranks than processors, as OpenMPI 4 is told, and as 5 is.
const CROWDED: [(&str, &str); 5] = [
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// How a job must end.
#[derive(Clone, Copy)]
enum End {
    /// Well, with these words.
    Says(&'static str),
    /// With an error: a rank was killed.
    Fails,
}

/// A job.
struct Job {
    name: &'static str,
    ranks: u32,
    program: &'static str,
    arguments: &'static [&'static str],
    end: End,
}

const JOBS: [Job; 4] = [
    Job {
        name: "mpirun all-reduce",
        ranks: 4,
        program: PYTHON,
        arguments: &[SCRIPT],
        end: End::Says("4 ranks have the sums that numpy has"),
    },
    Job { name: "mpirun killed", ranks: 4, program: PYTHON, arguments: &[SCRIPT, "die"], end: End::Fails },
    Job {
        name: "mpirun NetPIPE",
        ranks: 2,
        program: "NPopenmpi",
        arguments: &["-u", "65536", "-n", "20"],
        end: End::Says("65536 bytes"),
    },
    Job {
        name: "mpirun hpcc",
        ranks: 4,
        program: "hpcc",
        arguments: &[],
        // NetPIPE and hpcc write their results to files.
        end: End::Says("Success=1"),
    },
];

/// Plays the jobs, over a good network and over a bad one.
pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    let names = |job: &Job| [("", job.name.to_owned()), (FAULTS, format!("{} 1 % loss", job.name))];
    let all = JOBS.iter().flat_map(|job| names(job).map(|(faults, name)| (job, faults, name)));
    let mut switch = None;
    for (job, faults, name) in all {
        if !rows.is_asked_for(&name) {
            continue;
        }
        if job.program == PYTHON && !has_modules() {
            rows.skip(&format!("{PYTHON} has no mpi4py or no numpy; {INSTALL}"));
            continue;
        }
        let socket = match &switch {
            Some((_, socket)) => socket,
            None => &switch.insert(start_switch(rows.scratch)?).1,
        };
        let device = format!("{faults}pool:{}", socket.display());
        rows.play(&name, &["mpirun", job.program], |place| run(job, place, &device))?;
    }
    Ok(())
}

fn has_modules() -> bool {
    let mut import = Command::new(PYTHON);
    import.args(["-c", "import mpi4py, numpy"]).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success())
}

/// A switch with a pool, and its socket.
pub(super) fn start_switch(scratch: &Scratch) -> Result<(Process, PathBuf)> {
    repo::run(repo::cargo(&["build", "--profile", CHECKED, "-p", "srnic-tools"]))?;
    let dir = scratch.path();
    let socket = dir.join("pool.sock");
    let mut switch = Command::new(repo::target_directory()?.join(CHECKED).join("srnic"));
    // It is ended without warning, and what it leaves goes with the scratch directory.
    switch.arg("switch").arg("--pool").arg(&socket).env("TMPDIR", dir);
    let mut switch = Process::start("switch", switch, dir)?;
    let deadline = Instant::now() + LIMIT;
    while !socket.exists() {
        if switch.is_done()? || Instant::now() > deadline {
            return Err(Error::new("the switch does not begin"));
        }
        sleep(INTERVAL);
    }
    Ok((switch, socket))
}

fn run(job: &Job, place: &Place<'_>, device: &str) -> Result<()> {
    let dir = place.dir;
    if job.program == "hpcc" {
        let input = dir.join("hpccinf.txt");
        std::fs::copy(HPCC_INPUT, &input).map_err(|e| Error::io("copy", Path::new(HPCC_INPUT), &e))?;
    }
    let mut mpirun = place.command("mpirun", device);
    mpirun.args(["-n", &job.ranks.to_string()]).arg(job.program).current_dir(dir);
    mpirun.envs(MPI_AS_ROOT).envs(MPI_OVER_UCX).envs(CROWDED);
    let script = repo::root().join(SCRIPT);
    mpirun.args(
        job.arguments.iter().map(
            |argument| {
                if *argument == SCRIPT { script.as_os_str() } else { argument.as_ref() }
            },
        ),
    );
    let mut running = Process::start("mpirun", mpirun, dir)?;
    match job.end {
        End::Says(words) => running.finish(LIMIT).and_then(|()| says(dir, words)),
        End::Fails if running.end(LIMIT)?.success() => {
            Err(Error::new("the job did not notice that a rank was killed"))
        }
        End::Fails => Ok(()),
    }
}

/// Fails unless a file that the job has written has these words.
fn says(dir: &Path, words: &str) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, &e))?;
    let texts = entries.flatten().filter_map(|entry| std::fs::read(entry.path()).ok());
    let mut all = String::new();
    texts.for_each(|text| all.push_str(&String::from_utf8_lossy(&text)));
    if all.contains(words) { Ok(()) } else { Err(Error(format!("nowhere is `{words}`:\n{all}"))) }
}
