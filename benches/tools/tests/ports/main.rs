//! Every kind of port under traffic between two processes, and every way in which one cannot be
//! opened.

mod carrier;
mod hugepages;
mod ipv6;
mod namespace;
mod refusals;
#[path = "../support/mod.rs"]
mod support;

use hugepages::Hugepages;
use namespace::Veth;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Ended, Place, Running, program};

const FILE: &str = "file";
const RAW_BW: &str = "raw-bw";
const RAW_LAT: &str = "raw-lat";
const SWITCH: &str = "switch";
const WRITE_BW: &str = "write-bw";
/// A user without privileges.
const NOBODY: u32 = 65534;

/// One test at a time: each keeps two cores busy, and some borrow what the machine has but once.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two devices that reach each other.
struct Pair {
    place: Place,
    /// The server's and the client's, or the receiver's and the sender's.
    devices: [String; 2],
    veth: Option<Veth>,
    /// As [`NOBODY`].
    unprivileged: bool,
}

impl Pair {
    fn sockets(name: &str, schemes: [&str; 2], rest: &str) -> Self {
        let place = Place::new(name);
        // For processes of another user.
        fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).expect("ours");
        let socket = place.path("socket").display().to_string();
        let devices = schemes.map(|scheme| format!("{scheme}:{socket}{rest}"));
        Self { place, devices, veth: None, unprivileged: false }
    }

    fn interfaces(name: &str, scheme: &str, veth: Veth) -> Self {
        let devices =
            [("left", 1), ("right", 2)].map(|(end, host)| format!("{scheme}:{end},ip=10.9.0.{host}"));
        Self { place: Place::new(name), devices, veth: Some(veth), unprivileged: false }
    }

    /// A subcommand on one of the devices.
    fn command(&self, subcommand: &str) -> Command {
        let mut command = self.program();
        command.arg(subcommand);
        command
    }

    fn program(&self) -> Command {
        if let Some(veth) = &self.veth {
            return veth.command(program());
        }
        if !self.unprivileged {
            return Command::new(program());
        }
        // Where that user can read it.
        let copy = self.place.path("program");
        if !copy.exists() {
            fs::copy(program(), &copy).expect("room for a copy");
        }
        let mut command = Command::new(copy);
        command.uid(NOBODY).gid(NOBODY).current_dir(self.place.path(""));
        command
    }

    fn start_file(&self, side: usize, wrapper: &str) -> Running {
        let (verb, option, name) = [("recv", "--out", "out"), ("send", "--in", "in")][side];
        let mut command = self.command(FILE);
        command.args([verb, "-d", &format!("{wrapper}{}", self.devices[side])]);
        command.args(["--port", &self.place.port.to_string(), option]).arg(self.place.path(name));
        command.arg("--json").arg(self.place.path(&format!("{verb}.json")));
        Running::start(command)
    }

    /// A file of `len` bytes from the second device to the first, compared.
    fn transfer(&self, len: u64, wrapper: &str) {
        let bytes = (0..len).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]);
        let bytes: Vec<u8> = bytes.collect();
        fs::write(self.place.path("in"), &bytes).expect("a file to send");
        let (receiver, sender) = (self.start_file(0, ""), self.start_file(1, wrapper));
        sender.end().assert_success();
        receiver.end().assert_success();
        assert!(fs::read(self.place.path("out")).expect("received") == bytes, "other bytes came");
        let dropped = self.place.json("send.json")["injected_drops"].as_u64();
        assert_eq!(dropped > Some(0), !wrapper.is_empty(), "{dropped:?}");
        for name in ["out", "send.json", "recv.json"] {
            fs::remove_file(self.place.path(name)).expect("it was written");
        }
    }

    fn start_write_bw(&self, side: usize, options: &str) -> Running {
        self.start(WRITE_BW, side, &format!("-u 18 {options}"))
    }

    fn start(&self, tool: &str, side: usize, options: &str) -> Running {
        let mut command = self.command(tool);
        command.args(["-d", &self.devices[side], "-p", &self.place.port.to_string()]);
        command.args(options.split_whitespace()).args((side == 1).then_some("127.0.0.1"));
        Running::start(command)
    }

    /// WRITEs in both directions, whose bytes each receiver checks.
    fn write_both_ways(&self, options: &str) {
        let options = format!("-b -n 200 -s 20000 --verify {options}");
        let (server, client) = (self.start_write_bw(0, &options), self.start_write_bw(1, &options));
        let ended = [client.end(), server.end()];
        ended.iter().for_each(Ended::assert_success);
    }

    /// Frames without an engine; on an interface the kernel's are among them.
    fn raw_frames(&self) {
        for (tool, options) in [(RAW_BW, "-s 1500 -D 1 -b --copy --crc"), (RAW_LAT, "-n 300")] {
            let (server, client) = (self.start(tool, 0, options), self.start(tool, 1, options));
            let ended = [client.end(), server.end()];
            ended.iter().for_each(Ended::assert_success);
        }
    }
}

#[test]
fn vhost_user_delivers_every_byte() {
    let _alone = alone();
    let pair = Pair::sockets("vhost", ["vhost", "virtio"], "");
    pair.transfer(3_000_001, "");
    pair.transfer(3_000_001, "fault:loss=2%,dup=1%,reorder=1%,seed=3:");
    pair.write_both_ways("");
    pair.raw_frames();
    // The client is the back end, and comes first or second.
    Pair::sockets("virtio", ["virtio", "vhost"], ",mtu=1500").write_both_ways("-m 1024");
}

