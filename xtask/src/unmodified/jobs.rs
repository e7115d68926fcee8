//! Jobs of MPI, whose ranks meet at a switch with a pool.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{FAULTS, INSTALL, LIMIT, Place, Rows};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Process;
use crate::repo;

/// Debian's, which has mpi4py: others may come before it.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = "xtask/src/unmodified/reduce.py";
/// An input of hpcc's for four ranks.
pub const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";
const INTERVAL: Duration = Duration::from_millis(20);
/// How long a switch may take until it listens.
const START: Duration = Duration::from_secs(60);

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

/// A switch with a pool, and its socket, in a directory of its own below `dir`: what another one
/// has left is not taken for it.
pub(super) fn start_switch(tool: &Path, dir: &Path, options: &[&str]) -> Result<(Process, PathBuf)> {
    let own = fresh_directory(dir)?;
    let socket = own.join("pool.sock");
    let mut switch = Command::new(tool);
    // It is ended without warning, and what it leaves goes with the scratch directory.
    switch.arg("switch").arg("--pool").arg(&socket).args(options).env("TMPDIR", dir);
    let mut switch = Process::start("switch", switch, &own)?;
    let deadline = Instant::now() + START;
    while !is_listening(&socket) {
        interrupt::check()?;
        if switch.is_done()? || Instant::now() > deadline {
            return Err(Error::new("the switch does not begin"));
        }
        sleep(INTERVAL);
    }
    Ok((switch, socket))
}

/// Whether a socket of this path waits for connections, by the kernel's table.
fn is_listening(socket: &Path) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    listens(&sockets, &socket.to_string_lossy())
}

fn listens(sockets: &str, path: &str) -> bool {
    /// `__SO_ACCEPTCON`, in the column of flags.
    const ACCEPTS: &str = "00010000";
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some(ACCEPTS) && fields.nth(3) == Some(path)
    })
}

/// A new directory in `dir`.
fn fresh_directory(dir: &Path) -> Result<PathBuf> {
    for number in 0_u32.. {
        let fresh = dir.join(format!("switch{number}"));
        match std::fs::create_dir(&fresh) {
            Ok(()) => return Ok(fresh),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::io("create", &fresh, &e)),
        }
    }
    Err(Error::new("there is no name for a directory"))
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
    let result = run(job, place, &device)
        .and_then(|()| gone(&device))
        .and_then(|()| free(place, &pool, &addresses))
        .and_then(|()| run(&REDUCE, place, &device));
    // What is left is this row's: no other has its switch.
    users_of(&device).into_iter().for_each(end);
    result?;
    if switch.is_done()? { Err(Error::new("the switch has ended")) } else { Ok(()) }
}

/// Waits until no process of the job is left.
fn gone(device: &str) -> Result<()> {
    let deadline = Instant::now() + LINGER;
    loop {
        interrupt::check()?;
        let left = users_of(device);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error(format!("processes {left:?} of the job are still there")));
        }
        sleep(INTERVAL);
    }
}

/// Waits until each address of the pool can be had: the switch may see the end of a process later
/// than we do.
fn free(place: &Place<'_>, pool: &str, addresses: &[&str]) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    for address in addresses {
        let asked = format!("{pool},ip={address}");
        while let Err(error) = is_free(place, &asked, address) {
            interrupt::check()?;
            if Instant::now() > deadline {
                return Err(error);
            }
            sleep(INTERVAL);
        }
    }
    Ok(())
}

fn is_free(place: &Place<'_>, asked: &str, address: &str) -> Result<()> {
    let said = repo::output(place.command("ibv_devinfo", asked).arg("-v"))?;
    super::says(&said, &[&format!("::ffff:{address}, RoCE v2")])
}

/// The numbers of the processes that were given the device.
fn users_of(device: &str) -> Vec<u32> {
    let variable = format!("SRNIC_DEVICE={device}");
    let has = |id: u32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| has(*id)).collect()
}

/// Ends a process for good.
fn end(id: u32) {
    let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
}

/// Fails unless a file that the job has written has these words.
fn says(dir: &Path, words: &str) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, &e))?;
    let texts = entries.flatten().filter_map(|entry| std::fs::read(entry.path()).ok());
    let mut all = String::new();
    texts.for_each(|text| all.push_str(&String::from_utf8_lossy(&text)));
    if all.contains(words) { Ok(()) } else { Err(Error(format!("nowhere is `{words}`:\n{all}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_switch_that_has_ended_is_not_taken_for_one_that_listens() {
        let scratch = crate::scratch::Scratch::new().expect("a directory");
        let [first, second] =
            [(); 2].map(|()| fresh_directory(scratch.path()).expect("a directory of its own"));
        assert_ne!(first, second);
        let socket = first.join("pool.sock");
        let listener = UnixListener::bind(&socket).expect("bound");
        assert!(is_listening(&socket) && !is_listening(&second.join("pool.sock")));
        drop(listener);
        assert!(socket.exists() && !is_listening(&socket), "it is stale");
    }

    #[test]
    fn processes_of_a_job_are_known_by_their_device() {
        let device = format!("pool:/nonexistent/{}.sock", std::process::id());
        let mut rank = Command::new("sleep");
        let mut rank = rank.arg("60").env("SRNIC_DEVICE", &device).spawn().expect("started");
        while users_of(&device).is_empty() {
            sleep(INTERVAL);
        }
        assert_eq!(users_of(&device), [rank.id()]);
        end(rank.id());
        assert!(!rank.wait().expect("it has ended").success());
        assert!(gone(&device).is_ok());
    }
}
