//! Wireshark reads every packet type as we wrote it: the standard headers by its own dissector, the
//! SRNIC words by docs/wireshark/srnic.lua.
//!
//! Without tshark the test says so and passes, unless `SRNIC_REQUIRE_TOOLS=1`.

#[path = "common/packets.rs"]
mod packets;
#[path = "common/pcap.rs"]
mod pcap;

use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use packets::packet_types;
use wire::{
    AckFlags, Ackx, Aeth, AtomicEth, Bth, Deth, Kind, Meta, Msn, Opcode, Position, Psn, Rdw, Repr, Reth, Ssn,
    Ssnw, Syndrome, WireMode,
};

/// The user and the group that own nothing.
const NOBODY: u32 = 65_534;

/// A field as tshark names it, and where its value is in a packet; `None` where tshark must show
/// nothing.
type Column = (&'static str, fn(&Sent) -> Option<u64>);

/// A packet as it was sent.
struct Sent {
    repr: Repr,
    payload: Vec<u8>,
    frame: Vec<u8>,
}

impl Sent {
    /// The headers that Wireshark's own dissector finds: all but those that only SRNIC puts there.
    fn standard<T>(&self, header: Option<T>) -> Option<T> {
        let opcode = self.repr.bth.opcode;
        let srnic_only =
            self.repr.mode == WireMode::Srnic && opcode.kind() == Kind::Write && !opcode.is_start();
        header.filter(|_| !srnic_only)
    }

    /// The headers that the script shows: those of SRNIC packets.
    fn srnic<T>(&self, header: Option<T>) -> Option<T> {
        header.filter(|_| self.repr.mode == WireMode::Srnic)
    }

    fn is_response(&self) -> bool {
        matches!(self.repr.bth.opcode.kind(), Kind::ReadResponse | Kind::AtomicAck)
    }

    /// The ICRC as Wireshark shows it: the wire's four bytes, big-endian.
    fn icrc(&self) -> Option<u64> {
        self.frame.last_chunk().map(|&icrc| u32::from_be_bytes(icrc).into())
    }

    fn flag(&self, flag: AckFlags) -> Option<u64> {
        self.repr.ackx.map(|ackx| ackx.flags.contains(flag).into())
    }
}

const BTH: &[Column] = &[
    ("infiniband.bth.opcode", |s| Some(s.repr.bth.opcode as u64)),
    ("infiniband.bth.se", |s| Some(s.repr.bth.solicited.into())),
    ("infiniband.bth.m", |s| Some(s.repr.bth.mig_req.into())),
    ("infiniband.bth.padcnt", |s| Some(s.repr.bth.pad.into())),
    ("infiniband.bth.tver", |s| Some(s.repr.bth.tver.into())),
    ("infiniband.bth.p_key", |s| Some(s.repr.bth.pkey.into())),
    ("infiniband.bth.destqp", |s| Some(s.repr.bth.dest_qp.into())),
    ("infiniband.bth.a", |s| Some(s.repr.bth.ack_req.into())),
    ("infiniband.bth.reserved7", |s| Some(s.repr.resv7.into())),
    ("infiniband.bth.psn", |s| Some(s.repr.bth.psn.get().into())),
];

const STANDARD: &[Column] = &[
    // Wireshark shows address and key of AtomicETH under RETH's names.
    ("infiniband.reth.va", |s| s.standard(s.repr.reth.map(|h| h.va)).or(s.repr.atomic_eth.map(|h| h.va))),
    ("infiniband.reth.r_key", |s| {
        let rkey = s.standard(s.repr.reth.map(|h| h.rkey)).or(s.repr.atomic_eth.map(|h| h.rkey));
        rkey.map(u64::from)
    }),
    ("infiniband.reth.dmalen", |s| s.standard(s.repr.reth).map(|h| h.dma_len.into())),
    ("infiniband.aeth.syndrome", |s| s.repr.aeth.map(|h| h.syndrome.to_u8().into())),
    ("infiniband.aeth.msn", |s| s.repr.aeth.map(|h| h.msn.into())),
    // Where the standard has ImmDt, an SRNIC WRITE Last with Immediate has its RETH.
    ("infiniband.immdt", |s| match s.standard(s.repr.imm) {
        None => s.repr.imm.and(s.repr.reth).map(|h| h.va >> 32),
        imm => imm.map(u64::from),
    }),
    ("infiniband.ieth", |s| s.repr.ieth.map(u64::from)),
    ("infiniband.atomiceth.swapdt", |s| s.repr.atomic_eth.map(|h| h.swap_add)),
    ("infiniband.atomiceth.cmpdt", |s| s.repr.atomic_eth.map(|h| h.compare)),
    ("infiniband.atomicacketh.origremdt", |s| s.repr.atomic_ack),
    ("infiniband.deth.q_key", |s| s.repr.deth.map(|h| h.qkey.into())),
    ("infiniband.deth.srcqp", |s| s.repr.deth.map(|h| h.src_qp.into())),
];

/// What Wireshark's own dissector finds in plain packets only: behind the SRNIC words it shows an
/// ICRC or not.
const PLAIN: &[Column] =
    &[("infiniband.invariant.crc", |s| s.icrc().filter(|_| s.repr.bth.opcode != Opcode::Cnp))];

const SRNIC: &[Column] = &[
    ("srnic.reth.va", |s| s.srnic(s.repr.reth).map(|h| h.va)),
    ("srnic.reth.rkey", |s| s.srnic(s.repr.reth).map(|h| h.rkey.into())),
    ("srnic.reth.dmalen", |s| s.srnic(s.repr.reth).map(|h| h.dma_len.into())),
    ("srnic.imm", |s| s.srnic(s.repr.imm).map(u64::from)),
    ("srnic.meta.msn", |s| s.repr.meta.map(|h| h.msn.get().into())),
    ("srnic.meta.psn_offset", |s| s.repr.meta.map(|h| h.offset.into())),
    ("srnic.ssnw.off_hi", |s| s.repr.ssnw.map(|h| h.offset_hi.into())),
    ("srnic.ssnw.ssn", |s| s.repr.ssnw.filter(|_| !s.is_response()).map(|h| h.ssn.get().into())),
    ("srnic.ssnw.rslot", |s| s.repr.ssnw.filter(|_| s.is_response()).map(|h| h.ssn.get().into())),
    ("srnic.rdw.rslot", |s| s.repr.rdw.map(|h| h.rslot.into())),
    ("srnic.rdw.rpsn_start", |s| s.repr.rdw.map(|h| h.rpsn_start.get().into())),
    ("srnic.ackx.flags", |s| s.repr.ackx.map(|h| h.flags.0.into())),
    ("srnic.ackx.flags.response_stream", |s| s.flag(AckFlags::RESPONSE_STREAM)),
    ("srnic.ackx.flags.sack_valid", |s| s.flag(AckFlags::SACK_VALID)),
    ("srnic.ackx.flags.bitmap", |s| s.flag(AckFlags::BITMAP)),
    ("srnic.ackx.flags.meta_valid", |s| s.flag(AckFlags::META_VALID)),
    ("srnic.ackx.flags.duplicate", |s| s.flag(AckFlags::DUPLICATE)),
    ("srnic.ackx.flags.backward", |s| s.flag(AckFlags::BACKWARD)),
    ("srnic.ackx.sack_psn", |s| s.repr.ackx.map(|h| h.sack_psn.get().into())),
    ("srnic.ackx.ce_cnt", |s| s.repr.ackx.map(|h| h.ce_cnt.into())),
    ("srnic.ackx.ack_delay", |s| s.repr.ackx.map(|h| h.ack_delay.into())),
    ("srnic.sackb", |s| s.repr.sackb),
    ("srnic.icrc", |s| s.srnic(s.icrc())),
    ("srnic.payload_len", |s| s.srnic(Some(s.payload.len() as u64))),
    // Neither dissector may run out of bytes.
    ("_ws.malformed", |_| None),
];

/// Numbers that never repeat, in 64, 32, 24, 16 or 8 bits as long as those last.
struct Distinct(u64);

impl Distinct {
    fn u64(&mut self) -> u64 {
        self.0 += 1;
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn u32(&mut self) -> u32 {
        self.0 += 1;
        0x8000_0001 + 0x0001_0203 * u32::try_from(self.0).unwrap()
    }

    fn u24(&mut self) -> u32 {
        self.u32() & 0x00FF_FFFF
    }

    fn u16(&mut self) -> u16 {
        self.0 += 1;
        0x8001 + u16::try_from(self.0).unwrap()
    }

    fn u8(&mut self) -> u8 {
        self.0 += 1;
        u8::try_from(self.0 % 251).unwrap()
    }

    fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }
}

/// A packet of this type with a value of its own in each field.
fn repr(mode: WireMode, opcode: Opcode, n: &mut Distinct) -> Repr {
    let mut r = Repr::new(mode, opcode).unwrap();
    r.bth = Bth {
        solicited: n.bool(),
        mig_req: n.bool(),
        pkey: n.u16(),
        fecn: n.bool(),
        becn: n.bool(),
        dest_qp: n.u24() | 0x10,
        ack_req: n.bool(),
        psn: Psn::new(n.u24()),
        ..r.bth
    };
    r.reth = r.reth.map(|_| Reth { va: n.u64(), rkey: n.u32(), dma_len: n.u32() & 0x7FFF_FFFF });
    r.aeth = r.aeth.map(|_| Aeth { syndrome: Syndrome::from_u8(n.u8() % 0x65), msn: n.u24() });
    r.imm = r.imm.map(|_| n.u32());
    r.ieth = r.ieth.map(|_| n.u32());
    r.atomic_eth =
        r.atomic_eth.map(|_| AtomicEth { va: n.u64(), rkey: n.u32(), swap_add: n.u64(), compare: n.u64() });
    r.atomic_ack = r.atomic_ack.map(|_| n.u64());
    r.deth = r.deth.map(|_| Deth { qkey: n.u32(), src_qp: n.u24() });
    r.meta = r.meta.map(|_| Meta { msn: Msn::new(n.u16().into()), offset: n.u16() });
    r.ssnw = r.ssnw.map(|_| Ssnw { offset_hi: n.u8(), ssn: Ssn::new(n.u24()) });
    r.rdw = r.rdw.map(|_| Rdw { rslot: n.u8(), rpsn_start: Psn::new(n.u24()) });
    r.ackx = r.ackx.map(|_| Ackx {
        flags: AckFlags::default(),
        sack_psn: Psn::new(n.u24()),
        ce_cnt: n.u16(),
        ack_delay: n.u16(),
    });
    r
}

/// The packet in an IPv4 or IPv6 frame. Packets that end a message get a payload that needs pad.
fn sent(mut repr: Repr, v6: bool) -> Sent {
    let opcode = repr.bth.opcode;
    let len = match (opcode.kind(), opcode.position()) {
        (Kind::Send | Kind::Write | Kind::ReadResponse, Position::First | Position::Middle) => 256,
        (Kind::Send | Kind::Write | Kind::ReadResponse, _) => 41,
        (Kind::Cnp, _) => wire::emit::CNP_RESERVED_LEN,
        _ => 0,
    };
    let payload = vec![0; len];
    let frame = packets::around(&packets::transport(&mut repr, &payload, 0), v6);
    Sent { repr, payload, frame }
}

/// Every packet type over IPv4 and IPv6, and an ACK with each flag, with all and with none.
fn all_packets() -> Vec<Sent> {
    let mut n = Distinct(0);
    let mut packets = Vec::new();
    for v6 in [false, true] {
        for (mode, opcode) in packet_types() {
            packets.push(sent(repr(mode, opcode, &mut n), v6));
        }
        for flags in [0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x3F] {
            let mut ack = repr(WireMode::Srnic, Opcode::RcAck, &mut n);
            ack.ackx = ack.ackx.map(|ackx| Ackx { flags: AckFlags(flags), ..ackx });
            ack.sackb = AckFlags(flags).contains(AckFlags::BITMAP).then(|| n.u64());
            packets.push(sent(ack, v6));
        }
    }
    packets
}

fn script() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/wireshark/srnic.lua"].iter().collect()
}

