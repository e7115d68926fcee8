//! A peer that lies: counted, dropped, nothing written, nothing crashes.

use datapath::counters::Counters;
use datapath::memory::Access;
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use simnet::{Forger, Message, Op, Passing, Qp, QpOptions, Region, Rig, RigOptions, Rng, Transfer};
use simnet::{FrameKind, Work, filter};
use wire::{
    AckFlags, AtomicEth, Meta, NakCode, Opcode, Pmtu, Psn, Rdw, Repr, Reth, Ssn, Ssnw, Syndrome, WireMode,
};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0x00_1000;

struct Bench {
    rig: Rig,
    a: Qp,
    b: Qp,
    /// What `a` may write at `b`.
    open: Region,
    /// What it may not.
    secret: Region,
    forger: Forger,
}

/// `b` is the victim; what is forged claims to be of `a`.
fn bench() -> Bench {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, window: 64, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let open = rig.region(b.node(), 4096);
    let pd = rig.pd(b.node());
    let secret = rig.region_with(b.node(), 4096, pd, Access::LOCAL_WRITE);
    rig.fill(secret.all(), 99);
    let forger = Forger::new(&rig, a, b);
    Bench { rig, a, b, open, secret, forger }
}

impl Bench {
    fn inject(&mut self, repr: &Repr, payload: &[u8]) {
        let frame = self.forger.frame(repr, payload);
        self.rig.net.deliver(self.rig.now(), self.b.node(), frame);
        self.rig.run_for(2000);
    }

    fn write(
        &self,
        psn: u32,
        opcode: Opcode,
        (va, rkey, dma_len): (u64, u32, u32),
        meta: (u32, u16),
    ) -> Repr {
        let mut repr = self.forger.repr(WireMode::Srnic, opcode, Psn::new(psn));
        repr.reth = Some(Reth { va, rkey, dma_len });
        repr.meta = Some(Meta { msn: wire::Msn::new(meta.0), offset: meta.1 });
        repr
    }

    fn send(&self, psn: u32, opcode: Opcode, (msn, offset): (u32, u16), ssn: u32) -> Repr {
        let mut repr = self.forger.repr(WireMode::Srnic, opcode, Psn::new(psn));
        repr.meta = Some(Meta { msn: wire::Msn::new(msn), offset });
        repr.ssnw = Some(Ssnw { offset_hi: 0, ssn: Ssn::new(ssn) });
        repr
    }

    /// The secret is as it was, and so are the guards.
    fn verify(&self) {
        self.rig.verify(self.secret.all(), 99);
        self.rig.verify_guards();
    }

    /// The connection still works, in both directions.
    fn still_works(&mut self) {
        let (a, b) = (self.a, self.b);
        let messages = Message::mix(&mut Rng::new(3), 20, 2000);
        Transfer::new(&mut self.rig, a, b, messages.clone(), 500).run(&mut self.rig, LIMIT_NS).unwrap();
        Transfer::new(&mut self.rig, b, a, messages, 600).run(&mut self.rig, LIMIT_NS).unwrap();
        self.verify();
    }
}

