//! IPv6 from end to end: two network namespaces with a cable between them, an engine at each end
//! beside the kernel, the tools' side channel over the kernel's IPv6.

use super::alone;
use super::namespace::Veth;
use super::support::{Place, Running, program, srnic};
use std::process::Command;

const PING: &str = "ping";
const PCAP: &str = "pcap";
const TOOLS: [(&str, &str); 3] = [("write-bw", "-b"), ("send-bw", "-b"), ("read-bw", "")];
const DEVICES: [&str; 2] = ["af_packet:left,ip=fd00::1", "af_packet:right,ip=fd00::2"];

struct Net {
    place: Place,
    veth: Veth,
}

impl Net {
    /// The kernels are fd01::1 and fd01::2, and the right one fd00::99 beside the engine there.
    fn new(name: &str) -> Option<Self> {
        let veth = Veth::apart(4200)?;
        let [left, right] = veth.ends();
        left.run("ip -6 address add fd01::1/64 dev left nodad");
        right.run("ip -6 address add fd01::2/64 dev right nodad");
        right.run("ip -6 address add fd00::99/64 dev right nodad");
        Some(Self { place: Place::new(name), veth })
    }

    fn command(&self, side: usize, subcommand: &str) -> Command {
        let mut command = self.veth.ends()[side].command(program());
        command.arg(subcommand);
        command
    }

    fn start(&self, tool: &str, side: usize, wrapper: &str, options: &str) -> Running {
        let mut command = self.command(side, tool);
        command.args(["-d", &format!("{wrapper}{}", DEVICES[side]), "-p", &self.place.port.to_string()]);
        command.args(options.split_whitespace());
        command.args([["--bind", "::"].as_slice(), &["fd01::1"]][side]);
        Running::start(command)
    }

    /// Traffic whose every byte is checked, by whoever has it in the end.
    fn verified(&self, tool: &str, wrapper: &str, options: &str) {
        let options = format!("-u 18 -n 200 -s 20000 --verify {options}");
        let (server, client) = (self.start(tool, 0, "", &options), self.start(tool, 1, wrapper, &options));
        let ended = [client.end(), server.end()];
        ended.iter().for_each(super::Ended::assert_success);
    }
}

#[test]
fn packets_find_their_way_and_others_can_read_them() {
    let _alone = alone();
    let Some(net) = Net::new("ipv6").filter(|net| net.veth.has("tcpdump")) else { return };
    let file = net.place.path("capture.pcap");
    let mut tcpdump = net.veth.ends()[1].command("tcpdump");
    tcpdump.args(["-n", "-U", "-Z", "root", "-i", "right", "-w"]).arg(&file).arg("udp port 4791 or icmp6");
    let mut tcpdump = Running::start(tcpdump);
    tcpdump.wait_for("listening on");
    // Each finds the other by neighbor discovery.
    let mut answering = net.command(0, PING);
    answering.args(["-d", DEVICES[0]]);
    let answering = Running::start(answering);
    let mut asking = net.command(1, PING);
    asking.args(["-d", DEVICES[1], "fd00::1", "-c", "3", "-i", "0.01", "-W", "60"]);
    let asked = Running::start(asking).end();
    asked.assert_success();
    let said = String::from_utf8_lossy(&asked.0.stdout).into_owned();
    assert!(said.contains("3 datagrams sent, 3 answered"), "{said}");
    drop(answering);
    for (tool, options) in TOOLS {
        net.verified(tool, "", options);
    }
    net.verified(TOOLS[0].0, "fault:loss=2%,dup=1%,reorder=1%,seed=3:", "-b");
    tcpdump.signal("-INT");
    tcpdump.end().assert_success();
    // Every ICRC is right, and every packet can be read and made again.
    let read = Running::start({
        let mut command = srnic(PCAP);
        command.arg(&file);
        command
    });
    let census = read.end();
    census.assert_success();
    let said = String::from_utf8_lossy(&census.0.stdout).into_owned();
    for opcode in ["UdSendOnly", "RcWriteFirst", "RcSendFirst", "RcReadRequest", "RcAck"] {
        assert!(said.contains(opcode), "{opcode}: {said}");
    }
    if net.veth.has("tshark") {
        assert_tshark_agrees(&file);
    }
}

/// Another program sees RoCEv2 over IPv6, and questions and answers of neighbor discovery.
fn assert_tshark_agrees(file: &std::path::Path) {
    let fields = ["ipv6.src", "ipv6.dst", "infiniband.bth.opcode", "icmpv6.type"];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let seen = tshark(file, ["-T", "fields", "-E", "separator=;"].into_iter().chain(fields));
    // Of WRITEs, SENDs and READs the first, middle and last packets, from the client to the server.
    let requests = [6, 7, 8, 0, 1, 2, 12].map(|opcode| format!("fd00::2;fd00::1;{opcode};"));
    let responses = [13, 14, 15].map(|opcode| format!("fd00::1;fd00::2;{opcode};"));
    for line in requests.iter().chain(&responses).map(String::as_str).chain([
        "fd00::1;fd00::2;17;",
        "fd00::2;fd00::1;17;",
        "fd00::2;fd00::1;100;",
        "fd00::2;ff02::1:ff00:1;;135",
        "fd00::1;fd00::2;;136",
    ]) {
        assert!(
            seen.lines().any(|seen| seen == line),
            "no `{line}` in {:?}",
            seen.lines().take(50).collect::<Vec<_>>()
        );
    }
    let wrong = tshark(file, ["-Y", "icmpv6.checksum.status == 0"]);
    assert_eq!(wrong, "", "every checksum of neighbor discovery is right");
}

/// What tshark says of a capture.
fn tshark<'a>(file: &std::path::Path, options: impl IntoIterator<Item = &'a str>) -> String {
    let said = Command::new("tshark").arg("-r").arg(file).args(options).output().expect("it is there");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn the_kernels_ping_is_answered() {
    let _alone = alone();
    let Some(net) = Net::new("ping6").filter(|net| net.veth.has("ping")) else { return };
    let mut answering = net.command(0, PING);
    answering.args(["-d", DEVICES[0]]);
    let _answering = Running::start(answering);
    for size in ["0", "56", "1452"] {
        let said = net.veth.ends()[1].run(&format!("ping -6 -n -c 3 -i 0.2 -s {size} -w 60 fd00::1"));
        assert!(said.contains("bytes from fd00::1: icmp_seq=") && said.contains(" 0% packet loss"), "{said}");
    }
    // The kernel learnt where we are from our answer.
    let known = net.veth.ends()[1].run("ip -6 neighbor show to fd00::1 dev right");
    assert!(known.contains("lladdr"), "{known}");
}
