//! Pairs of programs: those of others over the drop-in library, and ours.

pub mod ucx;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Stage;
use crate::error::{Error, Result};
use crate::process::{Process, free_port, watch};
use crate::repo;
use crate::tools::{Over, Run, number};
use crate::{interrupt, listening, unmodified};

/// Longest run of a pair.
const LIMIT: Duration = Duration::from_secs(120);
/// How long an idle process is watched, in a quick run and in a whole one.
const WATCHED: [u64; 2] = [2, 10];
/// How often it is looked at meanwhile.
const INTERVAL: Duration = Duration::from_millis(50);
/// Ticks of the kernel's in a second.
const TICKS: f64 = 100.0;

/// What carries the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// The drop-in library over a memif.
    Ours,
    /// Kernel TCP over the loopback interface.
    Kernel,
}

/// `program`, on the CPU of that number where there are two.
pub fn pinned(stage: &Stage<'_>, side: usize, program: &str) -> Command {
    match stage.bench.machine.two_cpus() {
        Some(cpus) if repo::find("taskset").is_some() => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpus[side].to_string(), program]);
            command
        }
        _ => Command::new(program),
    }
}

/// Gives a program the library and an end of a memif in `dir`.
pub fn over_library(command: &mut Command, stage: &Stage<'_>, dir: &Path, role: &str) {
    let device = format!("memif:{}{role}", dir.join("pair.sock").display());
    unmodified::use_library(command, &stage.library, &device);
}

/// Runs a server that listens at a TCP port, and its client, to their end; what the client says.
pub fn pair(stage: &Stage<'_>, side: impl Fn(&Path, usize, u16) -> Command) -> Result<String> {
    let dir = stage.bench.scratch.subdirectory()?;
    let run = || {
        let port = free_port()?;
        let mut server = Process::start("server", side(&dir, 0, port), &dir)?;
        listening::wait(&mut server, port, LIMIT)?;
        let mut client = Process::start("client", side(&dir, 1, port), &dir)?;
        watch(&mut server, &mut client, LIMIT)?;
        let output = dir.join("client.out");
        fs::read_to_string(&output).map_err(|e| Error::io("read", &output, &e))
    };
    let result = run();
    fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
    result
}

const ROLES: [&str; 2] = [",role=server", ",role=client"];

fn perftest(stage: &Stage<'_>, program: &str, options: &str, iters: u64) -> Result<String> {
    let iters = iters * stage.bench.pick(1, 3);
    let said = pair(stage, |dir, side, port| {
        let mut command = pinned(stage, side, program);
        over_library(&mut command, stage, dir, ROLES[side]);
        command.args(["-F", "-x", "0", "--report_gbits"]).args(options.split_whitespace());
        command.args(["-n", &iters.to_string(), "-p", &port.to_string()]);
        if side == 1 {
            command.arg("127.0.0.1");
        }
        command
    });
    said.map_err(|error| Error(format!("{program} {options}: {error}")))
}

/// Half a round trip in the middle, in microseconds, of one of perftest's programs.
pub fn perftest_lat(stage: &Stage<'_>, program: &str, options: &str, iters: u64) -> Result<f64> {
    const TYPICAL: usize = 4;
    field(&perftest(stage, program, options, iters)?, TYPICAL)
}

/// Its average bandwidth, in Gb/s.
pub fn perftest_bw(stage: &Stage<'_>, program: &str, options: &str, iters: u64) -> Result<f64> {
    const AVERAGE: usize = 3;
    field(&perftest(stage, program, options, iters)?, AVERAGE)
}

/// Its rate of messages, in millions a second.
pub fn perftest_rate(stage: &Stage<'_>, program: &str, options: &str, iters: u64) -> Result<f64> {
    const RATE: usize = 4;
    field(&perftest(stage, program, options, iters)?, RATE)
}

/// A number of the line below perftest's titles.
fn field(said: &str, index: usize) -> Result<f64> {
    let mut lines = said.lines().skip_while(|line| !line.trim_start().starts_with("#bytes")).skip(1);
    let value = lines.next().and_then(|line| line.split_whitespace().nth(index)?.parse().ok());
    value.ok_or_else(|| Error(format!("there is no figure in\n{said}")))
}

/// A figure of one of our tools, by its key.
pub fn srnic(stage: &Stage<'_>, tool: &str, options: &str, iters: u64, key: &str) -> Result<f64> {
    let options = format!("{options} -n {}", iters * stage.bench.pick(1, 3));
    let run = Run { tool, options: &options, wrapper: "", over: Over::Memif };
    number(&stage.bench.run(&run)?, key)
}

/// What a process takes of a core that has opened a device and waits for its events, in percent.
/// Its peer does the like.
pub fn idle(stage: &Stage<'_>) -> Result<f64> {
    let dir = stage.bench.scratch.subdirectory()?;
    let run = || {
        let start = |name: &str, role: &str| {
            let mut command = Command::new("ibv_asyncwatch");
            over_library(&mut command, stage, &dir, role);
            Process::start(name, command, &dir)
        };
        let mut server = start("server", ROLES[0])?;
        listening::wait_for_socket(&mut server, &dir.join("pair.sock"), LIMIT)?;
        let mut client = start("client", ROLES[1])?;
        // What opening takes is not counted.
        watch_idle(&mut client, Duration::from_secs(1))?;
        let (began, before) = (Instant::now(), ticks(client.id())?);
        watch_idle(&mut client, Duration::from_secs(stage.bench.pick(WATCHED[0], WATCHED[1])))?;
        let used = (ticks(client.id())? - before) as f64 / TICKS;
        Ok(100.0 * used / began.elapsed().as_secs_f64())
    };
    let result = run();
    fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
    result
}

fn watch_idle(process: &mut Process, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        interrupt::check()?;
        if process.is_done()? {
            return Err(Error::new("the idle process ended"));
        }
        sleep(INTERVAL);
    }
    Ok(())
}

/// Ticks that a process has run, all its threads together.
fn ticks(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/stat");
    let path = Path::new(&path);
    let stat = fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
    ticks_in(&stat).ok_or_else(|| Error(format!("{} makes no sense", path.display())))
}

/// User's and system's, which are the fourteenth and fifteenth field; the second may have blanks.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_their_titles() {
        let said = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
                    65536      5000             98.00              97.50              0.186\n";
        assert_eq!((field(said, 3), field(said, 4)), (Ok(97.5), Ok(0.186)));
        assert!(field("Unable to connect", 3).is_err());
    }

    #[test]
    fn the_name_of_a_process_may_have_blanks_and_brackets() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 1 0";
        assert_eq!(ticks_in(stat), Some(42));
    }
}