#[test]
fn what_is_not_for_this_queue_pair_is_dropped_silently() {
    type Spoil = fn(&mut Forger, &mut Repr);
    type Counter = fn(&Counters) -> u64;
    let cases: [(&str, Spoil, Counter); 9] = [
        ("another QPN", |forger, repr| repr.bth.dest_qp = forger.dest_qpn ^ 0x80, |c| c.drop_unknown_qp),
        ("QPN 0", |_, repr| repr.bth.dest_qp = 0, |c| c.drop_unknown_qp),
        ("the management QPN", |_, repr| repr.bth.dest_qp = 1, |c| c.drop_unknown_qp),
        ("another partition", |_, repr| repr.bth.pkey = 0x7FFE, |c| c.drop_pkey),
        ("another source", |forger, _| forger.flow.src = [10, 0, 0, 77].into(), |c| c.drop_address),
        ("another destination", |forger, _| forger.flow.dst = [10, 0, 0, 78].into(), |c| c.drop_address),
        ("another VLAN", |forger, _| forger.flow.vlan = Some(7), |c| c.drop_address),
        ("another UDP port", |forger, _| forger.flow.dst_port = 4790, |c| c.drop_not_ours),
        (
            "an IPv6 flow",
            |forger, _| {
                forger.flow.src = [0xfd00, 0, 0, 0, 0, 0, 0, 1].into();
                forger.flow.dst = [0xfd00, 0, 0, 0, 0, 0, 0, 2].into();
            },
            |c| c.drop_address,
        ),
    ];
    for (what, spoil, counter) in cases {
        let mut bench = bench();
        let mut repr = bench.write(PSN, Opcode::RcWriteOnly, (bench.open.iova, bench.open.key, 100), (0, 0));
        let genuine = bench.forger;
        spoil(&mut bench.forger, &mut repr);
        bench.inject(&repr, &[7; 100]);
        bench.forger = genuine;
        let counters = *bench.rig.counters(bench.b);
        assert_eq!(counter(&counters), 1, "{what}: {counters:?}");
        assert_eq!((counters.rx_in_order, counters.tx_acks), (0, 0), "{what}: no answer");
        bench.rig.verify_untouched(bench.open.all());
        bench.still_works();
    }
}

/// The peer in the other dialect is told by an acknowledgement of what has arrived, a few times
/// (docs/adr/0069). Nothing of its packet is taken.
#[test]
fn the_other_dialect_is_dropped_and_told() {
    let mut bench = bench();
    let mut repr = bench.write(PSN, Opcode::RcWriteOnly, (bench.open.iova, bench.open.key, 100), (0, 0));
    repr.mode = WireMode::Plain;
    for sent in 1..=20_u64 {
        bench.inject(&repr, &[7; 100]);
        let counters = *bench.rig.counters(bench.b);
        assert_eq!(counters.drop_wire_mode, sent);
        assert_eq!((counters.rx_in_order, counters.tx_acks), (0, sent.min(8)), "after {sent}");
    }
    bench.rig.verify_untouched(bench.open.all());
    bench.still_works();
}

#[test]
fn a_wrong_icrc_has_no_effect_at_all() {
    let mut bench = bench();
    let repr = bench.write(PSN, Opcode::RcWriteOnly, (bench.open.iova, bench.open.key, 100), (0, 0));
    let good = bench.forger.frame(&repr, &[7; 100]);
    for bit in 14 * 8..good.len() * 8 {
        let mut frame = good.clone();
        frame[bit / 8] ^= 1 << (bit % 8);
        bench.rig.net.deliver(bench.rig.now(), bench.b.node(), frame);
        bench.rig.run_for(500);
    }
    let counters = *bench.rig.counters(bench.b);
    // ToS and TTL change on the way and are not covered by the ICRC, nor are FECN, BECN and the
    // bits beside them; the IPv4 header checksum covers the first two.
    assert!(counters.rx_in_order <= 1, "{counters:?}");
    assert!(counters.drop_icrc > 1000, "{counters:?}");
    bench.verify();
}

#[test]
fn a_guessed_key_ahead_of_the_epsn_is_dropped_and_not_acknowledged() {
    let mut bench = bench();
    let (open, secret) = (bench.open, bench.secret);
    let targets = [
        (secret.iova, secret.key, 100),
        (open.iova, open.key ^ 1, 100),
        (open.iova + 4000, open.key, 100),
        (open.iova - 1, open.key, 100),
        (u64::MAX - 10, open.key, 100),
        (open.iova, open.key, u32::MAX),
        (open.iova, 0, 100),
        (0, u32::MAX, 100),
    ];
    for (ahead, (va, rkey, dma_len)) in (1..).zip(targets) {
        let repr = bench.write(PSN + ahead, Opcode::RcWriteOnly, (va, rkey, dma_len), (ahead, 0));
        bench.inject(&repr, &[7; 100]);
    }
    let counters = *bench.rig.counters(bench.b);
    assert_eq!(counters.drop_unplaceable, targets.len() as u64, "{counters:?}");
    assert_eq!(counters.rx_out_of_order, 0);
    assert_eq!(bench.rig.state(bench.b), QpState::Rts);
    bench.rig.verify_untouched(open.all());
    bench.still_works();
}

