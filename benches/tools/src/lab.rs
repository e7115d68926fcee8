//! A network of hosts for one command: tests that want RDMA have it without hardware, kernel module
//! or root, and with losses that come again.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::place::Place;
use crate::program;
use crate::switch::{PortSpec, PortSpecError, Row, Switch, descriptors, table};
use clap::{ArgMatches, Parser};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

/// Runs a command beside a switch, with a device for each host in its environment
///
/// Host 1 is SRNIC_DEVICE_1, host 2 SRNIC_DEVICE_2, and so on: device strings such as
/// memif:/tmp/..,role=client,ip=10.77.0.1. SRNIC_HOSTS says how many there are. The command's exit
/// status is the tool's. At the end it says what the switch counted.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Hosts on the switch
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=200))]
    hosts: u8,
    /// Faults of every host's port, both ways, as in loss=1% or loss=1%,reorder=1%
    #[arg(long, value_name = "FAULTS")]
    fault: Option<String>,
    /// Seed of the faults: the same one gives the same losses, and each host has losses of its own
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// The queue in front of every host, as in frames=256,mark=65,rate=10G
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Writes the switch's counters to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let mut status = None;
    let code = interrupt::tool_main(|| run(&program::args(matches)).map(|ended| status = Some(ended)));
    status.map_or(code, code_of)
}

/// A command that a signal ended has 128 and that signal, as in a shell.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(cli: &Cli) -> Result<ExitStatus> {
    output::check_file(cli.json.as_deref())?;
    descriptors::allow(cli.hosts.into())?;
    let place = Place::new("lab")?;
    let ports = ports(cli, place.path()).map_err(|error| Error::Options(error.to_string()))?;
    let mut switch = Switch::default();
    for port in &ports {
        switch.attach(port.open()?, port.queue);
    }
    let mut child = start(cli, place.path())?;
    let mut ended = Ok(None);
    let mut told = false;
    switch.run(
        || {
            if !told && interrupt::check().is_err() {
                told = true;
                terminate(&child);
            }
            ended = child.try_wait();
            !matches!(ended, Ok(None))
        },
        |why| program::say(why),
    );
    let ended = ended.and_then(|ended| ended.map_or_else(|| child.wait(), Ok));
    let status = ended.map_err(|source| Error::File {
        doing: "wait for",
        path: PathBuf::from(&cli.command[0]),
        source,
    })?;
    tell(cli, &switch, &ports)?;
    Ok(status)
}

/// A port for each host, whose losses are its own.
fn ports(cli: &Cli, place: &Path) -> std::result::Result<Vec<PortSpec>, PortSpecError> {
    let queue = cli.queue.as_ref().map(|queue| format!("queue:{queue}:")).unwrap_or_default();
    (1..=cli.hosts)
        .map(|host| {
            let seed = u64::from(cli.seed) * u64::from(u8::MAX) + u64::from(host);
            let faults = cli.fault.as_ref().map(|faults| format!("fault:{faults},seed={seed}:"));
            let socket = socket(place, host);
            format!("{queue}{}memif:{}", faults.unwrap_or_default(), socket.display()).parse()
        })
        .collect()
}

fn socket(place: &Path, host: u8) -> PathBuf {
    place.join(format!("{host}.sock"))
}

fn start(cli: &Cli, place: &Path) -> Result<Child> {
    let mut command = Command::new(&cli.command[0]);
    command.args(&cli.command[1..]).env("SRNIC_HOSTS", cli.hosts.to_string());
    for host in 1..=cli.hosts {
        let device = format!("memif:{},role=client,ip=10.77.0.{host}", socket(place, host).display());
        command.env(format!("SRNIC_DEVICE_{host}"), device);
    }
    command.spawn().map_err(Error::file("run", Path::new(&cli.command[0])))
}

/// Asks the command to end; whoever pressed Ctrl-C has asked it already.
fn terminate(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It fails if it has just ended.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// What the switch counted, on standard error: standard output is the command's.
fn tell(cli: &Cli, switch: &Switch, ports: &[PortSpec]) -> Result<()> {
    let rows: Vec<Row> = switch
        .lanes()
        .zip(ports)
        .map(|((link_down, stats), port)| Row { port: port.text.clone(), link_down, stats })
        .collect();
    eprint!("{}", table(&rows));
    let Some(path) = &cli.json else { return Ok(()) };
    let ports: Vec<_> = rows.iter().map(Row::json).collect();
    std::fs::write(path, format!("{:#}\n", serde_json::json!({ "ports": ports })))
        .map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cli(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).expect("a command line")
    }

    #[test]
    fn each_host_has_a_port_with_losses_of_its_own() {
        let texts = |line: &str| -> Vec<String> {
            let ports = ports(&cli(line), Path::new("/tmp/x")).expect("ports");
            ports.into_iter().map(|port| port.text).collect()
        };
        assert_eq!(texts("lab true"), ["memif:/tmp/x/1.sock", "memif:/tmp/x/2.sock"]);
        assert_eq!(
            texts("lab --hosts 2 --fault loss=1% --seed 3 --queue frames=64 true"),
            [1, 2].map(|host| format!(
                "queue:frames=64:fault:loss=1%,seed={}:memif:/tmp/x/{host}.sock",
                3 * 255 + host
            ))
        );
    }

    #[test]
    fn what_is_no_fault_or_queue_is_named() {
        let error = |line: &str| ports(&cli(line), Path::new("/tmp/x")).expect_err("refused").to_string();
        assert!(error("lab --fault lost=1% true").contains("unknown fault key `lost`"));
        assert!(error("lab --fault loss=1%,seed=4 true").contains("`seed` is given twice"));
        assert!(error("lab --queue deep=1 true").contains("keys are frames, mark, rate"));
    }

    #[test]
    fn options_of_the_command_are_its_own() {
        let cli = cli("lab --hosts 3 cargo test --hosts 9");
        assert_eq!((cli.hosts, cli.command.len()), (3, 4));
    }

    #[test]
    fn a_signal_is_told_as_a_shell_does() {
        assert_eq!(code_of(ExitStatus::from_raw(9)), ExitCode::from(137));
        assert_eq!(code_of(ExitStatus::from_raw(3 << 8)), ExitCode::from(3));
    }
}
