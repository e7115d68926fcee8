//! Memory windows, invalidation and regions that change (protocol.md 1.11).

use datapath::memory::{Access, MemoryKey, RegisterError, WindowType};
use datapath::qp::state::QpState;
use datapath::queue::{PostError, WcFlags, WcOpcode, WcStatus};
use simnet::filter::drop_psn;
use simnet::{Faults, Qp, QpOptions, Region, Rig, RigOptions, Span, Work};
use std::sync::Arc;
use wire::{Pmtu, Psn};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0x00_1000;
const ALL: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// `a` writes through windows of `b`'s.
struct Bench {
    rig: Rig,
    a: Qp,
    b: Qp,
    source: Region,
    /// What windows show parts of; peers have no rights to it otherwise.
    shown: Region,
    window: MemoryKey,
}

fn bench(kind: WindowType) -> Bench {
    let options = QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let source = rig.region(a.node(), 4096);
    rig.fill(source.all(), 1);
    let pd = rig.pd(b.node());
    let shown = rig.region_with(b.node(), 4096, pd, Access::LOCAL_WRITE | Access::MW_BIND);
    let window = rig.engine_mut(b.node()).core_mut().memory_mut().allocate_window(pd, kind).unwrap();
    Bench { rig, a, b, source, shown, window }
}

impl Bench {
    /// Posts one request and returns how it ended.
    fn run(&mut self, qp: Qp, work: &Work) -> WcStatus {
        let before = self.rig.sends(qp).len();
        self.rig.post(qp, work);
        self.rig.run_until(|rig| rig.sends(qp).len() > before, LIMIT_NS).unwrap();
        self.rig.sends(qp)[before].status
    }

    /// Binds the window to a part of what can be shown; returns its new key.
    fn bind(&mut self, part: Span, access: Access) -> u32 {
        let new_key = next(self.window.0);
        let work = Work::bind(self.window.0, new_key, part, access);
        assert_eq!(self.run(self.b, &work), WcStatus::Success);
        self.window = MemoryKey(new_key);
        new_key
    }

    /// A WRITE by `a` through a key.
    fn write(&mut self, len: usize, addr: u64, key: u32) -> WcStatus {
        let work = Work::write(self.source.at(0, len), self.shown.all()).to(addr, key);
        self.run(self.a, &work)
    }

    /// Both ends anew, after an error.
    fn reconnect(&mut self) {
        self.rig.reconnect(self.a, PSN, self.b, PSN);
    }
}

/// The key with this key's index and the next low byte.
fn next(key: u32) -> u32 {
    key & !0xFF | (key + 1) & 0xFF
}

#[test]
fn a_window_shows_its_part_for_its_rights_and_nothing_else() {
    for kind in [WindowType::One, WindowType::Two] {
        let mut bench = bench(kind);
        let first = bench.window.0;
        assert_eq!(bench.write(10, bench.shown.all().addr(), first), WcStatus::RemAccessErr, "unbound");
        bench.reconnect();
        let part = bench.shown.at(1000, 600);
        let key = bench.bind(part, Access::REMOTE_WRITE);
        assert_eq!(bench.write(600, part.addr(), key), WcStatus::Success);
        bench.rig.verify(part, 1);
        for (len, addr, key) in [
            (601, part.addr(), key),
            (1, part.addr() - 1, key),
            (1, part.addr() + 600, key),
            (8, part.addr(), first),
            (8, part.addr(), bench.shown.key),
        ] {
            assert_eq!(bench.write(len, addr, key), WcStatus::RemAccessErr, "{kind:?} {addr:#x} {key:#x}");
            bench.reconnect();
        }
        let read = Work::read(bench.source.at(2000, 8), part.region.at(1000, 8)).to(part.addr(), key);
        let status = bench.run(bench.a, &read);
        assert_eq!(status, WcStatus::RemAccessErr, "it may be written only");
        bench.rig.verify_untouched(bench.shown.at(0, 1000));
        bench.rig.verify_untouched(bench.shown.at(1600, 2496));
    }
}

