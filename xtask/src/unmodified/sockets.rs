//! Programs of sockets over rsockets, by librdmacm's preload: those that the installed librdmacm
//! can carry.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Place, Rows, is_there};
use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, free_port};
use crate::repo;

const LIBRARY: &str = "librdmacm.so.1";
/// The preload, beside the library.
const PRELOAD: &str = "rsocket/librspreload.so";
/// The address that a memif's server has.
const SERVER: &str = "10.77.0.1";
/// Longest of a row: far more than it takes.
const LIMIT: Duration = Duration::from_secs(120);

/// What an installed librdmacm is too old for, by the first version that will do.
const NEEDS: [(&str, u32, &str); 1] =
    [("iperf3", 63, "its select tells the wrong descriptors, and its rpoll never sleeps again")];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    for (program, least, fault) in NEEDS {
        let name = format!("{program} over librspreload");
        if !rows.is_asked_for(&name) {
            continue;
        }
        match installed() {
            _ if !is_there(program) => {
                rows.skip(&name, &format!("there is no `{program}` (Debian: {program})"))
            }
            Some((_, version)) if version < least => {
                rows.skip(&name, &format!("before rdma-core {least} {fault}; version {version} is here"));
            }
            Some((preload, _)) => rows.play(&name, &[program], |place| iperf3(place, &preload))?,
            None => rows.skip(&name, &format!("there is no {PRELOAD} (Debian: librdmacm1)")),
        }
    }
    let name = "redis-server over librspreload";
    if rows.is_asked_for(name) {
        rows.skip(name, "no version of librdmacm is known that carries it (docs/unmodified.md)");
    }
    Ok(())
}

/// librdmacm's preload for programs of sockets, and its version.
fn installed() -> Option<(PathBuf, u32)> {
    let found = repo::output(Command::new("cc").arg(format!("-print-file-name={LIBRARY}"))).ok()?;
    let library = Path::new(found.trim()).canonicalize().ok()?;
    let version = version_of(library.file_name()?.to_str()?)?;
    let preload = library.with_file_name(PRELOAD);
    preload.exists().then_some((preload, version))
}

/// The version of rdma-core in a name such as `librdmacm.so.1.3.44.0`.
fn version_of(name: &str) -> Option<u32> {
    let numbers = name.strip_prefix(LIBRARY)?.strip_prefix('.')?;
    numbers.split('.').nth(1)?.parse().ok()
}

fn iperf3(place: &Place<'_>, preload: &Path) -> Result<()> {
    let port = free_port()?.to_string();
    let side = |role: &str, options: &[&str]| {
        let mut command = place.command("iperf3", &place.memif(role, "", ""));
        // `srnic run` has ours go before it: what librdmacm opens is ours.
        command.env("LD_PRELOAD", preload);
        command.args(["-p", &port]).args(options);
        command
    };
    let mut server = Process::start("server", side("server", &["-s", "-1"]), place.dir)?;
    listening::wait_for_socket(&mut server, &place.socket(), LIMIT)?;
    let mut client = Process::start("client", side("client", &["-c", SERVER, "-t", "3"]), place.dir)?;
    client.finish(LIMIT)?;
    let said = std::fs::read_to_string(place.dir.join("client.out")).unwrap_or_default();
    let received = said.lines().find(|line| line.trim_end().ends_with("receiver"));
    match received {
        Some(line) if !line.contains(" 0.00 ") => {
            println!("{line}");
            Ok(())
        }
        _ => Err(Error(format!("nothing was carried:\n{said}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name() {
        assert_eq!(version_of("librdmacm.so.1.3.44.0"), Some(44));
        assert_eq!((version_of("librdmacm.so.1"), version_of("libibverbs.so.1.14.44.0")), (None, None));
    }
}