/// False, with a word about it, if there is no tshark with Lua.
fn have_tshark() -> bool {
    let version = Command::new("tshark").arg("--version").output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("with Lua"));
    let required = std::env::var_os("SRNIC_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(found || !required, "SRNIC_REQUIRE_TOOLS=1, but there is no tshark with Lua");
    if !found {
        // Past the test harness, which shows the print macros' output of failed tests only.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no tshark with Lua (SRNIC_REQUIRE_TOOLS=1 makes this fail)"
        );
    }
    found
}

/// What tshark prints of `capture` with the script and these further arguments, a line a frame.
fn tshark(capture: &Path, arguments: &[&str]) -> Vec<String> {
    // Beside it, where anybody can read it.
    let copy = capture.with_extension("lua");
    fs::copy(script(), &copy).unwrap();
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-X", &format!("lua_script:{}", copy.display()), "-T", "fields", "-r"])
        .arg(capture)
        .args(arguments);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // From 4.4 on it runs no scripts as root.
        command.uid(NOBODY).gid(NOBODY).env("HOME", "/nonexistent");
    }
    let output = command.output().unwrap();
    fs::remove_file(&copy).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A capture for tshark, where anybody can read it. It goes with this.
struct Capture(PathBuf);

impl Deref for Capture {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It is one of many in the directory for what is temporary.
        let _ = fs::remove_file(&self.0);
    }
}