#[test]
fn reads_and_atomics_go_through_windows_too() {
    let mut bench = bench(WindowType::Two);
    let part = bench.shown.at(64, 640);
    bench.rig.fill(part, 7);
    let key = bench.bind(part, ALL);
    let read = Work::read(bench.source.at(0, 640), part).to(part.addr(), key);
    assert_eq!(bench.run(bench.a, &read), WcStatus::Success);
    bench.rig.verify(bench.source.at(0, 640), 7);
    bench.rig.set(part, &41_u64.to_ne_bytes());
    let add = Work::fetch_add(bench.source.at(0, 8), part, 1).to(part.addr(), key);
    assert_eq!(bench.run(bench.a, &add), WcStatus::Success);
    assert_eq!(bench.rig.bytes(bench.shown.at(64, 8)), 42_u64.to_ne_bytes());
}

#[test]
fn a_window_of_type_1_is_for_all_of_its_domain_and_of_type_2_for_its_queue_pair() {
    for (kind, others) in [(WindowType::One, WcStatus::Success), (WindowType::Two, WcStatus::RemAccessErr)] {
        let mut bench = bench(kind);
        let options = *bench.rig.qp_options(bench.a);
        let (c, _) = bench.rig.connected(bench.a.node(), bench.b.node(), options);
        let part = bench.shown.at(0, 100);
        let key = bench.bind(part, Access::REMOTE_WRITE);
        assert_eq!(bench.write(100, part.addr(), key), WcStatus::Success);
        let work = Work::write(bench.source.at(0, 50), part).to(part.addr(), key);
        assert_eq!(bench.run(c, &work), others, "{kind:?}");
        let pd = bench.rig.engine_mut(bench.b.node()).core_mut().allocate_pd();
        let (d, e) = (bench.rig.create_qp(bench.a.node(), options), QpOptions { pd: Some(pd), ..options });
        let e = bench.rig.create_qp(bench.b.node(), e);
        bench.rig.connect(d, e);
        assert_eq!(bench.run(d, &work), WcStatus::RemAccessErr, "another domain");
    }
}

#[test]
fn type_1_is_bound_anew_and_unbound_type_2_is_invalidated_first() {
    let mut bench = bench(WindowType::One);
    let old = bench.bind(bench.shown.at(0, 100), Access::REMOTE_WRITE);
    let new = bench.bind(bench.shown.at(500, 100), Access::REMOTE_WRITE);
    assert_eq!(bench.write(10, bench.shown.at(500, 0).addr(), new), WcStatus::Success);
    assert_eq!(bench.write(10, bench.shown.all().addr(), old), WcStatus::RemAccessErr);
    bench.reconnect();
    let none = bench.bind(bench.shown.at(0, 0), Access::empty());
    assert_eq!(bench.write(10, bench.shown.all().addr(), none), WcStatus::RemAccessErr, "length 0 unbinds");

    let mut bench = self::bench(WindowType::Two);
    let key = bench.bind(bench.shown.at(0, 100), Access::REMOTE_WRITE);
    let again = Work::bind(key, next(key), bench.shown.at(0, 100), Access::REMOTE_WRITE);
    assert_eq!(bench.run(bench.b, &again), WcStatus::MwBindErr);
    assert_eq!(bench.rig.state(bench.b), QpState::Err);
    bench.reconnect();
    assert_eq!(bench.run(bench.b, &Work::local_inv(key)), WcStatus::Success);
    assert_eq!(bench.rig.sends(bench.b).last().unwrap().opcode, WcOpcode::LocalInv);
    assert_eq!(bench.write(10, bench.shown.all().addr(), key), WcStatus::RemAccessErr);
    bench.reconnect();
    let key = bench.bind(bench.shown.at(0, 100), Access::REMOTE_WRITE);
    assert_eq!(bench.write(10, bench.shown.all().addr(), key), WcStatus::Success);
}

