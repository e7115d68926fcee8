//! The requests of the soft-RoCE captures, played to our responder: it answers as `rdma_rxe` did,
//! packet for packet.
//!
//! What differs is said where it is allowed for: [`as_we_would`].

#[path = "../../../datapath/wire/tests/common/pcap.rs"]
mod pcap;

use datapath::qp::attr::RecoveryPolicy;
use simnet::filter::drop_all;
use simnet::{Forger, Qp, QpOptions, Region, Rig, RigOptions};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, Kind, NakCode, Opcode, Packet, Psn, Repr, Syndrome, Transport, WireMode};

/// Between two packets: each is answered by itself, as rxe does, which knows no bursts.
const GAP_NS: u64 = 20_000;

/// Of the captures.
const PMTU: u32 = 1024;

/// A packet of a capture.
struct Captured {
    src: IpAddr,
    dst: IpAddr,
    repr: Repr,
    payload: Vec<u8>,
}

impl Captured {
    fn psn(&self) -> Psn {
        self.repr.bth.psn
    }

    fn opcode(&self) -> Opcode {
        self.repr.bth.opcode
    }

    fn is_request(&self) -> bool {
        self.opcode().is_request()
    }

    /// PSNs that it takes: a READ those of its response.
    fn psns(&self) -> u32 {
        let read = self.repr.reth.filter(|_| self.opcode().kind() == Kind::ReadRequest);
        read.map_or(1, |reth| reth.dma_len.div_ceil(PMTU).max(1))
    }
}

/// What matters of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Answer {
    opcode: Opcode,
    psn: Psn,
    syndrome: Option<u8>,
    msn: Option<u32>,
    atomic: Option<u64>,
    payload: Vec<u8>,
}

impl Answer {
    fn of(repr: &Repr, payload: &[u8]) -> Self {
        Self {
            opcode: repr.bth.opcode,
            psn: repr.bth.psn,
            syndrome: repr.aeth.map(|aeth| aeth.syndrome.to_u8()),
            msn: repr.aeth.map(|aeth| aeth.msn),
            atomic: repr.atomic_ack,
            payload: payload.to_vec(),
        }
    }
}

/// The RC packets of a capture.
fn captured(name: &str) -> Vec<Captured> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../data/rxe", name].iter().collect();
    let file = std::fs::read(path).unwrap();
    let frames = pcap::read(&file).into_iter().filter_map(|frame| {
        let datagram = Datagram::parse(frame, ROCE_UDP_PORT).ok()?;
        let packet = Packet::parse(&frame[datagram.transport.clone()]).unwrap();
        (packet.opcode().transport() == Transport::Rc).then(|| Captured {
            src: datagram.src,
            dst: datagram.dst,
            repr: Repr::parse(&packet),
            payload: packet.payload().to_vec(),
        })
    });
    frames.collect()
}

/// Our responder, with memory in place of the captured one.
struct Replay {
    rig: Rig,
    a: Qp,
    b: Qp,
    forger: Forger,
    /// By captured key: first captured address, and our region.
    regions: BTreeMap<u32, (u64, Region)>,
    receives: Region,
    answers: Rc<RefCell<Vec<Answer>>>,
}

