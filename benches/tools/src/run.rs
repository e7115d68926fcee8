//! Runs a program of others over a device of srnic's: it finds the drop-in `libibverbs.so.1` in
//! place of the system's (docs/unmodified.md).

use crate::error::{Error, Result};
use crate::interrupt;
use crate::program;
use clap::{ArgMatches, Parser};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use verbs_api::raw::NamedDevice;
use verbs_api::{DeviceSpec, PortDriver, Transport};

const LIBRARY: &str = "libibverbs.so.1";
/// It shows programs the files of devices that the kernel has not.
const PRELOAD: &str = "libsrnic_preload.so";
/// Where the library is, from the directory of this program: as Cargo builds both, and as a package
/// installs them, if not where Debian has what is of one architecture.
const PLACES: [&str; 2] = ["dropin", "../lib/srnic"];

/// Runs a program that uses libibverbs, as it is, over a device of srnic's
///
/// The program sees one device, srnic0. Give both ends of a memif the same socket: who comes first
/// waits for the other. `srnic run -d memif:/tmp/a.sock -- ib_write_bw -F -x 0`. With
/// -d pool:SOCKET each process gets a port and an address of `srnic switch --pool SOCKET`. {rank}
/// is replaced by the number that MPI gives a process.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// The device, and what else programs are to see of it: `memif:/tmp/a.sock; speed=25`
    #[arg(short, long, value_name = "DEVICE[; KEY=VALUE]..", required_unless_present = "devices")]
    device: Option<String>,
    /// A file with several devices: lines of `NAME = DEVICE[; KEY=VALUE]..`; `#` begins a comment
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    devices: Option<PathBuf>,
    /// Directory of the library [default: where this program was built or installed]
    #[arg(long, value_name = "DIRECTORY")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The tool from its parsed command line on; the program takes its place.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

fn run(cli: &Cli) -> Result<()> {
    let devices = devices(cli)?;
    let library = match &cli.library {
        Some(directory) => complete(directory.clone())?,
        None => beside(&std::env::current_exe().map_err(Error::file("find", Path::new("this program")))?)?,
    };
    let program = &cli.command[0];
    let preloads = std::env::var_os("LD_PRELOAD");
    check_preloads(preloads.as_deref())?;
    let path = with_first(&library, std::env::var_os("LD_LIBRARY_PATH").as_deref());
    let preload = with_first(&library.join(PRELOAD), preloads.as_deref());
    let mut command = Command::new(program);
    command.args(&cli.command[1..]).env("SRNIC_DEVICE", devices);
    command.env("LD_LIBRARY_PATH", path).env("LD_PRELOAD", preload);
    // It returns only if there is no such program.
    Err(Error::file("run", Path::new(program))(command.exec()))
}

/// What the program is told of its devices.
fn devices(cli: &Cli) -> Result<String> {
    if let Some(device) = &cli.device {
        check(device)?;
        return Ok(device.clone());
    }
    let file = cli.devices.as_deref().unwrap_or(Path::new(""));
    let text = std::fs::read_to_string(file).map_err(Error::file("read", file))?;
    listed(&text)
}

/// What a file with devices has.
const LINE: &str = "a line is NAME = DEVICE, as in srnic0 = memif:/tmp/a.sock";

/// The lines of a file with devices, without comments.
fn listed(text: &str) -> Result<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(Error::Options(format!("--devices names a file without devices; {LINE}")));
    }
    if let Some(line) = lines.iter().find(|line| !line.contains('=')) {
        return Err(Error::Options(format!("`{line}`: {LINE}")));
    }
    let text = lines.join("\n");
    check(&text)?;
    Ok(text)
}