#[test]
fn what_cannot_be_bound_fails_and_flushes_what_is_behind() {
    let other = |bench: &mut Bench, access| {
        let pd = bench.rig.pd(bench.b.node());
        bench.rig.region_with(bench.b.node(), 100, pd, access).all()
    };
    type Spoil = fn(&mut Bench, Work, &dyn Fn(&mut Bench, Access) -> Span) -> Work;
    let cases: [(&str, Spoil); 7] = [
        ("another key", |bench, _, _| {
            let key = next(next(bench.window.0));
            Work::bind(key, next(key), bench.shown.at(0, 10), ALL)
        }),
        ("a key of another index", |bench, _, _| {
            Work::bind(bench.window.0, bench.window.0 + 256, bench.shown.at(0, 10), ALL)
        }),
        ("outside the region", |bench, _, _| {
            Work::bind(bench.window.0, next(bench.window.0), bench.shown.at(4090, 10), ALL)
        }),
        ("rights of the owner", |bench, _, _| {
            Work::bind(bench.window.0, next(bench.window.0), bench.shown.at(0, 10), Access::LOCAL_WRITE)
        }),
        ("no such region", |_, work, _| work.lkey(0x7F00)),
        ("a region without MW_BIND", |bench, _, other| {
            let part = other(bench, Access::LOCAL_WRITE);
            Work::bind(bench.window.0, next(bench.window.0), part, ALL)
        }),
        ("writing where even the owner may not", |bench, _, other| {
            let part = other(bench, Access::MW_BIND);
            Work::bind(bench.window.0, next(bench.window.0), part, Access::REMOTE_WRITE)
        }),
    ];
    for (what, spoil) in cases {
        let mut bench = bench(WindowType::Two);
        let work = Work::bind(bench.window.0, next(bench.window.0), bench.shown.at(0, 10), ALL);
        let work = spoil(&mut bench, work, &other);
        let failing = bench.rig.post(bench.b, &work);
        let behind = bench.rig.post(bench.b, &Work::local_inv(1));
        bench.rig.run_until(|rig| rig.sends(bench.b).len() == 2, LIMIT_NS).unwrap();
        let ends: Vec<_> = bench.rig.sends(bench.b).iter().map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(ends, [(failing, WcStatus::MwBindErr), (behind, WcStatus::WrFlushErr)], "{what}");
        bench.reconnect();
        bench.bind(bench.shown.at(0, 10), ALL);
    }
}

#[test]
fn a_region_with_windows_is_neither_deregistered_nor_changed() {
    let mut bench = bench(WindowType::Two);
    let (node, region) = (bench.b.node(), MemoryKey(bench.shown.key));
    let key = bench.bind(bench.shown.at(0, 100), ALL);
    assert!(!bench.rig.deregister(bench.shown));
    assert!(
        !bench.rig.engine_mut(node).core_mut().memory_mut().deregister(MemoryKey(key)),
        "a window is no region"
    );
    let changed = bench.rig.engine_mut(node).core_mut().memory_mut().reregister(
        region,
        None,
        None,
        Some(Access::empty()),
    );
    assert_eq!(changed, Err(None));
    assert_eq!(bench.write(100, bench.shown.all().addr(), key), WcStatus::Success);
    assert!(bench.rig.engine_mut(node).core_mut().memory_mut().deallocate_window(MemoryKey(key)));
    assert!(
        !bench.rig.engine_mut(node).core_mut().memory_mut().deallocate_window(MemoryKey(key)),
        "it ends once"
    );
    assert!(bench.rig.deregister(bench.shown));
    assert_eq!(bench.write(100, bench.shown.all().addr(), key), WcStatus::RemAccessErr);
}