#[test]
fn a_vhost_user_peer_that_is_killed_ends_the_other() {
    let _alone = alone();
    for killed in [0, 1] {
        let pair = Pair::sockets("vhost-kill", ["vhost", "virtio"], "");
        let length = "-D 100 -s 65536 --progress";
        let mut both = [pair.start_write_bw(0, length), pair.start_write_bw(1, length)];
        both[1].wait_for(" messages in ");
        both[killed].signal("-KILL");
        let [server, client] = both;
        let survivor = if killed == 0 { client } else { server };
        assert_eq!(survivor.end().0.status.code(), Some(1));
        drop(pair);
    }
}

#[test]
fn a_packet_socket_delivers_every_byte_as_rocev2() {
    let _alone = alone();
    for driver in ["", ",driver=dpdk"] {
        let Some(veth) = Veth::new(4200) else { return };
        let capture = veth.has("tcpdump").then(|| veth.capture(4791, 20));
        let mut pair = Pair::interfaces("af-packet", "af_packet", veth);
        pair.devices = pair.devices.map(|device| device + driver);
        pair.transfer(3_000_001, "");
        pair.transfer(3_000_001, "fault:loss=2%,dup=1%,reorder=1%,seed=3:");
        pair.write_both_ways("");
        pair.raw_frames();
        for line in capture.map(namespace::Capture::lines).unwrap_or_default() {
            assert!(
                line.contains("IP 10.9.0.1.") && line.contains(" > 10.9.0.2.4791: UDP, length"),
                "{line}"
            );
        }
    }
}

/// Either end may be by either driver, and a device may sleep.
#[test]
fn packet_sockets_of_both_drivers_go_together() {
    let _alone = alone();
    for native in [0, 1] {
        let Some(veth) = Veth::new(1500) else { return };
        let mut pair = Pair::interfaces("af-packet-both", "af_packet", veth);
        pair.devices[native] += ",poll=thread";
        pair.devices[1 - native] += ",driver=dpdk";
        pair.transfer(1_000_001, "fault:loss=1%,seed=5:");
        pair.write_both_ways("-m 1024");
    }
}

#[test]
fn a_packet_socket_answers_the_kernels_ping() {
    let _alone = alone();
    let Some(veth) = Veth::new(1500).filter(|veth| veth.has("ping")) else { return };
    veth.run("ip address add 10.9.0.2/24 dev right");
    let pair = Pair::interfaces("ping", "af_packet", veth);
    // Waits for a client, and answers meanwhile.
    let _server = pair.start_write_bw(0, "");
    let veth = pair.veth.as_ref().expect("made above");
    let said = veth.run("ping -n -c 3 -i 0.2 -w 60 10.9.0.1");
    assert!(said.contains("bytes from 10.9.0.1: icmp_seq="), "{said}");
}

#[test]
fn an_xdp_socket_delivers_every_byte() {
    let _alone = alone();
    let Some(veth) = Veth::new(3400) else { return };
    let pair = Pair::interfaces("af-xdp", "af_xdp", veth);
    let probe = pair.start_file(1, "fault:loss=lots:").end();
    probe.assert_failed(2, "loss must be");
    fs::write(pair.place.path("in"), [7]).expect("a file to send");
    let (receiver, sender) = (pair.start_file(0, ""), pair.start_file(1, ""));
    let (sender, receiver) = (sender.end(), receiver.end());
    for reason in ["Failed to create xsk socket", "DPDK has no driver net_af_xdp"] {
        if let Some(line) = sender.error().lines().find(|line| line.contains(reason)) {
            println!("skipped: no XDP socket is to be had on this machine: {line}");
            return;
        }
    }
    sender.assert_success();
    receiver.assert_success();
    pair.transfer(3_000_001, "");
    pair.write_both_ways("-m 2048");
    pair.raw_frames();
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

/// Root tries as an ordinary user, too.
fn with_and_without_privileges(rest: &str) {
    for (schemes, keys) in [(["memif", "memif"], ",driver=dpdk"), (["vhost", "virtio"], "")] {
        let mut pair = Pair::sockets("pages", schemes, &format!("{keys}{rest}"));
        pair.transfer(1_000_001, "");
        // Whoever is not root is an ordinary user already.
        pair.unprivileged = is_root();
        pair.transfer(1_000_001, "");
    }
}

#[test]
fn shared_memory_needs_neither_root_nor_hugepages() {
    let _alone = alone();
    with_and_without_privileges(",hugepages=off");
}

#[test]
fn shared_memory_takes_hugepages() {
    let _alone = alone();
    if hugepages::free() == 0 {
        let pair = Pair::sockets("no-pages", ["memif", "memif"], ",driver=dpdk,hugepages=on");
        let refused = pair.start_file(0, "").end();
        refused.assert_failed(1, "Not enough free hugepages: reserve some (sysctl vm.nr_hugepages=");
    }
    let Some(_borrowed) = Hugepages::borrow() else { return };
    with_and_without_privileges(",hugepages=on");
}

#[test]
fn the_switch_joins_an_interface_and_a_socket() {
    let _alone = alone();
    let Some(veth) = Veth::new(4200) else { return };
    let mut pair = Pair::interfaces("switch", "af_packet", veth);
    let socket = pair.place.path("host.sock").display().to_string();
    let mut command = pair.command(SWITCH);
    command.args(["af_packet:right", &format!("memif:{socket},mtu=4200")]);
    let mut switch = Running::start(command);
    switch.wait_for("switching 2 ports");
    pair.devices[1] = format!("memif:{socket},role=client,mtu=4200,ip=10.9.0.2");
    pair.write_both_ways("");
    // One that connects by ARP finds its peer behind the switch, too.
    pair.transfer(1_000_000, "fault:loss=1%,seed=2:");
    switch.signal("-INT");
    switch.end().assert_success();
}
