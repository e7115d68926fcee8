//! A run: three processes on a switch, one of which is killed and comes again, and the comparison
//! of their logs.

use crate::{Cli, FOLLOWERS, Sabotage, placement};
use clap::ValueEnum as _;
use srnic_benches::lan::{Children, Lan};
use srnic_tools::error::{Error, Result};
use srnic_tools::interrupt;
use srnic_tools::perf::statistics::Summary;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The follower that is killed, when so many tenths of all records are committed, and when it is
/// started again.
const VICTIM: u8 = FOLLOWERS - 1;
const KILLED_AT: u64 = 3;
const BACK_AT: u64 = 6;
/// Between two looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks while a process is to be killed.
const SOON: Duration = Duration::from_millis(1);

/// What a run came to.
#[derive(Default)]
pub struct Outcome {
    /// Records committed a second.
    pub rate: f64,
    /// From append to commit.
    pub latency: Summary,
    /// Packets that the leader sent again.
    pub resent: u64,
    /// Records that the killed follower had when it came again, and that there were.
    pub back: (u64, u64),
    /// The CRC-32 of every log.
    pub checksum: u32,
}

/// Runs once. Fails if any process does, if none was killed in the middle, and if the logs differ.
pub fn run(cli: &Cli, loss: &str, seed: u32) -> Result<Outcome> {
    let faults = format!("fault:loss={loss},dir=tx,seed={seed}:");
    let lan = Lan::start(FOLLOWERS + 1, &faults, placement::of(0))?;
    let mut cluster = Cluster::start(cli, &lan)?;
    let mut outcome = cluster.supervise()?;
    cluster.processes.succeed()?;
    for number in 0..FOLLOWERS {
        outcome.checksum = compare(&lan.dir().join("leader"), &follower_log(&lan, number))?;
    }
    Ok(outcome)
}

/// The processes of a run.
struct Cluster<'a> {
    cli: &'a Cli,
    lan: &'a Lan,
    /// Those that must succeed: the leader, and the followers but for [`VICTIM`].
    processes: Children,
    victim: Children,
    /// Whether it is to be killed, as soon as it has a record to come back with.
    doomed: bool,
    /// What the leader says.
    said: Receiver<String>,
    leader: ChildStdin,
}

impl<'a> Cluster<'a> {
    fn start(cli: &'a Cli, lan: &'a Lan) -> Result<Self> {
        let mut command = part(cli, lan, 1, "lead", &lan.dir().join("leader"))?;
        let mut leader = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (stdin, stdout) = (leader.stdin.take(), leader.stdout.take());
        let mut processes = Children(vec![leader]);
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(Error::Options("the leader has no pipes".to_owned()));
        };
        for number in (0..FOLLOWERS).filter(|number| *number != VICTIM) {
            processes.0.push(follower(cli, lan, number)?);
        }
        let victim = Children(vec![follower(cli, lan, VICTIM)?]);
        Ok(Self { cli, lan, processes, victim, doomed: false, said: lines(stdout), leader: stdin })
    }

    /// Kills a follower and starts it again while the leader goes on, to its end.
    fn supervise(&mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        loop {
            interrupt::check()?;
            self.victim.reap()?;
            self.kill()?;
            let limit = if self.doomed { SOON } else { LOOK };
            match self.said.recv_timeout(limit) {
                Ok(line) => self.hear(&line, &mut outcome)?,
                Err(RecvTimeoutError::Timeout) => self.processes.reap()?,
                Err(RecvTimeoutError::Disconnected) if outcome.rate == 0.0 => {
                    self.processes.reap()?;
                    return Err(Error::PeerLeft);
                }
                Err(RecvTimeoutError::Disconnected) if outcome.back.0 == 0 => {
                    let reason = "no follower was killed in the middle; give it more --records";
                    return Err(Error::Options(reason.to_owned()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.processes.0.append(&mut self.victim.0);
                    return Ok(outcome);
                }
            }
        }
    }

    /// Kills the victim when its time has come.
    fn kill(&mut self) -> Result<()> {
        let log = follower_log(self.lan, VICTIM);
        let len = || log.metadata().map(|log| log.len()).map_err(Error::file("look at", &log));
        if !self.doomed || len()? < self.cli.shape.size as u64 {
            return Ok(());
        }
        self.doomed = false;
        self.victim = Children(Vec::new());
        // The leader waits for it before it appends the second half.
        self.leader.write_all(b"go on\n").map_err(Error::Output)
    }

    /// What the leader says, and what follows from it.
    fn hear(&mut self, line: &str, outcome: &mut Outcome) -> Result<()> {
        let unexpected =
            || Error::Unexpected { said: line.to_owned(), expected: "what a leader says of its progress" };
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["committed", tenths] if tenths.parse() == Ok(KILLED_AT) => {
                self.doomed = true;
            }
            ["committed", tenths] if tenths.parse() == Ok(BACK_AT) => {
                self.victim = Children(vec![follower(self.cli, self.lan, VICTIM)?]);
            }
            ["committed", _] => {}
            ["back", had, of] => {
                outcome.back = had.parse().ok().zip(of.parse().ok()).ok_or_else(unexpected)?;
            }
            ["done", rate, resent, latency] => {
                outcome.rate = rate.parse().map_err(|_| unexpected())?;
                outcome.resent = resent.parse().map_err(|_| unexpected())?;
                outcome.latency = latency.parse().map_err(|()| unexpected())?;
            }
            _ => return Err(unexpected()),
        }
        Ok(())
    }
}

