//! A peer that lies about READs: slots that do not exist, responses that nobody asked for, requests
//! repeated for ever.

use datapath::qp::state::QpState;
use simnet::{Forger, Message, Op, Qp, QpOptions, Region, Rig, RigOptions, Rng, Transfer, Work};
use wire::{Aeth, AtomicEth, Meta, Msn, Opcode, Pmtu, Psn, Rdw, Repr, Reth, Ssn, Ssnw, Syndrome, WireMode};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0x00_1000;

struct Bench {
    rig: Rig,
    a: Qp,
    b: Qp,
    /// What `a` may do anything with, at `b`.
    open: Region,
    forger: Forger,
}

/// `b` is the victim; what is forged claims to be of `a`.
fn bench() -> Bench {
    bench_with(64)
}

fn bench_with(window: u16) -> Bench {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, window, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let open = rig.region(b.node(), 4096);
    rig.fill(open.all(), 99);
    let forger = Forger::new(&rig, a, b);
    Bench { rig, a, b, open, forger }
}

impl Bench {
    fn inject(&mut self, repr: &Repr, payload: &[u8]) {
        let frame = self.forger.frame(repr, payload);
        self.rig.net.deliver(self.rig.now(), self.b.node(), frame);
        self.rig.run_for(2000);
    }

    /// A READ request of the whole region, `ahead` packets and messages behind the first.
    fn read(&self, ahead: u32, rslot: u8, rpsn_start: u32, dma_len: u32) -> Repr {
        let mut repr = self.forger.repr(WireMode::Srnic, Opcode::RcReadRequest, Psn::new(PSN + ahead));
        repr.reth = Some(Reth { va: self.open.iova, rkey: self.open.key, dma_len });
        repr.meta = Some(Meta { msn: Msn::new(ahead), offset: 0 });
        repr.rdw = Some(Rdw { rslot, rpsn_start: Psn::new(rpsn_start) });
        repr
    }

    fn response(&self, opcode: Opcode, psn: u32, msn: u32, index: u16, rslot: u32) -> Repr {
        let mut repr = self.forger.repr(WireMode::Srnic, opcode, Psn::new(psn));
        repr.aeth = repr.aeth.map(|_| Aeth { syndrome: Syndrome::ACK, msn: 0 });
        repr.meta = Some(Meta { msn: Msn::new(msn), offset: index });
        repr.ssnw = Some(Ssnw { offset_hi: 0, ssn: Ssn::new(rslot) });
        repr
    }

    fn still_works(&mut self) {
        let (a, b) = (self.a, self.b);
        let messages = Message::mix_of(&Op::WITH_RESPONSES, &mut Rng::new(3), 20, 2000);
        Transfer::new(&mut self.rig, a, b, messages.clone(), 500).run(&mut self.rig, LIMIT_NS).unwrap();
        Transfer::new(&mut self.rig, b, a, messages, 600).run(&mut self.rig, LIMIT_NS).unwrap();
        self.rig.verify_guards();
    }
}

#[test]
fn slots_and_numbers_that_cannot_be() {
    // (slot, first rPSN, bytes): at ePSN each is refused, ahead of it each but a wrong rPSN is
    // dropped at once.
    let cases = [
        ("a slot that does not exist", 8, PSN, 100),
        ("the last slot there is", 255, PSN, 100),
        ("an rPSN that is not the next", 0, PSN + 1, 100),
        ("an rPSN of the past", 0, PSN - 1, 100),
        ("more bytes than a message may have", 0, PSN, (1 << 31) + 1),
        ("more bytes than the region", 0, PSN, 4097),
    ];
    for (what, rslot, rpsn_start, dma_len) in cases {
        let mut bench = bench();
        let repr = bench.read(0, rslot, rpsn_start, dma_len);
        bench.inject(&repr, &[]);
        let counters = *bench.rig.counters(bench.b);
        assert_eq!((counters.tx_error_naks, counters.tx_responses), (1, 0), "{what}: {counters:?}");
        assert_eq!(bench.rig.state(bench.b), QpState::Err, "{what}");
    }
    for (what, rslot, rpsn_start, dma_len) in cases.into_iter().filter(|case| case.2 == PSN) {
        let mut bench = bench();
        let repr = bench.read(1, rslot, rpsn_start, dma_len);
        bench.inject(&repr, &[]);
        let counters = *bench.rig.counters(bench.b);
        assert_eq!((counters.drop_unplaceable, counters.rx_out_of_order), (1, 0), "{what}: {counters:?}");
        bench.still_works();
    }
}