fn capture<'a>(name: &str, frames: impl IntoIterator<Item = &'a [u8]>) -> Capture {
    let path = std::env::temp_dir().join(format!("srnic-tshark-{}-{name}", std::process::id()));
    fs::write(&path, pcap::write(frames)).unwrap();
    Capture(path)
}

/// A value in decimal, with 0x prefix, as a truth, or in the plain hexadecimal of byte fields.
/// Wireshark shows some twice, and says `True` for 1 since version 4.4.
fn number(column: &str, text: &str) -> Option<u64> {
    let (text, again) = text.split_once(',').unwrap_or((text, text));
    assert_eq!(text, again, "{column} has two values");
    let bytes = ["infiniband.immdt", "infiniband.ieth"].contains(&column);
    let parsed = match text.strip_prefix("0x") {
        _ if text.is_empty() => return None,
        _ if text == "True" => Ok(1),
        _ if text == "False" => Ok(0),
        _ if bytes => u64::from_str_radix(&text.replace(':', ""), 16),
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|_| panic!("{column}: {text}")))
}

/// Lets tshark read the packets of `mode` and compares every column.
fn check(mode: WireMode, columns: &[Column]) {
    let packets: Vec<Sent> = all_packets().into_iter().filter(|sent| sent.repr.mode == mode).collect();
    let capture = capture(&format!("{mode:?}.pcap"), packets.iter().map(|sent| &sent.frame[..]));
    let arguments: Vec<&str> = columns.iter().flat_map(|&(name, _)| ["-e", name]).collect();
    let rows = tshark(&capture, &arguments);
    assert_eq!(rows.len(), packets.len());
    for (row, sent) in rows.iter().zip(&packets) {
        let row: Vec<&str> = row.split('\t').collect();
        assert_eq!(row.len(), columns.len());
        for ((name, expected), text) in columns.iter().zip(row) {
            assert_eq!(number(name, text), expected(sent), "{mode:?} {:?} {name}", sent.repr.bth.opcode);
        }
    }
}