#[test]
fn what_may_not_be_read_is_refused_at_the_epsn() {
    for opcode in [Opcode::RcReadRequest, Opcode::RcCompareSwap, Opcode::RcFetchAdd] {
        let mut bench = bench();
        let (va, rkey) = (bench.secret.iova, bench.secret.key);
        let mut repr = bench.forger.repr(WireMode::Srnic, opcode, Psn::new(PSN));
        repr.meta = Some(Meta { msn: wire::Msn::new(0), offset: 0 });
        repr.rdw = Some(Rdw { rslot: 0, rpsn_start: Psn::new(PSN) });
        if opcode == Opcode::RcReadRequest {
            repr.reth = Some(Reth { va, rkey, dma_len: 8 });
        } else {
            repr.atomic_eth = Some(AtomicEth { va, rkey, swap_add: 1, compare: 0 });
        }
        bench.inject(&repr, &[]);
        let counters = *bench.rig.counters(bench.b);
        assert_eq!(counters.tx_error_naks, 1, "{opcode:?}: {counters:?}");
        assert_eq!(counters.rx_reads + counters.rx_atomics + counters.tx_responses, 0, "{opcode:?}");
        assert_eq!(bench.rig.state(bench.b), QpState::Err, "{opcode:?}");
        bench.verify();
    }
}

#[test]
fn message_numbers_that_cannot_be() {
    let mut bench = bench();
    let (va, key) = (bench.open.iova, bench.open.key);
    // MSN ahead by more than the PSN, behind, half a circle away; PSNs behind the window.
    for (psn, msn) in [(PSN, 1), (PSN + 2, 3), (PSN + 2, 0xFFFF), (PSN + 2, 0x8000), (PSN + 5, 0x7FFF)] {
        let repr = bench.write(psn, Opcode::RcWriteOnly, (va, key, 100), (msn, 0));
        bench.inject(&repr, &[7; 100]);
    }
    assert_eq!(bench.rig.counters(bench.b).drop_msn, 5);
    // An engine takes what is within its largest window, whatever the queue pair's own.
    let window = u32::from(datapath::stream::sequence_window(RigOptions::default().window_max));
    for psn in [PSN + window, PSN + window + 1000, PSN + 0x7F_0000] {
        let repr = bench.write(psn, Opcode::RcWriteOnly, (va, key, 100), (0, 0));
        bench.inject(&repr, &[7; 100]);
    }
    let counters = *bench.rig.counters(bench.b);
    assert_eq!(counters.drop_beyond_window, 3, "{counters:?}");
    bench.rig.verify_untouched(bench.open.all());
    bench.still_works();
}

#[test]
fn a_send_far_ahead_in_the_receive_queue() {
    let mut bench = bench();
    let open = bench.open;
    for offset in [0, 1000] {
        bench.rig.post_recv(bench.b, open.at(offset, 500));
    }
    for (index, (ssn, offset)) in
        [(2, 0u32), (0x7F_FFFF, 0), (0x80_0000, 0), (1, 2), (1, 0xFFFF), (0, 0xFF_FFFF)]
            .into_iter()
            .enumerate()
    {
        let psn = Psn::new(PSN).add(2 + u32::try_from(index).unwrap());
        let mut repr = bench.forger.repr(WireMode::Srnic, Opcode::RcSendMiddle, psn);
        let [_, high, low @ ..] = offset.to_be_bytes();
        repr.meta = Some(Meta { msn: wire::Msn::new(1), offset: u16::from_be_bytes(low) });
        repr.ssnw = Some(Ssnw { offset_hi: high, ssn: Ssn::new(ssn) });
        bench.inject(&repr, &[7; 256]);
    }
    let counters = *bench.rig.counters(bench.b);
    assert_eq!(counters.rx_out_of_order, 0, "{counters:?}");
    assert_eq!((counters.drop_unplaceable, counters.drop_ssn), (5, 1), "half a circle ahead is behind");
    bench.rig.verify_untouched(open.all());
    bench.verify();
}

