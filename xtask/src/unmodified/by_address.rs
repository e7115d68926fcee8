//! Programs that connect by address: over the stock librdmacm, whose descriptor of the kernel's the
//! drop-in library answers.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{FAULTS, LIMIT, Place};
use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, free_port, watch};

/// The address that a memif's server has.
const SERVER: &str = "10.77.0.1";
/// What `rcopy` carries, in bytes.
const FILE: usize = 3_000_000;

/// A program and its arguments.
type Side = (&'static str, String);

/// A server and its client. In the arguments, `{server}` is the server's address, `{port}` a port,
/// and `{dir}` a directory of the case's own.
#[derive(Clone, Debug)]
pub struct Case {
    pub program: &'static str,
    server: Side,
    client: Side,
    /// The server goes on until it is ended.
    stays: bool,
    pub is_lossy: bool,
    /// What follows the device of each end.
    behind: [&'static str; 2],
}

/// Dialects of two ends, which agree on one.
const DIALECTS: [[&str; 2]; 3] =
    [["; dialect=plain", ""], ["", "; dialect=plain"], ["; dialect=plain", "; dialect=plain"]];

/// Its datagrams nobody sends again, and it waits for them. Its port is always the same, and each
/// pair of devices has ports of its own.
const UDADDY: &str = "udaddy";

/// How long connections take.
pub const CMTIME: &str = "cmtime";

/// Both ends: the server, its client, and whether the server goes on for ever. That of `rping` may
/// close its descriptor while a thread of its own is about to ask for the next event, and fail at
/// its end.
const ROWS: [([&str; 2], [&str; 2], bool); 12] = [
    (
        ["rping", "-s -P -p {port} -C 100 -S 4000 -V"],
        ["rping", "-c -a {server} -p {port} -C 100 -S 4000 -V"],
        true,
    ),
    (["rping", "-s -q -P -p {port} -C 10"], ["rping", "-c -q -a {server} -p {port} -C 10 -V"], true),
    (
        ["ucmatose", "-p {port} -c 10 -C 20 -S 5000"],
        ["ucmatose", "-s {server} -p {port} -c 10 -C 20 -S 5000"],
        false,
    ),
    (["ucmatose", "-p {port} -m"], ["ucmatose", "-s {server} -p {port} -m"], false),
    (["rdma_server", "-p {port}"], ["rdma_client", "-s {server} -p {port}"], false),
    ([CMTIME, "-p {port} -c 20"], [CMTIME, "-s {server} -p {port} -c 20"], true),
    (
        ["rstream", "-p {port} -T v -S 4096 -C 500"],
        ["rstream", "-s {server} -p {port} -T v -S 4096 -C 500"],
        false,
    ),
    (
        ["rstream", "-p {port} -T v -T b -S 100000 -C 100"],
        ["rstream", "-s {server} -p {port} -T v -T b -S 100000 -C 100"],
        false,
    ),
    (
        ["riostream", "-p {port} -T v -S 64 -C 10"],
        ["riostream", "-s {server} -p {port} -T v -S 64 -C 10"],
        false,
    ),
    (["rcopy", "-p {port}"], ["rcopy", "{dir}/original {server}:{dir}/copy -p {port}"], true),
    ([UDADDY, ""], [UDADDY, "-s {server}"], false),
    ([UDADDY, "-c 10 -C 20 -S 4000"], [UDADDY, "-s {server} -c 10 -C 20 -S 4000"], false),
];

/// It looks for the last byte of what several WRITEs bring, so it wants them in order. Its service
/// repairs losses then.
const RIOSTREAM: &str = "-p {port} -T v -T b -S 100000 -C 10";
const STRICT: [&str; 2] = ["; order=strict"; 2];

/// perftest, whose queue pairs the connection manager connects: what both ends are given beside
/// `-R`, and whether the service repairs losses.
const PERFTEST: [(&str, &str, bool); 11] = [
    ("ib_write_bw", "-n 200", true),
    ("ib_send_bw", "-n 200", true),
    ("ib_send_bw", "-n 200 -q 4 -e", true),
    ("ib_send_bw", "-n 200 -c UD", false),
    ("ib_read_bw", "-n 200", true),
    ("ib_atomic_bw", "-n 200", true),
    ("ib_send_lat", "-n 200", true),
    ("ib_send_lat", "-n 200 -c UD", false),
    ("ib_write_lat", "-n 200", true),
    ("ib_read_lat", "-n 200", true),
    ("ib_atomic_lat", "-n 200", true),
];

impl Case {
    /// All of them, over a good network and over a bad one, and the first in all dialects.
    pub fn all() -> impl Iterator<Item = Self> {
        let rows = ROWS
            .into_iter()
            .map(|(server, client, stays)| (Self::of(server, client, stays), client[0] != UDADDY));
        let perftest = PERFTEST
            .into_iter()
            .map(|(program, options, repairs)| (Self::perftest(program, options), repairs));
        let free = Self::both("riostream", RIOSTREAM, "-s {server}");
        let strict = Self { behind: STRICT, ..free.clone() };
        let cases: Vec<_> = rows.chain(perftest).chain([(free, false), (strict, true)]).collect();
        let lossy = cases.clone().into_iter().filter(|(_, repairs)| *repairs);
        let lossy = lossy.map(|(case, _)| Self { is_lossy: true, ..case });
        let first = cases.first().cloned().into_iter();
        let dialects = first.flat_map(|(case, _)| DIALECTS.map(|behind| Self { behind, ..case.clone() }));
        let cases = cases.into_iter().map(|(case, _)| case);
        cases.chain(lossy).chain(dialects).collect::<Vec<_>>().into_iter()
    }

    fn of(server: [&'static str; 2], client: [&'static str; 2], stays: bool) -> Self {
        let side = |[program, arguments]: [&'static str; 2]| (program, arguments.to_owned());
        let (server, client) = (side(server), side(client));
        Self { program: client.0, server, client, stays, is_lossy: false, behind: [""; 2] }
    }

    /// Both ends are given the same options, and the client where its server is.
    fn both(program: &'static str, options: &str, server: &str) -> Self {
        let client = (program, format!("{options} {server}"));
        let server = (program, options.to_owned());
        Self { program, server, client, stays: false, is_lossy: false, behind: [""; 2] }
    }

    fn perftest(program: &'static str, options: &str) -> Self {
        Self::both(program, &format!("-R -F -p {{port}} {options}"), "{server}")
    }

    /// What the table calls it.
    pub fn name(&self) -> String {
        let words = self.client.1.split_whitespace().filter(|word| !word.contains('{'));
        let loss = if self.is_lossy { ["1 %", "loss"].as_slice() } else { &[] };
        let all = [self.program].into_iter().chain(words).chain(loss.iter().copied());
        let mut name = all.collect::<Vec<_>>().join(" ");
        for (end, behind) in ["server", "client"].into_iter().zip(self.behind) {
            if !behind.is_empty() {
                name += &format!(", {end}{behind}");
            }
        }
        name
    }

    /// Why it cannot be played with the programs that are installed.
    pub fn why_not(&self) -> Option<&'static str> {
        (self.program == CMTIME && cmtime_has_tcp()).then_some(
            "its ends also meet by TCP, at the address of the device, which is none of the kernel's over a memif",
        )
    }

    /// Both its programs.
    pub const fn programs(&self) -> [&'static str; 2] {
        [self.server.0, self.client.0]
    }
}

/// Returns `true` for a `cmtime` whose ends also meet by TCP: later ones measure TCP as well.
pub fn cmtime_has_tcp() -> bool {
    let said = Command::new(CMTIME).arg("-?").stdin(Stdio::null()).output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("socket baseline"))
}

/// Both sides of a case, to their successful end.
pub fn play(case: &Case, place: &Place<'_>) -> Result<()> {
    let dir = place.dir;
    let port = free_port()?.to_string();
    let side = |role: &str, (program, arguments): &Side, behind: &str| {
        let faults = if case.is_lossy { FAULTS } else { "" };
        let mut command = place.command(program, &place.memif(role, faults, behind));
        command.args(arguments.split_whitespace().map(|argument| {
            let argument = argument.replace("{server}", SERVER).replace("{port}", &port);
            argument.replace("{dir}", &dir.display().to_string())
        }));
        command
    };
    let carries = case.client.1.contains("{dir}/copy");
    let original = dir.join("original");
    fs::write(&original, text()).map_err(|e| Error::io("write", &original, &e))?;
    let mut server = Process::start("server", side("server", &case.server, case.behind[0]), dir)?;
    listening::wait_for_socket(&mut server, &place.socket(), LIMIT)?;
    let mut client = Process::start("client", side("client", &case.client, case.behind[1]), dir)?;
    if case.stays {
        client.finish(LIMIT)?;
    } else {
        watch(&mut server, &mut client, LIMIT)?;
    }
    if carries { check_copy(dir) } else { Ok(()) }
}

/// Bytes that tell their places.
fn text() -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(FILE).collect()
}

/// What was carried is what was there.
fn check_copy(dir: &Path) -> Result<()> {
    let copy = dir.join("copy");
    let carried = fs::read(&copy).map_err(|e| Error::io("read", &copy, &e))?;
    if carried == text() { Ok(()) } else { Err(Error::new("the copy is not what was sent")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Case::all().map(|case| case.name()).collect();
        assert_eq!(names.len(), Case::all().count());
        assert!(names.contains("rping -c -a -p -C 100 -S 4000 -V 1 % loss"), "{names:?}");
    }
}
