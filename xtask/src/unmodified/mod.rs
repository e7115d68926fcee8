//! `cargo xtask test --unmodified`: programs that others compiled for rdma-core's libibverbs, over
//! the drop-in library (docs/unmodified.md).

mod by_address;
mod cases;
mod exports;
mod jobs;
mod listening;
mod symbols;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::dropin;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::{Process, free_port, watch};
use crate::repo::{self, CHECKED};
use crate::scratch::Scratch;
use crate::setup::{self, UNMODIFIED};
use crate::steps::Steps;
use cases::{Case, End};

/// Longest run of a pair: far more than any takes.
const LIMIT: Duration = Duration::from_secs(300);
/// The losses of the runs over a bad network, both ways at both ends.
const FAULTS: &str = "fault:loss=1%,seed=7:";

/// All cases, and what is skipped because its program is not there. Those are played whose name
/// contains `part`.
pub fn run(part: &str) -> Result<()> {
    setup::implied(UNMODIFIED)?;
    let library = dropin::build(CHECKED)?;
    interrupt::catch()?;
    let mut steps = Steps::default();
    let mut skipped = Vec::new();
    if "symbols".contains(part) {
        steps.check("symbols", || symbols::check(&library.join(dropin::LIBRARY)));
    }
    let scratch = Scratch::new()?;
    if "exports".contains(part) {
        steps.check("exports", || exports::check(&library, &scratch));
    }
    for (name, asks) in LOOKS.into_iter().filter(|(name, _)| name.contains(part)) {
        if is_there(name) { steps.check(name, || asks(&library)) } else { skipped.push(name) }
    }
    for case in Case::all().filter(|case| case.name().contains(part)) {
        interrupt::check()?;
        if is_there(case.program) {
            steps.check(&case.name(), || play(&case, &library, &scratch));
        } else if !skipped.contains(&case.program) {
            skipped.push(case.program);
        }
    }
    for case in by_address::Case::all().filter(|case| case.name().contains(part)) {
        interrupt::check()?;
        if case.is_there() {
            steps.check(&case.name(), || by_address::play(&case, &library, &scratch));
        } else if !skipped.contains(&case.program) {
            skipped.push(case.program);
        }
    }
    skipped.extend(jobs::play(part, &library, &scratch, &mut steps)?);
    for program in skipped {
        println!(
            "skipped: there is no `{program}`; `cargo xtask setup --unmodified` installs it (Debian: ibverbs-utils, perftest, rdmacm-utils, ucx-utils, libfabric-bin, openmpi-bin, netpipe-openmpi, hpcc, python3-mpi4py)"
        );
    }
    steps.finish()
}

/// UCX would else use shared memory on one machine.
const UCX_TRANSPORTS: &str = "rc_verbs,ud_verbs,self";

/// What a program that only looks at the device must say, over the library in a directory.
type Look = fn(&Path) -> Result<()>;

/// Those programs.
const LOOKS: [(&str, Look); 4] =
    [("ibv_devices", devices), ("ibv_devinfo", devinfo), ("ls", files), ("ucx_info", ucx_info)];

/// A program over the library.
fn command(program: &str, library: &Path, device: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library).env("SRNIC_DEVICE", device);
    command.env("LD_PRELOAD", library.join(dropin::PRELOAD)).env("UCX_TLS", UCX_TRANSPORTS);
    command
}

fn devices(library: &Path) -> Result<()> {
    let said = repo::output(&mut command("ibv_devices", library, "sim:look"))?;
    says(&said, &["srnic0"])?;
    // Whose library it is.
    let said = repo::output(&mut command("ibv_devices", library, ""))?;
    if said.contains("srnic0") { Err(Error(format!("a device that nobody named:\n{said}"))) } else { Ok(()) }
}

fn devinfo(library: &Path) -> Result<()> {
    let said = repo::output(command("ibv_devinfo", library, "sim:look,ip=10.77.0.9; speed=40").arg("-v"))?;
    says(&said, &["srnic0", "PORT_ACTIVE", "Ethernet", "::ffff:10.77.0.9, RoCE v2", "10.0 Gbps (4)"])
}

/// What is below /sys and /dev for programs, and is not for who has no device.
fn files(library: &Path) -> Result<()> {
    const PATHS: [&str; 2] = ["/sys/class/infiniband", "/dev/infiniband"];
    let device = "sim:look,ip=10.77.0.9";
    let said = repo::output(command("ls", library, device).arg("-lR").args(PATHS))?;
    says(
        &said,
        &["/sys/class/infiniband/srnic0/ports/1/gid_attrs/types:", "crw-rw-rw- 1 root root 231, 192"],
    )?;
    let gid = "/sys/class/infiniband/srnic0/ports/1/gids/0";
    let said = repo::output(command("cat", library, device).arg(gid))?;
    says(&said, &["0000:0000:0000:0000:0000:ffff:0a4d:0009"])?;
    let output = command("ls", library, "").arg(PATHS[1]).output();
    let output = output.map_err(|e| Error::io("run", Path::new("ls"), &e))?;
    if output.status.success() { Err(Error::new("a device that nobody named is in /dev")) } else { Ok(()) }
}

fn ucx_info(library: &Path) -> Result<()> {
    let said = repo::output(command("ucx_info", library, "sim:look,ip=10.77.0.9").arg("-d"))?;
    says(&said, &["Transport: rc_verbs", "Transport: ud_verbs", "Device: srnic0:1"])
}

fn says(said: &str, all: &[&str]) -> Result<()> {
    let missing: Vec<_> = all.iter().filter(|part| !said.contains(*part)).copied().collect();
    if missing.is_empty() { Ok(()) } else { Err(Error(format!("it does not say {missing:?}:\n{said}"))) }
}

/// Both sides of a case, to their successful end.
fn play(case: &Case, library: &Path, scratch: &Scratch) -> Result<()> {
    let dir = scratch.subdirectory()?;
    let result = play_in(&dir, case, library);
    std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
    result
}

fn play_in(dir: &Path, case: &Case, library: &Path) -> Result<()> {
    let port = free_port()?;
    let socket = dir.join("pair.sock");
    let side = |end: End| {
        let role = if end == End::Server { "server" } else { "client" };
        let faults = if case.is_lossy { FAULTS } else { "" };
        let device = format!("{faults}memif:{},role={role}", socket.display());
        let mut command = command(case.program, library, &device);
        command.args(case.options()).args([case.port_option(end), &port.to_string()]);
        command
    };
    let mut server = Process::start("server", side(End::Server), dir)?;
    listening::wait(&mut server, port, LIMIT)?;
    let mut client = side(End::Client);
    client.arg("127.0.0.1");
    let mut client = Process::start("client", client, dir)?;
    watch(&mut server, &mut client, LIMIT)?;
    println!("{}", last_line(&dir.join("client.out")));
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
