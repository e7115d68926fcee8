//! `cargo xtask test --unmodified`: programs that others compiled for rdma-core's libibverbs, over
//! the drop-in library (docs/unmodified.md).

mod by_address;
mod cases;
mod differ;
mod ends;
mod exports;
mod groups;
mod interfaces;
mod jobs;
mod many;
mod pyverbs;
mod sockets;
mod symbols;
mod threads;
mod tool;
pub mod ucx;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::dropin;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::listening;
use crate::process::{Process, free_port, watch};
use crate::repo::{self, CHECKED};
use crate::scratch::Scratch;
use crate::setup::{self, UNMODIFIED};
use crate::steps::Steps;
use crate::tools::Tools;
use cases::{Case, End};
pub use jobs::{HPCC_INPUT, MPI_AS_ROOT, MPI_OVER_UCX};

/// How a line begins that says what was not played.
pub const SKIPPED: &str = "skipped: ";
/// Longest run of a pair: far more than any takes.
const LIMIT: Duration = Duration::from_secs(300);
/// How often a process is looked at that something is expected of.
const INTERVAL: Duration = Duration::from_millis(5);
/// What brings what is missing.
const INSTALL: &str = "`cargo xtask setup --unmodified` installs it (Debian: gcc, libibverbs-dev, iproute2, ibverbs-utils, perftest, rdmacm-utils, ucx-utils, libfabric-bin, openmpi-bin, netpipe-openmpi, hpcc, iperf3, redis-server, python3-mpi4py, python3-pyverbs)";
/// The losses of the runs over a bad network, both ways at both ends.
const FAULTS: &str = "fault:loss=1%,seed=7:";

/// All rows whose name contains `part`, and what is skipped because its program is not there.
pub fn run(part: &str) -> Result<()> {
    setup::implied(UNMODIFIED)?;
    let library = dropin::build(CHECKED)?;
    let tool = Tools::build(CHECKED)?.program();
    interrupt::catch()?;
    let scratch = Scratch::new()?;
    let mut rows = Rows {
        part,
        library: &library,
        tool: &tool,
        scratch: &scratch,
        steps: Steps::default(),
        found: false,
        skipped: Vec::new(),
    };
    rows.play("symbols", &[], |_| symbols::check(&library.join(dropin::LIBRARY)))?;
    exports::play(&mut rows)?;
    for (program, asks) in LOOKS {
        rows.play(program, &[program], asks)?;
    }
    tool::play(&mut rows)?;
    for case in Case::all() {
        rows.play(&case.name(), &[case.program], |place| play(&case, place))?;
    }
    for case in by_address::Case::all() {
        if let Some(why) = case.why_not() {
            rows.skip_if_asked_for(&case.name(), why);
            continue;
        }
        rows.play(&case.name(), &case.programs(), |place| by_address::play(&case, place))?;
    }
    interfaces::play(&mut rows)?;
    groups::play(&mut rows)?;
    differ::play(&mut rows)?;
    many::play(&mut rows)?;
    ends::play(&mut rows)?;
    threads::play(&mut rows)?;
    sockets::play(&mut rows)?;
    pyverbs::play(&mut rows)?;
    jobs::play(&mut rows)?;
    rows.finish()
}

/// The rows that are asked for.
struct Rows<'a> {
    part: &'a str,
    library: &'a Path,
    tool: &'a Path,
    scratch: &'a Scratch,
    steps: Steps,
    /// Whether any row was asked for.
    found: bool,
    /// Why rows were not played, and which.
    skipped: Vec<(String, Vec<String>)>,
}

/// Where a row is played.
struct Place<'a> {
    /// The directory of the library.
    library: &'a Path,
    /// Our program, whose `run` finds that library.
    tool: &'a Path,
    /// One of the row's own, which goes with it.
    dir: &'a Path,
}