#[test]
fn a_slot_whose_response_is_not_all_sent_is_not_given_away() {
    // A READ of 16 packets: a window of 4 keeps most of them back, one of 64 none.
    for (window, sent, executed) in [(4, 4, 1), (64, 16, 2)] {
        let mut bench = bench_with(window);
        bench.rig.net.set_filter(bench.rig.up(bench.b), simnet::filter::drop_all(|_| true));
        let first = bench.read(0, 0, PSN, 4096);
        bench.inject(&first, &[]);
        assert_eq!(bench.rig.counters(bench.b).tx_responses, sent);
        let second = bench.read(1, 0, PSN + 16, 100);
        bench.inject(&second, &[]);
        let counters = *bench.rig.counters(bench.b);
        assert_eq!(counters.rx_reads, executed, "window {window}: {counters:?}");
        assert_eq!(counters.tx_error_naks, 2 - executed, "window {window}");
        assert_eq!(bench.rig.state(bench.b), QpState::Rts, "it still owes the first response");
    }
}

#[test]
fn responses_that_nobody_asked_for() {
    let mut bench = bench();
    let (a, b) = (bench.a, bench.b);
    let local = bench.rig.region(b.node(), 1000);
    let remote = bench.rig.region(a.node(), 1000);
    bench.rig.fill(remote.all(), 5);
    // Before there is any READ.
    let first = bench.response(Opcode::RcReadResponseOnly, PSN, 0, 0, 0);
    bench.inject(&first, &[7; 100]);
    assert_eq!(bench.rig.counters(b).drop_unexpected_response, 1);
    // While one waits in slot 0: another slot, message, index, or PSN.
    bench.rig.net.set_filter(bench.rig.up(b), simnet::filter::hold(|_| true));
    bench.rig.post(b, &Work::read(local.at(0, 600), remote.at(0, 600)));
    bench.rig.run_for(5000);
    let wrong = [(PSN, 0, 0, 1), (PSN, 0, 0, 255), (PSN, 1, 0, 0), (PSN, 0, 1, 0), (PSN + 3, 0, 3, 0)];
    for (psn, msn, index, rslot) in wrong {
        let repr = bench.response(Opcode::RcReadResponseFirst, psn, msn, index, rslot);
        bench.inject(&repr, &[7; 256]);
    }
    let counters = *bench.rig.counters(b);
    assert_eq!(counters.drop_unexpected_response, 6, "{counters:?}");
    assert_eq!(counters.rx_responses, 0);
    bench.rig.verify_untouched(local.all());
    bench.rig.net.heal();
    bench.rig.net.release_held(bench.rig.now());
    bench.rig.run_until(|rig| rig.sends(b).len() == 1, LIMIT_NS).unwrap();
    bench.rig.verify(local.at(0, 600), 5);
    bench.still_works();
}

#[test]
fn a_request_repeated_for_ever_is_not_amplified() {
    let mut bench = bench();
    let b = bench.b;
    // What `b` sends gets lost: the response stays outstanding.
    bench.rig.net.set_filter(bench.rig.up(b), simnet::filter::drop_all(|_| true));
    let request = bench.read(0, 0, PSN, 4096);
    bench.inject(&request, &[]);
    let before = bench.rig.net.stats(bench.rig.up(b)).sent;
    for _ in 0..500 {
        bench.inject(&request, &[]);
    }
    let sent = bench.rig.net.stats(bench.rig.up(b)).sent - before;
    assert!(
        sent <= 2 * 500 + 50,
        "{sent} frames answer 500: one response packet each, and an acknowledgement"
    );
    assert_eq!(bench.rig.counters(b).rx_reads, 1, "it was executed once");
}

#[test]
fn an_atomic_repeated_for_ever_is_executed_once() {
    let mut bench = bench();
    let word = bench.open.at(8, 8);
    bench.rig.set(word, &[0; 8]);
    let mut repr = bench.forger.repr(WireMode::Srnic, Opcode::RcFetchAdd, Psn::new(PSN));
    let (va, rkey) = (word.addr(), bench.open.key);
    repr.atomic_eth = Some(AtomicEth { va, rkey, swap_add: 1, compare: 0 });
    repr.meta = Some(Meta { msn: Msn::new(0), offset: 0 });
    repr.rdw = Some(Rdw { rslot: 0, rpsn_start: Psn::new(PSN) });
    for _ in 0..50 {
        bench.inject(&repr, &[]);
    }
    assert_eq!(bench.rig.bytes(word), 1_u64.to_ne_bytes());
    assert_eq!(bench.rig.counters(bench.b).rx_atomics, 1);
}