impl Replay {
    fn new(requests: &[&Captured]) -> Self {
        let options = QpOptions {
            sq_psn: requests[0].psn().get(),
            wire_mode: WireMode::Plain,
            recovery: RecoveryPolicy::GoBackN,
            // What rxe asked for in the capture: 0x2c.
            min_rnr_timer: 12,
            max_dest_rd_atomic: 128,
            ..QpOptions::default()
        };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        let answers = Rc::new(RefCell::new(Vec::new()));
        let heard = Rc::clone(&answers);
        let up = rig.up(b);
        rig.net.set_filter(
            up,
            drop_all(move |passing| {
                if let Some(packet) = passing.packet {
                    heard.borrow_mut().push(Answer::of(&Repr::parse(&packet), packet.payload()));
                }
                true
            }),
        );
        let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for request in requests {
            let reth = request.repr.reth.map(|reth| (reth.rkey, reth.va, u64::from(reth.dma_len)));
            let atomic = request.repr.atomic_eth.map(|atomic| (atomic.rkey, atomic.va, 8));
            if let Some((rkey, va, len)) = reth.or(atomic) {
                let span = spans.entry(rkey).or_insert((va, va + len));
                *span = (span.0.min(va), span.1.max(va + len));
            }
        }
        let mut regions = BTreeMap::new();
        for (rkey, (start, end)) in spans {
            let region = rig.region(b.node(), usize::try_from(end - start).unwrap());
            regions.insert(rkey, (start, region));
        }
        let receives = rig.region(b.node(), 8192);
        let forger = Forger::new(&rig, a, b);
        Self { rig, a, b, forger, regions, receives, answers }
    }

    /// Our key and address for those of a request.
    fn place(&self, rkey: u32, va: u64) -> (u32, u64) {
        let (start, region) = self.regions[&rkey];
        (region.key, region.iova + (va - start))
    }

    /// Puts the bytes that rxe read, or the word that it found, to where our responder will look.
    fn prepare(&mut self, request: &Captured, answers: &[&Captured]) {
        let answer_at = |psn: Psn| answers.iter().find(|answer| answer.psn() == psn);
        if let Some(reth) = request.repr.reth.filter(|_| request.opcode().kind() == Kind::ReadRequest) {
            let (start, region) = self.regions[&reth.rkey];
            let mut at = usize::try_from(reth.va - start).unwrap();
            for psn in (0..request.psns()).map(|index| request.psn().add(index)) {
                let answer = answer_at(psn).expect("rxe answered the whole READ");
                self.rig.set(region.at(at, answer.payload.len()), &answer.payload);
                at += answer.payload.len();
            }
        }
        if let Some(atomic) = request.repr.atomic_eth {
            let found = answer_at(request.psn()).and_then(|answer| answer.repr.atomic_ack).unwrap();
            let (start, region) = self.regions[&atomic.rkey];
            let at = usize::try_from(atomic.va - start).unwrap();
            self.rig.set(region.at(at, 8), &found.to_ne_bytes());
        }
    }

    /// Plays one request, and returns what our responder answers.
    fn play(&mut self, request: &Captured) -> Vec<Answer> {
        let mut repr = request.repr;
        repr.bth.dest_qp = self.forger.dest_qpn;
        if let Some(reth) = &mut repr.reth {
            (reth.rkey, reth.va) = self.place(reth.rkey, reth.va);
        }
        if let Some(atomic) = &mut repr.atomic_eth {
            (atomic.rkey, atomic.va) = self.place(atomic.rkey, atomic.va);
        }
        let frame = self.forger.frame(&repr, &request.payload);
        let now = self.rig.now();
        self.rig.net.deliver(now, self.b.node(), frame);
        self.rig.run_for(GAP_NS);
        self.answers.borrow_mut().drain(..).collect()
    }
}

/// What rxe answered, less what we leave out on purpose: after an RNR NAK it says 0x60 of a packet
/// that comes behind the one refused, although the sender has just been told to wait; each such NAK
/// makes a sender that obeys it ask in vain once more. Ours says nothing until that packet comes
/// again (protocol.md 1.6).
fn as_we_would(theirs: &[&Captured]) -> Vec<Answer> {
    let is = |packet: &Captured, nak: fn(Syndrome) -> bool| {
        packet.repr.aeth.is_some_and(|aeth| nak(aeth.syndrome))
    };
    let rnr = |syndrome| matches!(syndrome, Syndrome::RnrNak { .. });
    let gap = |syndrome| syndrome == Syndrome::Nak(NakCode::PsnSequence);
    let mut refused = None;
    let mut kept = Vec::new();
    for packet in theirs {
        if is(packet, rnr) {
            refused = Some(packet.psn());
        } else if is(packet, gap) && refused == Some(packet.psn()) {
            continue;
        } else {
            refused = None;
        }
        kept.push(Answer::of(&packet.repr, &packet.payload));
    }
    kept
}