impl Rows<'_> {
    fn is_asked_for(&self, name: &str) -> bool {
        name.contains(self.part)
    }

    /// Plays a row, if it is asked for and its programs are there.
    fn play(
        &mut self,
        name: &str,
        programs: &[&str],
        check: impl FnOnce(&Place<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_asked_for(name) {
            return Ok(());
        }
        self.found = true;
        interrupt::check()?;
        if let Some(missing) = programs.iter().find(|program| !is_there(program)) {
            self.skip(name, &format!("there is no `{missing}`; {INSTALL}"));
            return Ok(());
        }
        let Self { scratch, library, tool, .. } = *self;
        self.steps.check(name, || {
            let dir = scratch.subdirectory()?;
            let result = check(&Place { library, tool, dir: &dir });
            std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
            result
        });
        Ok(())
    }

    /// Plays a row of a program of our own in C.
    fn play_in_c(
        &mut self,
        name: &str,
        programs: &[&str],
        check: impl FnOnce(&Place<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.is_asked_for(name)
            && let Err(missing) = setup::verbs_in_c()
        {
            self.skip(name, &format!("{missing}; {INSTALL}"));
            return Ok(());
        }
        self.play(name, programs, check)
    }

    /// A row is not played, if it is asked for.
    fn skip_if_asked_for(&mut self, name: &str, why: &str) {
        if self.is_asked_for(name) {
            self.skip(name, why);
        }
    }

    /// A row is not played.
    fn skip(&mut self, name: &str, why: &str) {
        self.found = true;
        match self.skipped.iter_mut().find(|(said, _)| said == why) {
            Some((_, names)) => names.push(name.to_owned()),
            None => self.skipped.push((why.to_owned(), vec![name.to_owned()])),
        }
    }

    fn finish(self) -> Result<()> {
        if !self.found {
            return Err(Error(format!("the name of no row contains `{}`", self.part)));
        }
        for (why, names) in &self.skipped {
            println!("{}", skipped(why, names));
        }
        self.steps.finish()
    }
}

/// What is said of rows that were not played for one reason.
fn skipped(why: &str, names: &[String]) -> String {
    match names {
        [name] => format!("{SKIPPED}{name}: {why}"),
        [name, more @ ..] => format!("{SKIPPED}{name} and {} more: {why}", more.len()),
        [] => String::new(),
    }
}

impl Place<'_> {
    /// The path of a memif of the row's own.
    fn socket(&self) -> PathBuf {
        self.dir.join("pair.sock")
    }

    /// An end of it, `server` or `client`, with what goes before and behind it.
    fn memif(&self, role: &str, before: &str, behind: &str) -> String {
        format!("{before}memif:{},role={role}{behind}", self.socket().display())
    }

    /// A program of our own in C, below the repository's root, with these options of the compiler
    /// and libraries.
    fn built(&self, source: &str, options: &[&str], libraries: &[&str]) -> Result<PathBuf> {
        let program = self.dir.join(Path::new(source).file_stem().unwrap_or_default());
        let mut cc = Command::new("cc");
        cc.arg("-O1").args(options).arg("-o").arg(&program).arg(repo::root().join(source)).args(libraries);
        repo::run(cc)?;
        Ok(program)
    }

    /// A program over the library, as users start it: `srnic run` becomes the program.
    fn command(&self, program: &str, device: &str) -> Command {
        let mut command = Command::new(self.tool);
        command.args(run_arguments(program, device)).env("UCX_TLS", UCX_TRANSPORTS);
        command
    }

    /// A program over the library that has no device.
    fn without_device(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        use_library(&mut command, self.library, "");
        command
    }
}

/// What our program is given to become another one.
fn run_arguments<'a>(program: &'a str, device: &'a str) -> [&'a str; 5] {
    ["run", "-d", device, "--", program]
}

/// UCX would else use shared memory on one machine.
const UCX_TRANSPORTS: &str = "rc_verbs,ud_verbs,self";