#[test]
fn what_only_the_end_of_recovery_can_see_is_refused_there() {
    // Each is the END of a message, one packet ahead: further in its message than packets came, or
    // not the next SSN.
    let cases = [
        ("an ONLY with an offset", Opcode::RcSendOnly, 1, 1, 0),
        ("a LAST that is one packet too far", Opcode::RcSendLast, 0, 2, 0),
        ("a receive left out", Opcode::RcSendOnly, 1, 0, 1),
    ];
    for (what, opcode, msn, offset, ssn) in cases {
        let mut bench = bench();
        let buffer = bench.rig.region(bench.b.node(), 2000);
        for offset in [0, 1000] {
            bench.rig.post_recv(bench.b, buffer.at(offset, 1000));
        }
        let second = bench.send(PSN + 1, opcode, (msn, offset), ssn);
        bench.inject(&second, &[7; 100]);
        assert_eq!(bench.rig.counters(bench.b).rx_out_of_order, 1, "{what}: it looks well by itself");
        let first = if msn == 1 {
            bench.write(PSN, Opcode::RcWriteOnly, (bench.open.iova, bench.open.key, 256), (0, 0))
        } else {
            bench.send(PSN, Opcode::RcSendFirst, (0, 0), 0)
        };
        bench.inject(&first, &[7; 256]);
        assert_eq!(bench.rig.state(bench.b), QpState::Err, "{what}");
        assert!(bench.rig.counters(bench.b).tx_error_naks > 0, "{what}: the peer is told");
        let succeeded =
            bench.rig.recvs(bench.b).iter().filter(|done| done.status == WcStatus::Success).count();
        assert_eq!(succeeded, 0, "{what}");
        bench.verify();
    }
}