/// What makes no sense is said here, in the words of the library: programs say of a device that
/// does not open only that.
fn check(devices: &str) -> Result<()> {
    let named = NamedDevice::parse_all(&devices.replace("{rank}", "1"));
    let named = named.map_err(|error| Error::Options(error.to_string()))?;
    if named.is_empty() {
        return Err(Error::Options("--device names no device; one is memif:/tmp/a.sock".to_owned()));
    }
    named.iter().try_for_each(|device| check_port(&device.spec))
}

/// The library has not all ports.
fn check_port(spec: &DeviceSpec) -> Result<()> {
    let native = match spec.transport {
        Transport::Memif { driver, .. } | Transport::AfPacket { driver, .. } => driver == PortDriver::Native,
        Transport::Sim { .. } | Transport::Pool { .. } => true,
        _ => false,
    };
    if native {
        return Ok(());
    }
    Err(Error::Options(
        "the drop-in library has no DPDK, so it has memif:, af_packet:, pool: and sim: devices, without driver=dpdk; for any other one run \
         `srnic switch`, one of whose ports it is"
            .to_owned(),
    ))
}

/// The first file that the directory lacks: the loader goes on without one that it does not find.
fn lacks(directory: &Path) -> Option<PathBuf> {
    [LIBRARY, PRELOAD].map(|file| directory.join(file)).into_iter().find(|file| !file.is_file())
}

/// The directory that the user names, if it has all.
fn complete(directory: PathBuf) -> Result<PathBuf> {
    match lacks(&directory) {
        None => Ok(directory),
        Some(file) => Err(Error::file("find", &file)(io::Error::other(
            "--library takes the directory that `cargo xtask dropin` prints",
        ))),
    }
}

/// The directory of the library that belongs to this program.
fn beside(program: &Path) -> Result<PathBuf> {
    let directory = program.parent().unwrap_or(Path::new("/"));
    let of_debian = format!("../lib/{}-linux-gnu/srnic", std::env::consts::ARCH);
    let places = PLACES.into_iter().chain([&*of_debian]);
    let found = places.map(|place| directory.join(place)).find(|place| lacks(place).is_none());
    found.ok_or_else(|| {
        let sought = directory.join(PLACES[0]).join(LIBRARY);
        let none = io::Error::other(
            "it is not there: `cargo xtask dropin` builds it and prints its directory, which --library takes",
        );
        Error::file("find", &sought)(none)
    })
}

/// Libraries that the user has loaded before others are there: the loader goes on without those
/// that it does not find, and a program of sockets then over the kernel's TCP.
fn check_preloads(list: Option<&OsStr>) -> Result<()> {
    let list = list.unwrap_or_default().to_string_lossy();
    let files =
        list.split([':', ' ']).filter(|file| file.contains('/') && !file.contains('$')).map(Path::new);
    match files.into_iter().find(|file| !file.exists()) {
        None => Ok(()),
        Some(file) => Err(Error::file("find", file)(io::Error::other("LD_PRELOAD names it"))),
    }
}

