//! Programs of sockets over rsockets: librdmacm's preload makes rsockets of their sockets, and the
//! preload of `srnic run` has what that one lacks (docs/adr/0092).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{FAULTS, Place, Rows, wait_for};
use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, free_port, watch};
use crate::repo;

const LIBRARY: &str = "librdmacm.so.1";
/// The preload, beside the library.
const PRELOAD: &str = "rsocket/librspreload.so";
const SOURCE: &str = "xtask/src/unmodified/sockets.c";
/// The address that a memif's server has.
const SERVER: &str = "10.77.0.1";
/// Longest of a row: far more than it takes.
const LIMIT: Duration = Duration::from_secs(120);
/// The first version of rdma-core whose service thread does not use memory that it gave back, once
/// a process has more than three connections (24061f015).
const MANY: u32 = 53;

/// librdmacm's preload for programs of sockets.
struct Preload {
    file: PathBuf,
    /// Of rdma-core.
    version: u32,
}

impl Preload {
    fn installed() -> Option<Self> {
        let found = repo::output(Command::new("cc").arg(format!("-print-file-name={LIBRARY}"))).ok()?;
        let library = Path::new(found.trim()).canonicalize().ok()?;
        let version = version_of(library.file_name()?.to_str()?)?;
        let file = library.with_file_name(PRELOAD);
        file.exists().then_some(Self { file, version })
    }

    /// A program whose sockets are rsockets.
    fn command(&self, place: &Place<'_>, program: &str, role: &str, faults: &str) -> Command {
        let mut command = place.command(program, &place.memif(role, faults, ""));
        // `srnic run` has ours go before it.
        command.env("LD_PRELOAD", &self.file);
        command
    }
}

/// A program, what it takes, and how it is played.
type Row = (&'static str, &'static [&'static str], fn(&Place<'_>, &Preload, &str) -> Result<()>);

const ROWS: [Row; 2] =
    [("iperf3", &["iperf3"], iperf3), ("redis-server", &["redis-server", "redis-benchmark"], redis)];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    const NAME: &str = "sockets in C";
    // What the program expects is what the kernel does; our own preload leaves that as it is.
    rows.play_in_c(&format!("{NAME} over the kernel's TCP"), &[], by_kernel)?;
    let preload = Preload::installed();
    for (faults, loss) in [("", ""), (FAULTS, " 1 % loss")] {
        let name = |program: &str| format!("{program} over librspreload{loss}");
        let Some(preload) = &preload else {
            for name in [NAME, ROWS[0].0, ROWS[1].0].map(name) {
                rows.skip_if_asked_for(&name, &format!("there is no {PRELOAD} (Debian: librdmacm1)"));
            }
            continue;
        };
        rows.play_in_c(&name(NAME), &[], |place| in_c(place, preload, faults))?;
        for (program, programs, play) in ROWS {
            rows.play(&name(program), programs, |place| play(place, preload, faults))?;
        }
    }
    Ok(())
}

/// The version of rdma-core in a name such as `librdmacm.so.1.3.44.0`.
fn version_of(name: &str) -> Option<u32> {
    let numbers = name.strip_prefix(LIBRARY)?.strip_prefix('.')?;
    numbers.split('.').nth(1)?.parse().ok()
}

fn built(place: &Place<'_>) -> Result<PathBuf> {
    place.built(SOURCE, &["-pthread", "-D_FILE_OFFSET_BITS=64"], &[])
}

/// Both ends of the program in C, whose server says when it is ready.
fn ends(place: &Place<'_>, address: &str, command: impl Fn(&str) -> Command) -> Result<()> {
    let port = free_port()?.to_string();
    let start = |role: &str| {
        let mut command = command(role);
        command.args([role, address, &port]);
        Process::start(role, command, place.dir)
    };
    let mut server = start("server")?;
    wait_for(&mut server, &place.dir.join("server.out"), "ready", LIMIT)?;
    let mut client = start("client")?;
    watch(&mut server, &mut client, LIMIT)
}

fn by_kernel(place: &Place<'_>) -> Result<()> {
    let program = built(place)?;
    ends(place, "127.0.0.1", |_| place.command(&program.to_string_lossy(), "sim:sockets"))
}

fn in_c(place: &Place<'_>, preload: &Preload, faults: &str) -> Result<()> {
    let program = built(place)?;
    ends(place, SERVER, |role| preload.command(place, &program.to_string_lossy(), role, faults))
}

fn iperf3(place: &Place<'_>, preload: &Preload, faults: &str) -> Result<()> {
    let port = free_port()?.to_string();
    let side = |role: &str, options: &[&str]| {
        let mut command = preload.command(place, "iperf3", role, faults);
        command.args(["-p", &port]).args(options);
        command
    };
    let mut server = Process::start("server", side("server", &["-s", "-1"]), place.dir)?;
    listening::wait_for_socket(&mut server, &place.socket(), LIMIT)?;
    let mut client = Process::start("client", side("client", &["-c", SERVER, "-t", "3"]), place.dir)?;
    client.finish(LIMIT)?;
    let said = said_by_client(place);
    let received = said.lines().find(|line| line.trim_end().ends_with("receiver"));
    match received {
        Some(line) if !line.contains(" 0.00 ") => {
            println!("{line}");
            Ok(())
        }
        _ => Err(Error(format!("nothing was carried:\n{said}"))),
    }
}

fn redis(place: &Place<'_>, preload: &Preload, faults: &str) -> Result<()> {
    let port = free_port()?.to_string();
    let mut server = preload.command(place, "redis-server", "server", faults);
    server.args(["--port", &port, "--bind", SERVER, "--protected-mode", "no", "--save", ""]);
    let mut server = Process::start("server", server, place.dir)?;
    wait_for(&mut server, &place.dir.join("server.out"), "Ready to accept connections", LIMIT)?;
    // Old connections may still be there while new ones are made.
    let clients = if preload.version < MANY { "1" } else { "50" };
    let mut client = preload.command(place, "redis-benchmark", "client", faults);
    client.args(["-h", SERVER, "-p", &port, "-t", "set,get", "-n", "5000", "-c", clients, "--csv"]);
    Process::start("client", client, place.dir)?.finish(LIMIT)?;
    let said = said_by_client(place);
    let measured: Vec<_> =
        said.lines().filter(|line| line.starts_with("\"SET") || line.starts_with("\"GET")).collect();
    if measured.len() != 2 {
        return Err(Error(format!("it measured {} of two:\n{said}", measured.len())));
    }
    println!("{clients} connections: {}", measured.join("; "));
    Ok(())
}

fn said_by_client(place: &Place<'_>) -> String {
    std::fs::read_to_string(place.dir.join("client.out")).unwrap_or_default()
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
