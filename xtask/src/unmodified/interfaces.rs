//! Programs on two hosts with a network between: network namespaces that a cable of the kernel's
//! (veth) joins, where each program opens its interface (`af_packet:`).

use super::by_address::{CMTIME, cmtime_has_tcp};
use super::{FAULTS, LIMIT, Place, Rows, UCX_TRANSPORTS, last_line, run_arguments, ucx};
use crate::error::Result;
use crate::listening;
use crate::netns::Netns;
use crate::process::{Process, watch};
use crate::setup;

/// MTUs of the cable, in bytes: the usual one, and one that carries a path MTU of 4096.
const MTUS: [u16; 2] = [1500, 4200];
/// What the hosts call their interfaces, and the addresses there: the kernel's and the device's
/// alike.
const HOSTS: [(&str, &str); 2] = [("left", "10.9.0.1"), ("right", "10.9.0.2")];

/// A program, and what its ends are given; `{server}` is the server's address.
#[derive(Clone, Copy, Debug)]
struct Row {
    program: &'static str,
    /// What both ends are given.
    options: &'static str,
    /// What the client is given as well.
    client: &'static str,
    /// The TCP port of the kernel's where the server waits for its client. None: it waits at its
    /// device's address.
    port: Option<u16>,
    /// Its service repairs losses.
    repairs: bool,
    /// The server goes on until it is ended.
    stays: bool,
}

const ROWS: [Row; 10] = [
    like_perftest("ib_write_bw", "-F -x 0 -n 500", Some(18_515)),
    like_perftest("ib_write_bw", "-F -x 0 -n 500 -R", None),
    like_perftest("ib_send_lat", "-F -x 0 -a -n 30", Some(18_515)),
    like_perftest("ib_read_bw", "-F -x 0 -n 200 -q 4", Some(18_515)),
    Row {
        program: "ibv_ud_pingpong",
        options: "-g 0 -e -c -s 1024",
        client: "{server}",
        port: Some(18_515),
        repairs: false,
        stays: false,
    },
    like_perftest("ucx_perftest", "-t tag_bw -n 500 -s 65536", Some(13_337)),
    like_perftest("fi_pingpong", "-p verbs;ofi_rxm -e rdm -I 50", Some(47_592)),
    Row { client: "-s {server}", ..like_perftest("rstream", "-T v -S 4096 -C 500", None) },
    Row { client: "-s {server}", ..like_perftest("ucmatose", "-c 10 -C 20 -S 5000", None) },
    Row { client: "-s {server}", stays: true, ..like_perftest(CMTIME, "-c 20", None) },
];

/// Where the server of a later `cmtime` waits for its client besides.
const CMTIME_PORT: u16 = 7471;

/// One whose client is given the server's address alone, and that repairs losses.
const fn like_perftest(program: &'static str, options: &'static str, port: Option<u16>) -> Row {
    Row { program, options, client: "{server}", port, repairs: true, stays: false }
}

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    let why_not = (!setup::is_root()).then_some("two hosts take root, for their network namespaces");
    for mtu in MTUS {
        for row in &ROWS {
            let losses: &[bool] = if row.repairs { &[false, true] } else { &[false] };
            for &is_lossy in losses {
                let name = row.name(mtu, is_lossy);
                match why_not {
                    Some(why_not) => rows.skip_if_asked_for(&name, why_not),
                    None => rows.play(&name, &["ip", row.program], |place| run(row, mtu, is_lossy, place))?,
                }
            }
        }
    }
    Ok(())
}

impl Row {
    fn name(&self, mtu: u16, is_lossy: bool) -> String {
        let loss = if is_lossy { " 1 % loss" } else { "" };
        format!("{} {}, two hosts, MTU {mtu}{loss}", self.program, self.options)
    }

    fn port(&self) -> Option<u16> {
        let meets = self.program == CMTIME && cmtime_has_tcp();
        self.port.or(meets.then_some(CMTIME_PORT))
    }

    /// The arguments of the server, or the client.
    fn arguments(&self, is_client: bool) -> impl Iterator<Item = String> {
        let own = if is_client { self.client } else { "" };
        let words = self.options.split_whitespace().chain(own.split_whitespace());
        let alone = if self.program == "ucx_perftest" { ucx::alone() } else { &[] };
        words.chain(alone.iter().copied()).map(|word| word.replace("{server}", HOSTS[0].1))
    }
}

/// Both ends, to their successful end.
fn run(row: &Row, mtu: u16, is_lossy: bool, place: &Place<'_>) -> Result<()> {
    let hosts = joined(mtu)?;
    let start = |end: usize, name: &str| {
        let faults = if is_lossy { FAULTS } else { "" };
        let (interface, ip) = HOSTS[end];
        let mut command = hosts[end].command(place.tool);
        let device = format!("{faults}af_packet:{interface},ip={ip}");
        command.args(run_arguments(row.program, &device)).env("UCX_TLS", UCX_TRANSPORTS);
        command.args(row.arguments(end == 1));
        Process::start(name, command, place.dir)
    };
    let mut server = start(0, "server")?;
    listening::wait_for_namespace(&mut server, LIMIT)?;
    match row.port() {
        Some(port) => listening::wait(&mut server, port, LIMIT)?,
        None => listening::wait_for_interface(&mut server, LIMIT)?,
    }
    let mut client = start(1, "client")?;
    if row.stays {
        client.finish(LIMIT)?;
    } else {
        watch(&mut server, &mut client, LIMIT)?;
    }
    println!("{}", last_line(&place.dir.join("client.out")));
    Ok(())
}

/// Two hosts with a cable between.
fn joined(mtu: u16) -> Result<[Netns; 2]> {
    let hosts = [Netns::new()?, Netns::new()?];
    let [(left, _), (right, _)] = HOSTS;
    let peer = hosts[1].name();
    hosts[0]
        .run(&format!("ip link add {left} mtu {mtu} type veth peer name {right} mtu {mtu} netns {peer}"))?;
    for (host, (interface, ip)) in hosts.iter().zip(HOSTS) {
        host.run(&format!("ip addr add {ip}/24 dev {interface}"))?;
        host.run(&format!("ip link set {interface} up"))?;
    }
    Ok(hosts)
}