/// What a program that only looks at the device must say.
type Look = fn(&Place<'_>) -> Result<()>;

/// Those programs.
const LOOKS: [(&str, Look); 5] = [
    ("ibv_devices", devices),
    ("ibv_devinfo", devinfo),
    ("ls", files),
    ("ucx_info", ucx_info),
    ("fi_info", fi_info),
];

/// Gives a program the library in a directory, and a device, by the variables that `srnic run`
/// sets.
pub fn use_library(command: &mut Command, library: &Path, device: &str) {
    command.env("LD_LIBRARY_PATH", library).env("SRNIC_DEVICE", device);
    command.env("LD_PRELOAD", library.join(dropin::PRELOAD)).env("UCX_TLS", UCX_TRANSPORTS);
}

fn devices(place: &Place<'_>) -> Result<()> {
    let said = repo::output(&mut place.command("ibv_devices", "sim:look"))?;
    says(&said, &["srnic0"])?;
    // By the variables, without `srnic run`.
    let mut by_hand = Command::new("ibv_devices");
    use_library(&mut by_hand, place.library, "sim:look");
    says(&repo::output(&mut by_hand)?, &["srnic0"])?;
    // Whose library it is.
    let said = repo::output(&mut place.without_device("ibv_devices"))?;
    if said.contains("srnic0") { Err(Error(format!("a device that nobody named:\n{said}"))) } else { Ok(()) }
}

fn devinfo(place: &Place<'_>) -> Result<()> {
    let said = repo::output(place.command("ibv_devinfo", "sim:look,ip=10.77.0.9; speed=40").arg("-v"))?;
    says(&said, &["srnic0", "PORT_ACTIVE", "Ethernet", "::ffff:10.77.0.9, RoCE v2", "10.0 Gbps (4)"])
}

/// What is below /sys and /dev for programs, and is not for who has no device.
fn files(place: &Place<'_>) -> Result<()> {
    const PATHS: [&str; 2] = ["/sys/class/infiniband", "/dev/infiniband"];
    let device = "sim:look,ip=10.77.0.9";
    let said = repo::output(place.command("ls", device).arg("-lR").args(PATHS))?;
    says(
        &said,
        &["/sys/class/infiniband/srnic0/ports/1/gid_attrs/types:", "crw-rw-rw- 1 root root 231, 192"],
    )?;
    let gid = "/sys/class/infiniband/srnic0/ports/1/gids/0";
    let said = repo::output(place.command("cat", device).arg(gid))?;
    says(&said, &["0000:0000:0000:0000:0000:ffff:0a4d:0009"])?;
    let output = place.without_device("ls").arg(PATHS[1]).output();
    let output = output.map_err(|e| Error::io("run", Path::new("ls"), &e))?;
    if output.status.success() { Err(Error::new("a device that nobody named is in /dev")) } else { Ok(()) }
}

fn ucx_info(place: &Place<'_>) -> Result<()> {
    let said = repo::output(place.command("ucx_info", "sim:look,ip=10.77.0.9").arg("-d"))?;
    says(&said, &["Transport: rc_verbs", "Transport: ud_verbs", "Device: srnic0:1"])
}

fn fi_info(place: &Place<'_>) -> Result<()> {
    let said = repo::output(place.command("fi_info", "sim:look,ip=10.77.0.9").args(["-p", "verbs"]))?;
    says(&said, &["provider: verbs", "domain: srnic0", "type: FI_EP_MSG", "type: FI_EP_DGRAM"])
}

fn says(said: &str, all: &[&str]) -> Result<()> {
    let missing: Vec<_> = all.iter().filter(|part| !said.contains(*part)).copied().collect();
    if missing.is_empty() { Ok(()) } else { Err(Error(format!("it does not say {missing:?}:\n{said}"))) }
}

/// Both sides of a case, to their successful end.
fn play(case: &Case, place: &Place<'_>) -> Result<()> {
    let faults = if case.is_lossy { FAULTS } else { "" };
    let port = free_port()?;
    pair(place, LIMIT, |end| {
        let role = if end == End::Server { "server" } else { "client" };
        let mut command = place.command(case.program, &place.memif(role, faults, ""));
        command.args(case.options()).args([case.port_option(end), &port.to_string()]);
        command.args(if case.program == "ucx_perftest" { ucx::alone() } else { &[] });
        (command, port)
    })?;
    println!("{}", last_line(&place.dir.join("client.out")));
    Ok(())
}

/// A server that waits at a TCP port of this host, and its client, to their successful end.
fn pair(place: &Place<'_>, limit: Duration, side: impl Fn(End) -> (Command, u16)) -> Result<()> {
    pair_of(place, limit, side).map(drop)
}

/// The numbers that the processes of a [`pair`] had.
fn pair_of(place: &Place<'_>, limit: Duration, side: impl Fn(End) -> (Command, u16)) -> Result<[u32; 2]> {
    let (server, port) = side(End::Server);
    let mut server = Process::start("server", server, place.dir)?;
    listening::wait(&mut server, port, limit)?;
    let (mut client, _) = side(End::Client);
    client.arg("127.0.0.1");
    let mut client = Process::start("client", client, place.dir)?;
    watch(&mut server, &mut client, limit)?;
    Ok([server.id(), client.id()])
}

/// Waits until a process that runs has written a word to its output.
fn wait_for(process: &mut Process, output: &Path, word: &str, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !std::fs::read_to_string(output).is_ok_and(|said| said.contains(word)) {
        interrupt::check()?;
        if process.is_done()? || Instant::now() > deadline {
            return Err(Error(format!("it does not say `{word}`")));
        }
        sleep(INTERVAL);
    }
    Ok(())
}

/// What a program reported last, but for rules.
fn last_line(output: &Path) -> String {
    let said = std::fs::read_to_string(output).unwrap_or_default();
    let lines = said.lines().rev().map(str::trim);
    lines.into_iter().find(|line| line.contains(|c: char| c.is_ascii_digit())).unwrap_or_default().to_owned()
}

/// Returns `true` if the program can be run by its name.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|place: PathBuf| place.join(program)).any(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_played_is_said_with_its_reason() {
        let names = ["ib_send_bw -e", "ib_send_bw -b", "ib_send_lat"].map(str::to_owned);
        assert_eq!(skipped("there is none", &names[..1]), "skipped: ib_send_bw -e: there is none");
        assert_eq!(skipped("there is none", &names), "skipped: ib_send_bw -e and 2 more: there is none");
    }
}
