//! `srnic run` itself: what it tells the program, what it says if it cannot, and that it leaves
//! nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::{LIMIT, Place, Rows, pair, pair_of, says, use_library};
use crate::error::{Error, Result};
use crate::process::free_port;
use crate::repo;

/// What it ends with if there is no program to become: any other status is the program's.
const NO_PROGRAM: i32 = 1;
/// What it ends with if it is called wrongly.
const NO_SENSE: i32 = 2;
/// Variables that have the number of a process of a job.
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// What it refuses, the status, and the words that it says.
const REFUSED: [(&[&str], i32, &[&str]); 12] = [
    (
        &["-d", "sim:a", "--", "/nonexistent/program"],
        NO_PROGRAM,
        &["cannot run /nonexistent/program", "No such file"],
    ),
    (&["-d", "sim:a", "--", "/dev/zero"], NO_PROGRAM, &["cannot run /dev/zero", "Permission denied"]),
    (&["-d", "nothing", "--", "true"], NO_PROGRAM, &["has no scheme"]),
    (&["-d", "sim:a,colour=red", "--", "true"], NO_PROGRAM, &["colour"]),
    (&["-d", "af_xdp:eth0,ip=10.0.0.1", "--", "true"], NO_PROGRAM, &["srnic switch"]),
    (
        &["-d", "sim:a; dialect=latin", "--", "true"],
        NO_PROGRAM,
        &["`dialect=latin`: behind the device there may be dialect=srnic"],
    ),
    (&["-d", "sim:a; order=any", "--", "true"], NO_PROGRAM, &["`order=any`", "order=strict"]),
    (&["-d", "sim:a; speed=fast", "--", "true"], NO_PROGRAM, &["in gigabits a second"]),
    (&["--devices", "/nonexistent/file", "--", "true"], NO_PROGRAM, &["cannot read /nonexistent/file"]),
    (&["--devices", "/dev/null", "--", "true"], NO_PROGRAM, &["a file without devices"]),
    (&["-d", "sim:a", "--library", "/nonexistent", "--", "true"], NO_PROGRAM, &["cargo xtask dropin"]),
    (&["--", "true"], NO_SENSE, &["--device"]),
];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    rows.play("srnic run, two devices", &["ibv_devices", "ibv_rc_pingpong"], two_devices)?;
    rows.play("srnic run, {rank}", &["ibv_devinfo"], ranks)?;
    rows.play("srnic run, refused", &["ibv_devices"], refused)?;
    rows.play("srnic run, what the program has", &[], inherited)?;
    rows.play("srnic run leaves nothing", &["ibv_rc_pingpong"], leaves_nothing)
}

fn run(place: &Place<'_>, arguments: &[&str]) -> Command {
    let mut command = Command::new(place.tool);
    command.arg("run").args(arguments);
    for variable in RANKS {
        command.env_remove(variable);
    }
    command
}

fn output(mut command: Command) -> Result<Output> {
    command.output().map_err(|e| Error(format!("cannot start `{}`: {e}", repo::shown(&command))))
}

