//! Jobs of MPI, whose ranks meet at a switch with a pool.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{FAULTS, LIMIT, command, is_there};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Process;
use crate::repo::{self, CHECKED};
use crate::scratch::Scratch;
use crate::steps::Steps;

/// Debian's, which has mpi4py: others may come before it.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = "xtask/src/unmodified/reduce.py";
/// An input of hpcc's for four ranks.
const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";
const INTERVAL: Duration = Duration::from_millis(20);

/// What OpenMPI is told: everything between ranks by UCX, over our device, as root, too, and with
/// more ranks than processors.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_osc", "ucx"),
    ("OMPI_MCA_pml_ucx_tls", "any"),
    ("OMPI_MCA_pml_ucx_devices", "any"),
    ("OMPI_MCA_btl", "self"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
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

/// Plays the jobs whose name contains `part`, over a good network and over a bad one; returns the
/// programs that are missing.
pub fn play(part: &str, library: &Path, scratch: &Scratch, steps: &mut Steps) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    let names = |job: &Job| [("", job.name.to_owned()), (FAULTS, format!("{} 1 % loss", job.name))];
    let all = JOBS.iter().flat_map(|job| names(job).map(|(faults, name)| (job, faults, name)));
    let mut switch = None;
    for (job, faults, name) in all.filter(|(_, _, name)| name.contains(part)) {
        interrupt::check()?;
        if let Some(program) = lacks(job) {
            missing.push(program);
            continue;
        }
        let socket = match &switch {
            Some((_, socket)) => socket,
            None => &switch.insert(start_switch(scratch)?).1,
        };
        let device = format!("{faults}pool:{}", socket.display());
        steps.check(&name, || {
            let dir = scratch.subdirectory()?;
            let result = run(job, &dir, library, &device);
            std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
            result
        });
    }
    missing.dedup();
    Ok(missing)
}

/// A program without which the job cannot be played.
fn lacks(job: &Job) -> Option<&'static str> {
    if let Some(program) = ["mpirun", job.program].into_iter().find(|program| !is_there(program)) {
        return Some(program);
    }
    let mut import = Command::new(PYTHON);
    import.args(["-c", "import mpi4py, numpy"]).stderr(Stdio::null());
    let has_modules = job.program != PYTHON || import.status().is_ok_and(|status| status.success());
    (!has_modules).then_some("mpi4py")
}

/// A switch with a pool, and its socket.
fn start_switch(scratch: &Scratch) -> Result<(Process, PathBuf)> {
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

fn run(job: &Job, dir: &Path, library: &Path, device: &str) -> Result<()> {
    if job.program == "hpcc" {
        let input = dir.join("hpccinf.txt");
        std::fs::copy(HPCC_INPUT, &input).map_err(|e| Error::io("copy", Path::new(HPCC_INPUT), &e))?;
    }
    let mut mpirun = command("mpirun", library, device);
    mpirun.args(["-n", &job.ranks.to_string()]).arg(job.program).current_dir(dir).envs(ENVIRONMENT);
    let script = repo::root().join(SCRIPT);
    mpirun.args(
        job.arguments.iter().map(
            |argument| {
                if *argument == SCRIPT { script.as_os_str() } else { argument.as_ref() }
            },
        ),
    );
    let mut running = Process::start("mpirun", mpirun, dir)?;
    let ended = wait(&mut running);
    match job.end {
        End::Says(words) => ended.and_then(|()| says(dir, words)),
        End::Fails => match ended {
            Err(error) if error.0.contains("failed: ") => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(Error::new("the job did not notice that a rank was killed")),
        },
    }
}

fn wait(running: &mut Process) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !running.is_done()? {
        interrupt::check()?;
        if Instant::now() > deadline {
            return Err(Error::new("the job does not come to an end"));
        }
        sleep(INTERVAL);
    }
    Ok(())
}

/// Fails unless a file that the job has written has these words.
fn says(dir: &Path, words: &str) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, &e))?;
    let texts = entries.flatten().filter_map(|entry| std::fs::read(entry.path()).ok());
    let mut all = String::new();
    texts.for_each(|text| all.push_str(&String::from_utf8_lossy(&text)));
    if all.contains(words) { Ok(()) } else { Err(Error(format!("nowhere is `{words}`:\n{all}"))) }
}