#[test]
fn a_window_ends_with_the_queue_pair_that_bound_it() {
    let mut bench = bench(WindowType::Two);
    bench.bind(bench.shown.at(0, 100), ALL);
    let qpn = bench.rig.qpn(bench.b);
    assert!(bench.rig.engine_mut(bench.b.node()).core_mut().destroy_qp(qpn));
    assert!(bench.rig.deregister(bench.shown), "nothing is bound to it any more");
}

#[test]
fn a_send_with_invalidate_delivers_its_data_and_ends_the_window() {
    for lost in [None, Some(0), Some(1), Some(3)] {
        let mut bench = bench(WindowType::Two);
        let part = bench.shown.at(0, 1000);
        let key = bench.bind(part, Access::REMOTE_WRITE);
        let target = bench.rig.region(bench.b.node(), 1000);
        bench.rig.post_recv(bench.b, target.all());
        if let Some(lost) = lost {
            bench.rig.net.set_filter(bench.rig.up(bench.a), drop_psn(Psn::new(PSN + lost), 1));
        }
        // The WRITE goes through the window; the SEND that ends it may arrive before the WRITE
        // does.
        bench.rig.post(bench.a, &Work::write(bench.source.at(0, 500), part).to(part.addr(), key));
        bench.rig.post(bench.a, &Work::send(bench.source.at(0, 600)).invalidating(key));
        bench.rig.run_until(|rig| rig.sends(bench.a).len() == 2, LIMIT_NS).unwrap();
        bench.rig.run_until(|rig| rig.recvs(bench.b).len() == 1, LIMIT_NS).unwrap();
        let got = bench.rig.recvs(bench.b)[0];
        assert_eq!((got.status, got.flags, got.imm), (WcStatus::Success, WcFlags::WITH_INV, key), "{lost:?}");
        assert_eq!(got.byte_len, 600);
        bench.rig.verify(bench.shown.at(0, 500), 1);
        bench.rig.verify(target.at(0, 600), 1);
        assert_eq!(bench.write(10, part.addr(), key), WcStatus::RemAccessErr, "{lost:?}: it is no more");
        bench.reconnect();
        bench.bind(part, ALL);
    }
}

#[test]
fn only_a_window_of_the_queue_pair_is_invalidated_from_outside() {
    let mut bench = bench(WindowType::One);
    let key = bench.bind(bench.shown.at(0, 100), Access::REMOTE_WRITE);
    for key in [key, bench.shown.key, 0, u32::MAX] {
        let target = bench.rig.region(bench.b.node(), 100);
        bench.rig.post_recv(bench.b, target.all());
        let work = Work::send(bench.source.at(0, 100)).invalidating(key);
        assert_eq!(bench.run(bench.a, &work), WcStatus::RemAccessErr, "{key:#x}");
        bench.rig.poll();
        assert_eq!(bench.rig.recvs(bench.b).last().unwrap().status, WcStatus::LocAccessErr);
        bench.reconnect();
        assert_eq!(bench.run(bench.b, &Work::local_inv(key)), WcStatus::LocQpOpErr, "{key:#x}");
        bench.reconnect();
    }
    assert_eq!(bench.write(100, bench.shown.all().addr(), bench.window.0), WcStatus::Success, "still bound");
}