/// Whether a capture has all answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    All,
    /// Some were lost before they were captured.
    Some,
}

/// Plays the requests from `src` of a capture; returns how many of its answers ours gave, in their
/// order.
fn replay(packets: &[Captured], src: IpAddr, captured: Answers) -> usize {
    let requests: Vec<&Captured> =
        packets.iter().filter(|packet| packet.src == src && packet.is_request()).collect();
    let answers: Vec<&Captured> =
        packets.iter().filter(|packet| packet.dst == src && !packet.is_request()).collect();
    if requests.is_empty() {
        return 0;
    }
    let expected = as_we_would(&answers);
    let mut replay = Replay::new(&requests);
    let mut said = Vec::new();
    let mut epsn = requests[0].psn();
    for request in requests {
        // A receive is there if rxe had one: if what it says next of this packet is no RNR NAK.
        let next = expected.get(said.len()).filter(|_| captured == Answers::All);
        let waits = next.is_some_and(|answer| {
            answer.psn == request.psn() && answer.syndrome.is_some_and(|syndrome| syndrome & 0xE0 == 0x20)
        });
        if request.psn() == epsn && !waits {
            epsn = epsn.add(request.psns());
            if request.opcode().kind() == Kind::Send && request.opcode().is_start() {
                let place = replay.receives.all();
                replay.rig.post_recv(replay.b, place);
            }
        }
        replay.prepare(request, &answers);
        said.extend(replay.play(request));
    }
    if captured == Answers::All {
        for (number, (ours, theirs)) in said.iter().zip(&expected).enumerate() {
            assert_eq!(ours, theirs, "answer {number}");
        }
        assert_eq!(said.len(), expected.len(), "as many answers");
    }
    let mut ours = said.iter();
    for (number, theirs) in expected.iter().enumerate() {
        assert!(ours.any(|answer| answer == theirs), "answer {number}: {theirs:?}");
    }
    let counters = replay.rig.counters(replay.b);
    assert_eq!(counters.drop_malformed + counters.drop_icrc + counters.drop_opcode_class, 0, "{counters:?}");
    assert_eq!(replay.rig.counters(replay.a).rx_packets, 0, "nothing reached the other end");
    expected.len()
}

fn both_ways(name: &str, answers: Answers) -> usize {
    let packets = captured(name);
    let ends: BTreeSet<IpAddr> = packets.iter().map(|packet| packet.src).collect();
    assert_eq!(ends.len(), 2, "{name}: two ends");
    ends.into_iter().map(|src| replay(&packets, src, answers)).sum()
}

#[test]
fn answers_are_those_of_soft_roce() {
    for (name, answers) in [
        ("rc_send_bw.pcap", 10),
        ("rc_write_bw.pcap", 10),
        ("rc_write_lat.pcap", 22),
        ("rc_read_bw.pcap", 40),
        ("rc_read_lat.pcap", 40),
        ("rc_atomic_cas.pcap", 10),
        ("rc_atomic_faa.pcap", 10),
        ("rc_pingpong.pcap", 44),
        ("rping.pcap", 18),
    ] {
        assert_eq!(both_ways(name, Answers::All), answers, "{name}");
    }
}

/// 93 of its 386 answers are RNR NAKs, each followed by a 0x60 that we leave out.
#[test]
fn a_sender_that_is_told_to_wait_is_told_so_as_by_soft_roce() {
    assert_eq!(both_ways("rc_rnr.pcap", Answers::All), 386 - 93);
}

/// 5 % of the packets were lost before the capture, either way: gaps, one NAK for each, and what
/// came again.
#[test]
fn gaps_are_answered_as_by_soft_roce() {
    assert_eq!(both_ways("rc_pingpong_loss5.pcap", Answers::Some), 121 + 15);
}