#[test]
fn what_comes_in_order_and_lies_is_refused() {
    // A packet at the ePSN that is elsewhere in its message than its PSN says, or is for another
    // receive than the next.
    let cases = [
        ("a MIDDLE further on", Opcode::RcSendMiddle, 0, 2, 0),
        ("a MIDDLE of no offset", Opcode::RcSendMiddle, 0, 0, 0),
        ("a LAST further on", Opcode::RcSendLast, 0, 3, 0),
        ("a receive left out", Opcode::RcSendOnly, 0, 0, 1),
    ];
    for (what, opcode, msn, offset, ssn) in cases {
        let mut bench = bench();
        let buffer = bench.rig.region(bench.b.node(), 4096);
        for offset in [0, 2048] {
            bench.rig.post_recv(bench.b, buffer.at(offset, 2048));
        }
        let mut psn = PSN;
        if !opcode.is_start() {
            let first = bench.send(psn, Opcode::RcSendFirst, (msn, 0), 0);
            bench.inject(&first, &[7; 256]);
            assert_eq!(bench.rig.counters(bench.b).rx_in_order, 1, "{what}: its message began well");
            psn += 1;
        }
        let lie = bench.send(psn, opcode, (msn, offset), ssn);
        bench.inject(&lie, &[7; 256]);
        assert_eq!(bench.rig.state(bench.b), QpState::Err, "{what}");
        assert_eq!(bench.rig.counters(bench.b).tx_error_naks, 1, "{what}: the peer is told");
        bench.rig.verify_untouched(buffer.at(256, 4096 - 256));
        bench.verify();
    }
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_changes_nothing() {
    let mut bench = bench();
    let (a, b) = (bench.a, bench.b);
    let target = bench.rig.region(a.node(), 4096);
    let una = Psn::new(PSN);
    // Nothing of `b`'s gets through, and it has 16 packets outstanding.
    bench.rig.net.set_filter(bench.rig.up(b), filter::drop_all(|passing| passing.kind() == FrameKind::Data));
    bench.rig.write(b, bench.secret.all(), target.all());
    bench.rig.run_for(5000);
    let sack = AckFlags::META_VALID | AckFlags::SACK_VALID;
    let nack = Syndrome::Nak(NakCode::PsnSequence);
    let ack = Syndrome::Ack { credits: 31 };
    let beyond = [
        (una.add(16), ack, AckFlags::META_VALID, una),
        (una.add(500), ack, AckFlags::META_VALID, una),
        (una.add(0x40_0000), ack, AckFlags::META_VALID, una),
        (una.sub(2), ack, AckFlags::META_VALID, una),
        (una.add(17), nack, sack, una.add(18)),
        (una, nack, sack, una.add(16)),
        (una, nack, sack, una.add(1000)),
        (una, nack, sack, una.sub(1)),
        (una, Syndrome::Reserved(0x40), sack, una),
        (una.add(17), Syndrome::Nak(NakCode::RemoteAccess), AckFlags::META_VALID, una),
        (una.add(17), Syndrome::RnrNak { timer: 1 }, AckFlags::META_VALID, una),
        (una, ack, AckFlags::RESPONSE_STREAM, una),
    ];
    for (psn, syndrome, flags, sack_psn) in beyond {
        let repr = bench.forger.ack(psn, syndrome, flags, sack_psn);
        bench.inject(&repr, &[]);
        assert!(bench.rig.sends(b).is_empty(), "{psn:?} {syndrome:?} {flags:?} {sack_psn:?}");
        assert_eq!(bench.rig.state(b), QpState::Rts);
    }
    bench.rig.net.heal();
    bench.rig.run_until(|rig| rig.sends(b).len() == 1, LIMIT_NS).unwrap();
    bench.rig.verify(target.all(), 99);
    bench.still_works();
}

#[test]
fn a_bitmap_of_lies_delays_but_does_not_kill() {
    let mut bench = bench();
    let (a, b) = (bench.a, bench.b);
    let target = bench.rig.region(a.node(), 4096);
    let una = Psn::new(PSN);
    bench.rig.net.set_filter(bench.rig.up(b), filter::drop_all(|passing| passing.kind() == FrameKind::Data));
    bench.rig.write(b, bench.secret.all(), target.all());
    bench.rig.run_for(5000);
    // Everything but `una` is said to have arrived; nothing has.
    let flags = AckFlags::META_VALID | AckFlags::SACK_VALID | AckFlags::BITMAP;
    let mut repr = bench.forger.ack(una, Syndrome::Nak(NakCode::PsnSequence), flags, una.add(15));
    repr.sackb = Some(u64::MAX);
    bench.inject(&repr, &[]);
    bench.rig.net.heal();
    bench.rig.run_until(|rig| rig.sends(b).len() == 1, LIMIT_NS).unwrap();
    bench.rig.verify(target.all(), 99);
    bench.still_works();
}

/// A packet with every field near its good value or at an edge.
fn random_packet(rng: &mut Rng, bench: &Bench) -> (Repr, Vec<u8>) {
    let opcodes: Vec<Opcode> = (0..=255)
        .filter_map(Opcode::from_u8)
        .filter(|opcode| Repr::new(WireMode::Srnic, *opcode).is_some())
        .collect();
    let pick = |rng: &mut Rng, values: &[u64]| values[rng.index(values.len())];
    let small = |rng: &mut Rng| u32::try_from(pick(rng, &[0, 0, 0, 1, 1, 2, 3, 7, 63, 64])).unwrap();
    let psn = if rng.hits(100_000) {
        Psn::new(u32::try_from(rng.below(1 << 24)).unwrap())
    } else {
        Psn::new(PSN).add(small(rng)).sub(small(rng) / 2)
    };
    let mut repr = bench.forger.repr(WireMode::Srnic, opcodes[rng.index(opcodes.len())], psn);
    let lengths = [0, 1, 8, 64, 65, 100, 255, 256, 256, 256, 257, 1000];
    let len = usize::try_from(pick(rng, &lengths)).unwrap();
    repr.bth.ack_req = rng.hits(500_000);
    repr.bth.solicited = rng.hits(300_000);
    if repr.reth.is_some() {
        let (open, secret) = (bench.open, bench.secret);
        let va = pick(rng, &[open.iova, open.iova + 4000, secret.iova, 0, u64::MAX - 100, open.iova + 256]);
        let rkey = [open.key, open.key, open.key, secret.key, 0][rng.index(5)];
        let left = u32::try_from(pick(rng, &[0, 0, 0, 256, 1, u32::MAX.into()])).unwrap();
        repr.reth = Some(Reth { va, rkey, dma_len: u32::try_from(len).unwrap().wrapping_add(left) });
    }
    let wrong = |rng: &mut Rng| u32::try_from(rng.below(1 << 16)).unwrap();
    let msn = if rng.hits(900_000) { small(rng) } else { wrong(rng) };
    let offset = if rng.hits(900_000) { small(rng) } else { wrong(rng) };
    repr.meta = Some(Meta { msn: wire::Msn::new(msn), offset: u16::try_from(offset & 0xFFFF).unwrap() });
    let offset_hi = u8::try_from(rng.below(256) * u64::from(rng.hits(100_000))).unwrap();
    repr.ssnw = repr.ssnw.map(|_| Ssnw { offset_hi, ssn: Ssn::new(small(rng)).sub(small(rng) / 4) });
    if let Some(ackx) = repr.ackx.as_mut() {
        ackx.flags = AckFlags(u8::try_from(rng.below(256)).unwrap());
        ackx.sack_psn = Psn::new(PSN).add(small(rng));
        ackx.ce_cnt = u16::try_from(wrong(rng)).unwrap();
        repr.sackb = Some(rng.next_u64());
    }
    if let Some(aeth) = repr.aeth.as_mut() {
        aeth.syndrome = Syndrome::from_u8(u8::try_from(rng.below(256)).unwrap());
    }
    (repr, vec![0x5A; len])
}

#[test]
fn any_packets_in_any_order() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut bench = bench();
        let (a, b) = (bench.a, bench.b);
        let buffer = bench.rig.region(b.node(), 2000);
        let target = bench.rig.region(a.node(), 4096);
        for index in 0..rng.index(5) {
            bench.rig.post_recv(b, buffer.at(400 * index, 400));
        }
        for _ in 0..4 {
            bench.rig.post(b, &Work::write(bench.secret.all(), target.all()));
        }
        if rng.below(2) == 0 {
            bench.rig.net.set_filter(bench.rig.up(b), filter::drop_all(|_: &Passing<'_>| true));
        }
        for _ in 0..200 {
            let (repr, payload) = random_packet(&mut rng, &bench);
            let frame = bench.forger.frame(&repr, &payload);
            bench.rig.net.deliver(bench.rig.now().after(rng.below(2000)), b.node(), frame);
            bench.rig.run_for(rng.below(3000));
        }
        bench.verify();
        // The engine lives: another connection of it is not disturbed.
        bench.rig.net.heal();
        let (c, d) = bench.rig.connected(a.node(), b.node(), QpOptions::default());
        let messages = vec![Message::new(Op::Send, 5000), Message::new(Op::Write, 5000)];
        let outcome = Transfer::new(&mut bench.rig, c, d, messages, 7).run(&mut bench.rig, LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
    }
}