#[test]
fn local_requests_take_their_turn_among_others_whatever_is_lost() {
    let mut bench = bench(WindowType::Two);
    let (a, b) = (bench.a, bench.b);
    for qp in [a, b] {
        bench.rig.net.set_faults(bench.rig.up(qp), Faults::loss(20_000));
    }
    let target = bench.rig.region(a.node(), 4096);
    let from = bench.rig.region(b.node(), 4096);
    bench.rig.fill(from.all(), 3);
    let (mut key, mut expected) = (bench.window.0, Vec::new());
    for round in 1..=40 {
        expected.push(bench.rig.post(b, &Work::write(from.at(0, 100 * round), target.all())));
        expected.push(bench.rig.post(b, &Work::bind(key, next(key), bench.shown.at(round, 100), ALL)));
        key = next(key);
        bench.rig.post(b, &Work::write(from.at(0, 50), target.all()).unsignaled());
        expected.push(bench.rig.post(b, &Work::read(from.at(0, 300), target.all())));
        bench.rig.post(b, &Work::local_inv(key).unsignaled());
    }
    expected.push(bench.rig.post(b, &Work::write(from.all(), target.all())));
    bench.rig.run_until(|rig| rig.sends(b).len() == expected.len(), LIMIT_NS).unwrap();
    let ends: Vec<_> = bench.rig.sends(b).iter().map(|done| (done.wr_id, done.status)).collect();
    assert_eq!(ends, expected.into_iter().map(|wr_id| (wr_id, WcStatus::Success)).collect::<Vec<_>>());
    let whole = bench.rig.bytes(from.all());
    assert_eq!(bench.rig.bytes(target.all()), whole, "the last WRITE is whole");
    assert!(bench.rig.deregister(bench.shown), "the last window was invalidated");
}

#[test]
fn a_region_changes_in_place_and_its_old_key_ends() {
    let mut bench = bench(WindowType::One);
    let node = bench.b.node();
    let region = bench.rig.region(node, 512);
    let addr = region.all().addr();
    let write = |bench: &mut Bench, key| bench.write(8, addr, key);
    assert_eq!(write(&mut bench, region.key), WcStatus::Success);
    let reregister = |bench: &mut Bench, key, pd, access| {
        bench.rig.engine_mut(node).core_mut().memory_mut().reregister(MemoryKey(key), pd, None, access)
    };
    let new = reregister(&mut bench, region.key, None, Some(Access::LOCAL_WRITE)).unwrap();
    assert_ne!(new.0, region.key);
    assert_eq!(write(&mut bench, region.key), WcStatus::RemAccessErr, "the old key is no more");
    bench.reconnect();
    assert_eq!(write(&mut bench, new.0), WcStatus::RemAccessErr, "peers have no rights now");
    bench.reconnect();
    let bad = reregister(&mut bench, new.0, None, Some(Access::REMOTE_WRITE));
    assert_eq!(bad, Err(Some(RegisterError::InconsistentAccess(Access::REMOTE_WRITE))));
    let open = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let new = reregister(&mut bench, new.0, None, Some(open)).unwrap();
    assert_eq!(write(&mut bench, new.0), WcStatus::Success);
    let other = bench.rig.engine_mut(node).core_mut().allocate_pd();
    let new = reregister(&mut bench, new.0, Some(other), None).unwrap();
    assert_eq!(write(&mut bench, new.0), WcStatus::RemAccessErr, "it is in another domain");
    bench.reconnect();
    let pd = bench.rig.pd(node);
    let longer = Arc::new(datapath::memory::HeapBacking::new(1024));
    let engine = bench.rig.engine_mut(node);
    let new = engine.core_mut().memory_mut().reregister(new, Some(pd), Some((longer, 0x5000)), None).unwrap();
    assert_eq!(bench.write(1000, 0x5000, new.0), WcStatus::Success, "other memory, at another address");
    assert_eq!(
        bench.rig.engine_mut(node).core_mut().memory_mut().reregister(MemoryKey(9), None, None, None),
        Err(None)
    );
}

#[test]
fn data_that_do_not_fit_the_operation_are_refused() {
    let mut bench = bench(WindowType::One);
    let source = bench.source;
    let send = Work::send(source.at(0, 8));
    assert!(bench.rig.try_post(bench.b, &send).is_ok());
    let wrong = Work::bind(1, 2, bench.shown.at(0, 8), ALL).imm(3);
    let refused = bench.rig.try_post(bench.b, &wrong);
    assert!(matches!(refused, Err(PostError::WrongData { .. })), "{refused:?}");
}