#[test]
fn wireshark_reads_every_plain_packet_type() {
    if have_tshark() {
        check(WireMode::Plain, &[BTH, STANDARD, PLAIN, SRNIC].concat());
    }
}

#[test]
fn wireshark_reads_every_srnic_packet_type() {
    if have_tshark() {
        check(WireMode::Srnic, &[BTH, STANDARD, SRNIC].concat());
    }
}

#[test]
fn the_script_names_what_it_cannot_read() {
    if !have_tshark() {
        return;
    }
    let mut ack = Repr::new(WireMode::Srnic, Opcode::RcAck).unwrap();
    let ack = packets::transport(&mut ack, &[], 0);
    let mut frames: Vec<Vec<u8>> = (16..=ack.len()).map(|len| packets::around(&ack[..len], false)).collect();
    let mut ud = Repr::new(WireMode::Plain, Opcode::UdSendOnly).unwrap();
    let mut ud = packets::transport(&mut ud, &[0; 8], 0);
    ud[1] |= WireMode::Srnic.tver();
    frames.push(packets::around(&ud, false));

    let capture = capture("damaged.pcap", frames.iter().map(|frame| &frame[..]));
    let matching = |filter| tshark(&capture, &["-Y", filter, "-e", "frame.number"]).len();
    assert_eq!(matching("frame"), frames.len());
    assert_eq!(matching("srnic.short"), frames.len() - 2, "all that are cut");
    assert_eq!(matching("srnic.ackx"), 1, "the whole one");
    assert_eq!(matching("srnic.unknown"), 1, "UD has no SRNIC form");
}

/// A network of ours may use another UDP port than 4791.
#[test]
fn another_udp_port_is_an_option() {
    if !have_tshark() {
        return;
    }
    let mut ack = Repr::new(WireMode::Srnic, Opcode::RcAck).unwrap();
    let mut frame = packets::around(&packets::transport(&mut ack, &[], 0), false);
    frame[36..38].copy_from_slice(&4793u16.to_be_bytes());
    let capture = capture("port.pcap", [&frame[..]]);
    let shown = |port| tshark(&capture, &["-o", port, "-e", "srnic.ackx.ce_cnt"]).concat();
    assert_eq!(shown("infiniband.rroce.port:4793"), "0");
    assert_eq!(shown("infiniband.rroce.port:4791"), "");
}
