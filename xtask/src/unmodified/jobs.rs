//! Jobs of MPI, whose ranks meet at a switch with a pool.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{FAULTS, INSTALL, LIMIT, Place, Rows};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::repo;

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
    /// With an error, in its middle: a rank was killed.
    Killed,
}

/// A job.
struct Job {
    name: &'static str,
    ranks: u32,
    program: &'static str,
    arguments: &'static [&'static str],
    end: End,
}

const REDUCE: Job = Job {
    name: "mpirun all-reduce",
    ranks: 4,
    program: PYTHON,
    arguments: &[SCRIPT],
    end: End::Says("4 ranks have the sums that numpy has"),
};

/// What a rank says that is about to be killed, and what `mpirun` says then.
const KILLED: [&str; 2] = ["rank 1 ends itself in the middle", "signal 9"];
/// A network for the job whose rank is killed: its addresses are not enough for two jobs.
const SMALL: (&str, [&str; 6]) =
    ("10.78.0.0/29", ["10.78.0.1", "10.78.0.2", "10.78.0.3", "10.78.0.4", "10.78.0.5", "10.78.0.6"]);
/// How long processes of a job may stay behind it.
const LINGER: Duration = Duration::from_secs(10);

const JOBS: [Job; 4] = [
    REDUCE,
    Job { name: "mpirun killed", ranks: 4, program: PYTHON, arguments: &[SCRIPT, "die"], end: End::Killed },
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
            rows.skip(&name, &format!("{PYTHON} has no mpi4py or no numpy; {INSTALL}"));
            continue;
        }
        let programs = ["mpirun", job.program];
        if matches!(job.end, End::Killed) {
            rows.play(&name, &[programs[0], programs[1], "ibv_devinfo"], |place| killed(job, place, faults))?;
            continue;
        }
        let socket = match &switch {
            Some((_, socket)) => socket,
            None => &switch.insert(start_switch(rows.tool, rows.scratch.path(), &[])?).1,
        };
        let device = format!("{faults}pool:{}", socket.display());
        rows.play(&name, &programs, |place| run(job, place, &device))?;
    }
    Ok(())
}

fn has_modules() -> bool {
    let mut import = Command::new(PYTHON);
    import.args(["-c", "import mpi4py, numpy"]).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success())
}

/// A switch with a pool, and its socket.
pub(super) fn start_switch(tool: &Path, dir: &Path, options: &[&str]) -> Result<(Process, PathBuf)> {
    let socket = dir.join("pool.sock");
    let mut switch = Command::new(tool);
    // It is ended without warning, and what it leaves goes with the scratch directory.
    switch.arg("switch").arg("--pool").arg(&socket).args(options).env("TMPDIR", dir);
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

/// A job to its end, which must be as it should.
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
        End::Killed if running.end(LIMIT)?.success() => {
            Err(Error::new("the job did not notice that a rank was killed"))
        }
        End::Killed => KILLED.iter().try_for_each(|words| says(dir, words)),
    }
}

/// A job whose rank is killed leaves nothing: no process, and no address of the pool is taken. The
/// next job finds the same switch, and as many addresses as it takes.
fn killed(job: &Job, place: &Place<'_>, faults: &str) -> Result<()> {
    let (network, addresses) = SMALL;
    let (mut switch, socket) = start_switch(place.tool, place.dir, &["--net", network])?;
    let pool = format!("pool:{}", socket.display());
    let device = format!("{faults}{pool}");
    run(job, place, &device)?;
    let deadline = Instant::now() + LINGER;
    while let Some(process) = user_of(&device) {
        if Instant::now() > deadline {
            return Err(Error(format!("process {process} of the job is still there")));
        }
        sleep(INTERVAL);
    }
    for address in addresses {
        let asked = format!("{pool},ip={address}");
        let said = repo::output(place.command("ibv_devinfo", &asked).arg("-v"))?;
        super::says(&said, &[&format!("::ffff:{address}, RoCE v2")])?;
    }
    run(&REDUCE, place, &device)?;
    if switch.is_done()? { Err(Error::new("the switch has ended")) } else { Ok(()) }
}

/// A process that was given the device.
fn user_of(device: &str) -> Option<String> {
    let variable = format!("SRNIC_DEVICE={device}");
    let has = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.map(|entry| entry.path()).find(|path| has(path)).map(|path| path.display().to_string())
}

/// Fails unless a file that the job has written has these words.
fn says(dir: &Path, words: &str) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, &e))?;
    let texts = entries.flatten().filter_map(|entry| std::fs::read(entry.path()).ok());
    let mut all = String::new();
    texts.for_each(|text| all.push_str(&String::from_utf8_lossy(&text)));
    if all.contains(words) { Ok(()) } else { Err(Error(format!("nowhere is `{words}`:\n{all}"))) }
}