/// A list of paths with one more, before the others.
fn with_first(first: &Path, list: Option<&OsStr>) -> OsString {
    let mut all = first.as_os_str().to_owned();
    if let Some(list) = list.filter(|list| !list.is_empty()) {
        all.push(":");
        all.push(list);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_goes_before_whatever_the_loader_was_told() {
        assert_eq!(with_first(Path::new("/a"), None), "/a");
        assert_eq!(with_first(Path::new("/a"), Some(OsStr::new(""))), "/a");
        assert_eq!(with_first(Path::new("/a"), Some(OsStr::new("/b:/c"))), "/a:/b:/c");
    }

    #[test]
    fn a_library_that_is_to_be_loaded_first_must_be_there() {
        let check = |list| check_preloads(Some(OsStr::new(list)));
        assert!(check_preloads(None).is_ok() && check("").is_ok() && check("libsomewhere.so").is_ok());
        assert!(check("/bin/sh:/bin/sh").is_ok() && check("/usr/$LIB/libsomewhere.so").is_ok());
        let error = check("/bin/sh /nonexistent/librspreload.so").expect_err("none").to_string();
        assert!(error.contains("/nonexistent/librspreload.so") && error.contains("LD_PRELOAD"), "{error}");
    }

    #[test]
    fn devices_that_the_library_cannot_open_are_refused_at_once() {
        assert!(check("memif:/tmp/a.sock").is_ok() && check("fault:loss=1%:sim:a; speed=25").is_ok());
        assert!(check("af_packet:eth0,ip=10.0.0.1").is_ok());
        for (device, said) in [
            ("af_xdp:eth0,ip=10.0.0.1", "srnic switch"),
            ("af_packet:eth0,ip=10.0.0.1,driver=dpdk", "no DPDK"),
            ("memif:/tmp/a.sock,driver=dpdk", "no DPDK"),
            ("nothing", "has no scheme"),
            ("", "names no device"),
            ("sim:a; order=any", "`order=any`: behind the device there may be"),
            ("sim:a; dialect=latin", "`dialect=latin`: behind the device there may be"),
            ("sim:a; speed=fast", "in gigabits a second"),
        ] {
            let error = check(device).expect_err(device).to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn devices_of_a_pool_and_of_a_rank_are_checked_as_what_they_become() {
        for device in ["pool:/tmp/p.sock", "fault:loss=1%,seed=7:pool:/tmp/p.sock,stat=/tmp/1.stat; speed=25"]
        {
            assert!(check(device).is_ok(), "{device}");
        }
        assert!(check("memif:/tmp/{rank}.sock,ip=10.77.0.{rank}").is_ok());
        assert!(check("pool:/tmp/p.sock,colour=red").is_err());
        assert!(check("pool:/tmp/p.sock,mtu=1500").is_err(), "that is the switch's to say");
        assert!(check("pool:").is_err());
    }

    #[test]
    fn a_file_has_a_device_a_line() {
        let text = "# two\n\n a = memif:/tmp/a.sock # the first\nb=sim:b; speed=25\n";
        assert_eq!(listed(text).expect("two devices"), "a = memif:/tmp/a.sock\nb=sim:b; speed=25");
        for (text, said) in [
            ("memif", "a line is NAME = DEVICE"),
            ("a = nothing", "has no scheme"),
            ("a = sim:a; order=any", "`order=any`"),
            ("a = sim:a\na = sim:b", "two devices are called a"),
            ("two words = sim:a", "two words"),
            ("# none\n\n", "a file without devices"),
        ] {
            let error = listed(text).expect_err(text).to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_library_is_found_where_a_package_has_it() {
        let root = std::env::temp_dir().join(format!("srnic-run-{}", std::process::id()));
        let bin = root.join("usr/bin");
        std::fs::create_dir_all(&bin).expect("created");
        for place in ["lib/srnic".to_owned(), format!("lib/{}-linux-gnu/srnic", std::env::consts::ARCH)] {
            let place = root.join("usr").join(place);
            std::fs::create_dir_all(&place).expect("created");
            std::fs::write(place.join(LIBRARY), "").expect("written");
            assert!(beside(&bin.join("srnic")).is_err(), "it is not complete");
            std::fs::write(place.join(PRELOAD), "").expect("written");
            let found = beside(&bin.join("srnic")).expect("it is there").canonicalize().expect("it exists");
            assert_eq!(found, place.canonicalize().expect("it exists"));
            [LIBRARY, PRELOAD].iter().for_each(|file| std::fs::remove_file(place.join(file)).expect("ours"));
        }
        std::fs::remove_dir_all(root).expect("ours");
    }

    #[test]
    fn a_library_that_is_not_built_is_said_to_be_missing() {
        let error = beside(Path::new("/nonexistent/srnic")).expect_err("there is none").to_string();
        assert!(
            error.contains("/nonexistent/dropin/libibverbs.so.1") && error.contains("cargo xtask dropin"),
            "{error}"
        );
    }
}
