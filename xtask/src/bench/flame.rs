//! `cargo xtask bench flame`: where the time of a sender and of its receiver goes, as flame graphs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::stacks;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::machine::Machine;
use crate::repo;
use crate::scratch::Scratch;
use crate::tools::{Over, Run, Tools, number};

const TOOL: &str = "write-bw";
/// Samples a second: no divisor of anything that the programs do.
const FREQUENCY: &str = "1999";
/// What runs on each side, and what the figures call it.
const SIDES: [(&str, &str); 2] = [("client", "sender"), ("server", "receiver")];

/// What is sent, for two seconds.
struct Load {
    key: &'static str,
    title: &'static str,
    options: &'static str,
}

/// As `bench compare` sends them.
const LOADS: [Load; 2] = [
    Load { key: "write_64b", title: "WRITEs of 64 bytes", options: "-s 64 -t 256 -l 32 -Q 64 -D 2" },
    Load { key: "write_64k", title: "WRITEs of 64 KiB", options: "-s 65536 -m 4096 -D 2" },
];

/// Where the figures go.
#[derive(Args)]
pub struct Options {
    /// Draws the figures into this directory, which is made if it is not there
    #[arg(long, value_name = "DIRECTORY")]
    out: PathBuf,
    /// Takes the program from this directory instead of building it with frame pointers
    #[arg(long, value_name = "DIRECTORY")]
    tools: Option<PathBuf>,
}

/// Builds the program, records it, and draws.
pub fn run(options: &Options) -> Result<()> {
    need_programs()?;
    fs::create_dir_all(&options.out).map_err(|e| Error::io("create", &options.out, &e))?;
    let tools = match &options.tools {
        Some(directory) => Tools::in_directory(directory),
        None => Tools::build_for_perf()?,
    };
    // As perf names it.
    let program = tools.program();
    let program = program.canonicalize().map_err(|e| Error::io("find", &program, &e))?;
    interrupt::catch()?;
    let (scratch, machine) = (Scratch::new()?, Machine::here());
    // All is recorded first: to read a recording takes longer than to make it.
    for load in &LOADS {
        let run = Run { tool: TOOL, options: load.options, wrapper: "", over: Over::ZeroCopy };
        let launch = |side: &str, program: &Path| record(&recording(scratch.path(), load, side), program);
        let result = tools.run_by(&scratch, machine.two_cpus(), &run, &launch)?;
        println!("{:20} {:.2} million a second", load.title, number(&result, "msg_rate_mpps")?);
    }
    for (load, (side, who)) in LOADS.iter().flat_map(|load| SIDES.map(|side| (load, side))) {
        interrupt::check()?;
        let script = read(&recording(scratch.path(), load, side))?;
        let folded = stacks::fold(&script, &program, scratch.path())?;
        let figure = options.out.join(format!("flame_{}_{who}.svg", load.key));
        stacks::draw(&figure, &format!("{}, zero-copy memif: the {who}", load.title), &folded)?;
        println!("{}", figure.display());
    }
    println!("{}", machine.line());
    Ok(())
}

/// What records, and what says where a function was inlined.
fn need_programs() -> Result<()> {
    for (program, package) in [("perf", "linux-perf"), ("addr2line", "binutils")] {
        if repo::output(Command::new(program).arg("--version")).is_err() {
            return Err(Error(format!(
                "there is no usable `{program}`: install it (Debian's package is {package})"
            )));
        }
    }
    Ok(())
}

fn recording(directory: &Path, load: &Load, side: &str) -> PathBuf {
    directory.join(format!("{}-{side}.perf", load.key))
}

/// The program under perf. The clock, because virtual machines seldom have counters; not the
/// kernel, which an ordinary user may not look into, and which a polling program does not call.
fn record(recording: &Path, program: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "--quiet", "--event", "cpu-clock:u", "--freq", FREQUENCY, "--call-graph", "fp"]);
    command.arg("--output").arg(recording).arg("--").arg(program);
    command
}

/// The recording as text.
fn read(recording: &Path) -> Result<String> {
    // What was inlined perf would ask `addr2line` for one by one, if at all; `stacks` does it at
    // once.
    repo::output(
        Command::new("perf").args(["script", "--no-inline", "--no-demangle", "--input"]).arg(recording),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_what_follows_it_stand_behind_perfs_own_options() {
        let mut command = record(Path::new("out.perf"), Path::new("/bin/tool"));
        command.arg("-s").arg("64");
        let shown = repo::shown(&command);
        assert!(
            shown.starts_with("perf record ") && shown.ends_with(" --output out.perf -- /bin/tool -s 64"),
            "{shown}"
        );
    }

    #[test]
    fn each_side_of_each_load_has_a_recording_of_its_own() {
        let all = LOADS.iter().flat_map(|load| SIDES.map(|(side, _)| recording(Path::new("d"), load, side)));
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}