/// A file with two devices: both are listed, and messages go over the second.
fn two_devices(place: &Place<'_>) -> Result<()> {
    let file = |role: &str| {
        let (path, second) = (place.dir.join(role), place.memif(role, "", "; speed=40"));
        let text = format!("# two\nfirst = sim:first # alone\nsecond={second}\n");
        fs::write(&path, text).map_err(|e| Error::io("write", &path, &e))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let files = [file("server")?, file("client")?];
    let listed = repo::output(&mut run(place, &["--devices", &files[0], "--", "ibv_devices"]))?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.filter(|name| ["first", "second", "srnic0"].contains(name)).collect();
    if names != ["first", "second"] {
        return Err(Error(format!("the devices are not `first` and `second`:\n{listed}")));
    }
    let port = free_port()?;
    pair(place, LIMIT, |end| {
        let file = &files[usize::from(end == super::End::Client)];
        let mut command = run(place, &["--devices", file, "--", "ibv_rc_pingpong", "-g", "0"]);
        command.args(["-d", "second", "-p", &port.to_string()]);
        (command, port)
    })
}

/// The number of a process is in its device, whoever gives it; who has none is told so.
fn ranks(place: &Place<'_>) -> Result<()> {
    let devinfo = || run(place, &["-d", "sim:look{rank},ip=10.77.0.{rank}", "--", "ibv_devinfo", "-v"]);
    for (number, variable) in (3..).zip(RANKS) {
        let said = repo::output(devinfo().env(variable, number.to_string()))?;
        says(&said, &[&format!("::ffff:10.77.0.{number}, RoCE v2")])?;
    }
    let without = output(devinfo())?;
    says(&String::from_utf8_lossy(&without.stderr), &["there is no number for {rank}", RANKS[0]])
}

fn refused(place: &Place<'_>) -> Result<()> {
    for (arguments, status, words) in REFUSED {
        let ended = output(run(place, arguments))?;
        let said = String::from_utf8_lossy(&ended.stderr);
        says(&said, words).map_err(|error| Error(format!("{arguments:?}: {error}")))?;
        if ended.status.code() != Some(status) {
            return Err(Error(format!("{arguments:?} ended with {}, not {status}", ended.status)));
        }
    }
    // By the variables, without `srnic run`, the library says so.
    let mut by_hand = Command::new("ibv_devices");
    use_library(&mut by_hand, place.library, "sim:a; order=any");
    let ended = output(by_hand)?;
    says(&String::from_utf8_lossy(&ended.stderr), &["SRNIC_DEVICE: `order=any`: behind the device"])?;
    if String::from_utf8_lossy(&ended.stdout).contains("srnic0") {
        return Err(Error::new("`sim:a; order=any` is a device"));
    }
    println!("{} refused", REFUSED.len());
    Ok(())
}

/// The program has its own status, the variables, and the signals and descriptors of one that is
/// started without the tool.
fn inherited(place: &Place<'_>) -> Result<()> {
    const STATUS: i32 = 7;
    const SCRIPT: &str = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd; \
                          echo \"variables $LD_LIBRARY_PATH $LD_PRELOAD $SRNIC_DEVICE\"; exit 7";
    let shell = |mut command: Command| {
        let ended = output({
            command.args(["-c", SCRIPT]).env("LD_LIBRARY_PATH", "/nowhere");
            command
        })?;
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        if ended.status.code() == Some(STATUS) {
            return Ok(said);
        }
        Err(Error(format!("the status is {}, not the program's {STATUS}:\n{said}", ended.status)))
    };
    let said = shell(run(place, &["-d", "sim:a; speed=25", "--", "sh"]))?;
    let usual = shell(Command::new("sh"))?;
    let library = place.library.canonicalize().map_err(|e| Error::io("find", place.library, &e))?;
    let variables = said.lines().find_map(|line| line.strip_prefix("variables ")).unwrap_or_default();
    let mut words = variables.splitn(3, ' ');
    let path = words.next().and_then(|list| list.strip_suffix(":/nowhere")).unwrap_or_default();
    let is_ours = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(&library));
    let preload = words.next().unwrap_or_default();
    if !is_ours(Path::new(path)) || !is_ours(Path::new(preload)) || words.next() != Some("sim:a; speed=25") {
        return Err(Error(format!("the variables are `{variables}`")));
    }
    if state(&said) != state(&usual) {
        return Err(Error(format!("signals or descriptors are not as without the tool:\n{said}{usual}")));
    }
    Ok(())
}

/// The signals of a process, without those that the C library has for itself, and its descriptors.
fn state(said: &str) -> Vec<String> {
    const OF_C: u64 = 0x7FFF_FFFF;
    let lines = said.lines().filter(|line| !line.starts_with("variables"));
    let plain = |line: &str| match line.split_once(":\t") {
        Some((name, signals)) => {
            format!("{name} {:x}", u64::from_str_radix(signals, 16).unwrap_or_default() & OF_C)
        }
        None => line.to_owned(),
    };
    lines.map(plain).collect()
}

/// Whatever a pair had in directories is gone with it.
fn leaves_nothing(place: &Place<'_>) -> Result<()> {
    let home = place.dir.join("home");
    fs::create_dir(&home).map_err(|e| Error::io("create", &home, &e))?;
    let before = ["/tmp", "/dev/shm"].map(names);
    let port = free_port()?;
    let ids = pair_of(place, LIMIT, |end| {
        let role = if end == super::End::Server { "server" } else { "client" };
        let mut command = place.command("ibv_rc_pingpong", &place.memif(role, "", ""));
        command.env("TMPDIR", &home).env("HOME", &home).current_dir(&home);
        command.args(["-g", "0", "-p", &port.to_string()]);
        (command, port)
    })?;
    let mut left: Vec<_> = names(&home.to_string_lossy()).into_iter().collect();
    // What they have said, and where.
    let known = ["home", "server.out", "server.err", "client.out", "client.err"];
    left.extend(names(&place.dir.to_string_lossy()).into_iter().filter(|name| !known.contains(&&**name)));
    for (directory, before) in ["/tmp", "/dev/shm"].into_iter().zip(before) {
        // Others are at work there as well: what is the pair's has the number of one of them.
        let fresh = names(directory).into_iter().filter(|name| !before.contains(name));
        left.extend(fresh.filter(|name| is_of(name, &ids)));
    }
    if left.is_empty() { Ok(()) } else { Err(Error(format!("what is left: {}", left.join(", ")))) }
}

fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a name is of our programs and has the number of one of these processes.
fn is_of(name: &str, ids: &[u32]) -> bool {
    let mut numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    let is_ours = name.contains("srnic") || name.contains("memif");
    is_ours && numbers.any(|number| ids.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_leaves_has_its_number() {
        assert!(is_of("srnic-1234-0", &[7, 1234]) && is_of("memif.7", &[7, 1234]));
        for of_others in ["srnic-12345-0", "srnic-99", "srnic", "other-1234"] {
            assert!(!is_of(of_others, &[7, 1234]), "{of_others}");
        }
    }
}