fn follower_log(lan: &Lan, number: u8) -> PathBuf {
    lan.dir().join(format!("follower-{number}"))
}

fn follower(cli: &Cli, lan: &Lan, number: u8) -> Result<Child> {
    let mut command = part(cli, lan, number + 2, "follow", &follower_log(lan, number))?;
    // The leader is the first host.
    spawn(command.args(["--number", &number.to_string(), "--leader", "10.77.0.1"]).stdout(Stdio::null()))
}

/// This program once more, as a part of the demonstration.
fn part(cli: &Cli, lan: &Lan, host: u8, name: &str, log: &Path) -> Result<Command> {
    let program = std::env::current_exe().map_err(Error::file("find", "this program".as_ref()))?;
    let mut command = Command::new(&program);
    let shape = cli.shape;
    command.args([name, "--device", &lan.device(host)]).arg("--log").arg(log);
    if let Some(cpu) = placement::of(host) {
        command.args(["--cpu", &cpu.to_string()]);
    }
    command.args(["--records", &shape.records.to_string(), "--size", &shape.size.to_string()]);
    command.args(["--outstanding", &shape.outstanding.to_string()]);
    if let Some(sabotage) = cli.sabotage.as_ref().and_then(Sabotage::to_possible_value) {
        command.args(["--sabotage", sabotage.get_name()]);
    }
    Ok(command)
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(Error::file("start", "this program".as_ref()))
}

/// The lines that a process says, as they come.
fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (tell, said) = channel();
    // It ends with the process.
    thread::spawn(move || {
        // Nobody listens any more once the run has failed.
        BufReader::new(stdout).lines().map_while(|line| line.ok()).try_for_each(|line| tell.send(line))
    });
    said
}

/// Compares two logs byte for byte; returns the CRC-32 of both.
fn compare(ours: &Path, theirs: &Path) -> Result<u32> {
    let open = |path: &Path| File::open(path).map(BufReader::new).map_err(Error::file("open", path));
    let (mut left, mut right) = (open(ours)?, open(theirs)?);
    let (mut hasher, mut offset) = (crc32fast::Hasher::new(), 0);
    let (mut expected, mut found) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = left.read(&mut expected).map_err(Error::file("read", ours))?;
        let (expected, found) = (&expected[..count], &mut found[..count]);
        right.read_exact(found).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::Options(format!("{} is too short", theirs.display())),
            _ => Error::file("read", theirs)(error),
        })?;
        if let Some(at) = expected.iter().zip(found.iter()).position(|(expected, found)| expected != found) {
            let (found, expected) = (found[at], expected[at]);
            return Err(Error::Differs { what: "follower's log", offset: offset + at, found, expected });
        }
        if count == 0 {
            break;
        }
        hasher.update(expected);
        offset += count;
    }
    if right.read(&mut [0]).map_err(Error::file("read", theirs))? > 0 {
        return Err(Error::Options(format!("{} is too long", theirs.display())));
    }
    Ok(hasher.finalize())
}
