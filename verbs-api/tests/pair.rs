//! Two devices in one process, as a program uses them.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/host.rs"]
mod host;
#[path = "support/join.rs"]
mod join;
mod support;

use host::{Host, REMOTE, complete};
use join::join;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::devices;
use verbs_api::{
    Access, AsyncEvent, BatchError, CompletionQueue, CongestionAlgorithm, Device, Driver, Endpoint, Error,
    MemoryRegion, Pmtu, PostError, PreparedQueuePair, ProtectionDomain, QpState, QueueCaps, QueuePair,
    RecvRequest, RemoteAddr, SendBatch, SendData, SendRequest, SrqCaps, WcFlags, WcOpcode, WcStatus,
    WindowType, WireMode,
};

/// A queue pair that gives up only after ten seconds: a busy machine may pause any thread for a
/// while.
fn prepare(host: &Host) -> PreparedQueuePair {
    let pair = host.pd.queue_pair(&host.cq, &host.cq).congestion(CongestionAlgorithm::Fixed);
    pair.timeout(18).build().expect("a queue pair")
}

fn hosts(driver: Driver, faults: &str) -> (Host, Host) {
    let (one, two) = devices(driver, faults);
    (Host::new(one), Host::new(two))
}

fn connect(one: &Host, two: &Host) -> (QueuePair, QueuePair) {
    join([prepare(one), prepare(two)]).into()
}

fn receive<'a>(wr_id: u64, scatter: &'a [verbs_api::Sge]) -> RecvRequest<'a> {
    RecvRequest { wr_id, scatter }
}

/// Bytes that no misplaced copy repeats by chance.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]).collect()
}

/// Raises a flag when it goes, by a panic too.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn objects_can_be_shared_or_moved_between_threads() {
    const fn shared<T: Send + Sync>() {}
    const fn moved<T: Send>() {}
    shared::<Device>();
    shared::<MemoryRegion>();
    shared::<ProtectionDomain>();
    moved::<CompletionQueue>();
    moved::<PreparedQueuePair>();
    moved::<QueuePair>();
}

/// Queue pairs with queues of these sizes, which give up late, and whose engines have threads.
fn threaded(caps: QueueCaps) -> ((Host, Host), (QueuePair, QueuePair)) {
    let (one, two) = hosts(Driver::THREAD, "");
    let build = |host: &Host| {
        let pair = host.pd.queue_pair(&host.cq, &host.cq).caps(caps).timeout(18);
        pair.congestion(CongestionAlgorithm::Fixed).build().expect("a queue pair")
    };
    let pairs = join([build(&one), build(&two)]);
    ((one, two), pairs.into())
}

/// Both queues are always full, and whoever polls a completion posts the next request into its
/// place at once, beside engines that never rest. (That no completion shows before its place is
/// free, the engine's types see to.)
#[test]
fn full_queues_take_a_request_for_each_completion() {
    const DEPTH: u32 = 8;
    const MESSAGES: u64 = 20_000;
    let caps = QueueCaps { max_send_wr: DEPTH, max_recv_wr: 2 * DEPTH, ..QueueCaps::default() };
    let ((mut one, mut two), (mut a, mut b)) = threaded(caps);
    let send = SendRequest::send(SendData::Inline(&[])).signaled();
    for wr_id in 0..u64::from(2 * DEPTH) {
        b.post_recv(&receive(wr_id, &[])).expect("the queue is empty");
    }
    for wr_id in 0..u64::from(DEPTH) {
        a.post_send(&send.id(wr_id)).expect("the queue is empty");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut sent, mut received) = (0, 0);
    while sent < MESSAGES {
        if let Some(done) = one.cq.poll() {
            assert_eq!((done.wr_id, done.status), (sent, WcStatus::Success));
            sent += 1;
            a.post_send(&send.id(done.wr_id + u64::from(DEPTH))).expect("its place is free");
        }
        if let Some(done) = two.cq.poll() {
            assert_eq!((done.wr_id, done.status), (received, WcStatus::Success));
            received += 1;
            b.post_recv(&receive(done.wr_id + u64::from(2 * DEPTH), &[])).expect("its place is free");
        }
        assert!(Instant::now() < deadline, "{sent} messages within a minute");
    }
}

/// READs and atomics of one dialect, through faults.
fn bring_what_is_there(driver: Driver, mode: WireMode) {
    let (mut one, two) = hosts(driver, "loss=3%,reorder=3%,dup=1%,seed=11");
    let everything = REMOTE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
    let build = |host: &Host| {
        let pair = host.pd.queue_pair(&host.cq, &host.cq).wire_mode(mode).timeout(18).access(everything);
        pair.max_rd_atomic(4).max_dest_rd_atomic(4).build().expect("a queue pair")
    };
    let prepared = [build(&one), build(&two)];
    assert_eq!(prepared[0].endpoint().rd_atomic, 4);
    let [mut a, _b] = join(prepared);
    const LEN: usize = 1 << 18;
    let source = two.pd.register(LEN, everything).expect("memory");
    let word = two.pd.register(8, everything).expect("memory");
    let (target, results) = (one.region(LEN), one.region(16));
    source.write(0, &pattern(LEN)).expect("inside");
    word.write(0, &40_u64.to_ne_bytes()).expect("inside");
    for start in (0..LEN).step_by(LEN / 16) {
        let into = [target.slice(start..start + LEN / 16).expect("inside")];
        a.post_send(&SendRequest::read(&into, source.remote().at(start as u64)).id(1).signaled())
            .expect("posted");
    }
    let [first, second] = [0..8, 8..16].map(|range| results.slice(range).expect("inside"));
    let at = word.remote().at(0);
    a.post_send(&SendRequest::fetch_and_add(first, at, 2).id(2).signaled()).expect("posted");
    a.post_send(&SendRequest::compare_and_swap(second, at, 42, 7).id(3).fenced().signaled()).expect("posted");
    for index in 0..16 {
        let done = complete(&mut one, &two);
        assert_eq!(
            (done.wr_id, done.status, done.opcode),
            (1, WcStatus::Success, WcOpcode::RdmaRead),
            "{index}"
        );
        assert_eq!(done.byte_len as usize, LEN / 16);
    }
    for (id, opcode) in [(2, WcOpcode::FetchAdd), (3, WcOpcode::CompSwap)] {
        let done = complete(&mut one, &two);
        assert_eq!((done.wr_id, done.status, done.opcode, done.byte_len), (id, WcStatus::Success, opcode, 8));
    }
    let mut found = vec![0; LEN];
    target.read(0, &mut found).expect("inside");
    assert!(found == pattern(LEN), "the bytes differ");
    let mut words = [[0; 8]; 3];
    results.read(0, &mut words[0]).expect("inside");
    results.read(8, &mut words[1]).expect("inside");
    word.read(0, &mut words[2]).expect("inside");
    assert_eq!(words.map(u64::from_ne_bytes), [40, 42, 7]);
}

with_all_drivers! {
fn a_send_arrives_where_the_receive_says(driver: Driver) {
    let (mut one, mut two) = hosts(driver, "");
    let (mut a, mut b) = connect(&one, &two);
    let (source, target) = (one.region(3000), two.region(4096));
    source.write(0, &pattern(3000)).expect("inside");
    let scatter = [target.slice(100..1100).expect("inside"), target.slice(2000..).expect("inside")];
    b.post_recv(&receive(7, &scatter)).expect("posted");
    let gather = [source.slice(..).expect("inside")];
    a.post_send(&SendRequest::send(SendData::Gather(&gather)).id(3).signaled().with_imm(9)).expect("posted");

    let received = complete(&mut two, &one);
    assert_eq!((received.wr_id, received.status, received.opcode), (7, WcStatus::Success, WcOpcode::Recv));
    assert_eq!((received.byte_len, received.imm, received.flags), (3000, 9, WcFlags::WITH_IMM));
    let sent = complete(&mut one, &two);
    assert_eq!((sent.wr_id, sent.status, sent.opcode), (3, WcStatus::Success, WcOpcode::Send));
    assert_eq!(sent.qpn, a.qpn());

    let mut expected = vec![0; 4096];
    expected[100..1100].copy_from_slice(&pattern(3000)[..1000]);
    expected[2000..4000].copy_from_slice(&pattern(3000)[1000..]);
    let mut found = vec![0; 4096];
    target.read(0, &mut found).expect("inside");
    assert_eq!(found, expected);
}

fn writes_arrive_whole_through_loss_and_reordering(driver: Driver) {
    let (mut one, mut two) = hosts(driver, "loss=3%,reorder=3%,dup=1%,seed=11");
    let (mut a, mut b) = connect(&one, &two);
    const LEN: usize = 1 << 20;
    const MESSAGE: usize = 1 << 16;
    let (source, target) = (one.region(LEN), two.region(LEN));
    source.write(0, &pattern(LEN)).expect("inside");
    b.post_recv(&receive(1, &[])).expect("posted");
    let to = target.remote();
    for start in (0..LEN).step_by(MESSAGE) {
        let gather = [source.slice(start..start + MESSAGE).expect("inside")];
        let request = SendRequest::write(SendData::Gather(&gather), to.at(start as u64));
        let last = start + MESSAGE == LEN;
        a.post_send(&if last { request.with_imm(5).signaled() } else { request }).expect("posted");
    }
    let received = complete(&mut two, &one);
    assert_eq!((received.status, received.opcode), (WcStatus::Success, WcOpcode::RecvRdmaWithImm));
    assert_eq!(received.imm, 5);
    let mut found = vec![0; LEN];
    target.read(0, &mut found).expect("inside");
    assert!(found == pattern(LEN), "the bytes differ");
    assert_eq!(complete(&mut one, &two).status, WcStatus::Success);
    assert!(one.device.counters().tx_retransmits > 0, "nothing was lost, so this shows nothing");
}

fn reads_and_atomics_bring_what_is_there(driver: Driver) {
    bring_what_is_there(driver, WireMode::Srnic);
}

fn reads_and_atomics_do_so_in_plain_rocev2(driver: Driver) {
    bring_what_is_there(driver, WireMode::Plain);
}

fn both_ends_speak_the_same_dialect(driver: Driver) {
    let (one, two) = hosts(driver, "");
    let plain = two.pd.queue_pair(&two.cq, &two.cq).wire_mode(WireMode::Plain).build().expect("a queue pair");
    let (srnic, to_plain) = (prepare(&one), plain.endpoint());
    assert_eq!(to_plain.wire_mode, WireMode::Plain);
    let error = srnic.connect(&to_plain).err().expect("refused");
    assert!(matches!(error, Error::WireMode { ours: WireMode::Srnic, theirs: WireMode::Plain }), "{error}");
    assert!(error.to_string().contains("the same wire_mode"), "{error}");
}

fn inline_data_may_change_after_the_post(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let (mut a, _b) = connect(&one, &two);
    let target = two.region(64);
    let mut word = 0x0123_4567_89AB_CDEF_u64.to_ne_bytes();
    a.post_send(&SendRequest::write(SendData::Inline(&word), target.remote().at(8)).signaled())
        .expect("posted");
    word.fill(0);
    assert_eq!(complete(&mut one, &two).status, WcStatus::Success);
    assert_eq!(target.load_acquire_u64(8).expect("aligned"), 0x0123_4567_89AB_CDEF);
    assert_eq!(target.load_acquire_u64(0).expect("aligned"), 0);
}

fn queue_pairs_share_receives_and_the_program_hears_when_they_run_low(driver: Driver) {
    let (one, mut two) = hosts(driver, "loss=2%,seed=5");
    let target = two.region(8 * 64);
    let mut srq = two.pd.create_srq(SrqCaps { max_wr: 8, max_sge: 1 }).expect("a shared queue");
    for slot in 0..8 {
        let scatter = [target.slice(64 * slot..64 * (slot + 1)).expect("inside")];
        srq.post_recv(&receive(slot as u64, &scatter)).expect("posted");
    }
    let full = srq.post_recv(&receive(8, &[])).expect_err("eight fit");
    assert!(matches!(full, Error::Post(PostError::QueueFull { capacity: 8 })), "{full}");
    srq.arm_limit(3).expect("armed");
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let (a, b) = (prepare(&one), two.pd.queue_pair(&two.cq, &two.cq).srq(&srq).timeout(18));
        let mut b = b.build().expect("a queue pair");
        let own = b.post_recv(&receive(0, &[])).expect_err("it has no queue of its own");
        assert!(matches!(own, Error::Post(PostError::NoReceiveQueue)), "{own}");
        pairs.push(join([a, b]));
    }
    for number in 0..6_u8 {
        let [a, b] = &mut pairs[usize::from(number % 2)];
        a.post_send(&SendRequest::send(SendData::Inline(&[number; 10]))).expect("posted");
        let received = complete(&mut two, &one);
        assert_eq!((received.wr_id, received.status), (number.into(), WcStatus::Success));
        assert_eq!((received.qpn, received.byte_len), (b.qpn(), 10));
        let mut bytes = [0; 10];
        target.read(64 * usize::from(number), &mut bytes).expect("inside");
        assert_eq!(bytes, [number; 10]);
    }
    assert_eq!(two.device.poll_event(), Some(AsyncEvent::SrqLimit { srq: srq.number() }));
    assert_eq!((two.device.poll_event(), srq.query().available), (None, 2));
    drop(srq);
    drop(pairs);
    assert_eq!(
        two.pd.create_srq(SrqCaps::default()).expect("a shared queue").number(),
        0,
        "the first is gone"
    );
}

fn a_window_lets_the_peer_write_until_a_send_ends_it(driver: Driver) {
    let (mut one, mut two) = hosts(driver, "");
    let (mut a, mut b) = connect(&one, &two);
    let region = two.pd.register(256, Access::LOCAL_WRITE | Access::MW_BIND).expect("memory");
    let mut window = two.pd.alloc_window(WindowType::Two).expect("a window");
    let rkey = window.bind(&mut b, 5, &region, 64..96, Access::REMOTE_WRITE).expect("posted");
    assert_eq!(rkey, window.rkey());
    let bound = complete(&mut two, &one);
    assert_eq!((bound.wr_id, bound.status, bound.opcode), (5, WcStatus::Success, WcOpcode::BindMw));
    let to = RemoteAddr { addr: region.addr() + 64, rkey };
    a.post_send(&SendRequest::write(SendData::Inline(&[9; 32]), to)).expect("posted");
    b.post_recv(&receive(6, &[])).expect("posted");
    a.post_send(&SendRequest::send_with_invalidate(SendData::Inline(&[]), rkey)).expect("posted");
    let received = complete(&mut two, &one);
    assert_eq!((received.wr_id, received.flags, received.imm), (6, WcFlags::WITH_INV, rkey));
    let mut bytes = [0; 256];
    region.read(0, &mut bytes).expect("inside");
    assert_eq!((&bytes[..64], &bytes[64..96], &bytes[96..]), (&[0; 64][..], &[9; 32][..], &[0; 160][..]));
    window.bind(&mut b, 7, &region, .., Access::REMOTE_WRITE).expect("posted");
    assert_eq!(complete(&mut two, &one).status, WcStatus::Success, "it was free again");
    drop(region);
    let to = RemoteAddr { addr: to.addr, rkey: window.rkey() };
    a.post_send(&SendRequest::write(SendData::Inline(&[1; 8]), to).signaled()).expect("posted");
    assert_eq!(complete(&mut one, &two).status, WcStatus::Success, "the window keeps the region");
    drop(window);
    a.post_send(&SendRequest::write(SendData::Inline(&[1; 8]), to).signaled()).expect("posted");
    assert_eq!(complete(&mut one, &two).status, WcStatus::RemAccessErr);
}

fn a_write_outside_the_region_is_refused_and_ends_both_queue_pairs(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let (mut a, b) = connect(&one, &two);
    let target = two.region(64);
    a.post_send(&SendRequest::write(SendData::Inline(&[1; 8]), target.remote().at(60)).id(1))
        .expect("posted");
    let failed = complete(&mut one, &two);
    assert_eq!((failed.wr_id, failed.status), (1, WcStatus::RemAccessErr));
    assert_eq!((a.state(), b.state()), (QpState::Err, QpState::Err));
    assert_eq!(one.device.poll_event(), Some(AsyncEvent::QpFatal { qpn: a.qpn() }));
    assert_eq!(two.device.poll_event(), Some(AsyncEvent::QpAccessError { qpn: b.qpn() }));
    let mut found = [0xFF; 64];
    target.read(0, &mut found).expect("inside");
    assert_eq!(found, [0; 64]);
}

fn a_region_that_is_dropped_is_refused(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let (mut a, _b) = connect(&one, &two);
    let target = two.region(64);
    let to = target.remote().at(0);
    drop(target);
    a.post_send(&SendRequest::write(SendData::Inline(&[1]), to)).expect("posted");
    assert_eq!(complete(&mut one, &two).status, WcStatus::RemAccessErr);
}

fn a_peer_that_is_gone_ends_in_retry_exceeded(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let a = one.pd.queue_pair(&one.cq, &one.cq).timeout(8).build().expect("a queue pair");
    let to_nobody = prepare(&two).endpoint();
    drop(two);
    let mut a = a.connect(&to_nobody).expect("connected");
    a.post_send(&SendRequest::send(SendData::Inline(b"anyone?")).id(4)).expect("posted");
    let deadline = Instant::now() + Duration::from_secs(60);
    let failed = loop {
        assert!(Instant::now() < deadline, "the queue pair does not give up");
        if let Some(completion) = one.cq.poll() {
            break completion;
        }
    };
    assert_eq!((failed.wr_id, failed.status), (4, WcStatus::RetryExcErr));
}

fn an_idle_receiver_learns_that_its_peer_is_gone(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let idle = Duration::from_millis(10);
    let a = one.pd.queue_pair(&one.cq, &one.cq).timeout(8).keepalive(idle).build().expect("a queue pair");
    let b = prepare(&two);
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let (mut a, b) = (a.connect(&to_b).expect("connected"), b.connect(&to_a).expect("connected"));
    a.post_recv(&receive(5, &[])).expect("posted");
    drop((b, two));
    let deadline = Instant::now() + Duration::from_secs(60);
    let flushed = loop {
        assert!(Instant::now() < deadline, "the queue pair does not learn of it");
        if let Some(completion) = one.cq.poll() {
            break completion;
        }
    };
    assert_eq!((flushed.wr_id, flushed.status, a.state()), (5, WcStatus::WrFlushErr, QpState::Err));
    assert_eq!(one.device.poll_event(), Some(AsyncEvent::QpFatal { qpn: a.qpn() }));
}

fn an_abort_flushes_what_is_posted(driver: Driver) {
    let (one, mut two) = hosts(driver, "");
    let (_a, mut b) = connect(&one, &two);
    for wr_id in 0..3 {
        b.post_recv(&receive(wr_id, &[])).expect("posted");
    }
    b.abort().expect("any state goes to ERR");
    for wr_id in 0..3 {
        let flushed = complete(&mut two, &one);
        assert_eq!((flushed.wr_id, flushed.status), (wr_id, WcStatus::WrFlushErr));
    }
    assert_eq!(two.device.poll_event(), None, "who aborts knows it");
}

fn the_peer_is_found_by_its_ip_address(driver: Driver) {
    let (one, mut two) = hosts(driver, "");
    let (a, b) = (prepare(&one), prepare(&two));
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let mut b = b.connect(&to_a).expect("connected");
    b.post_recv(&receive(1, &[])).expect("posted");
    // Who is asked for an address answers only while it runs.
    let answering = two.device.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let helper = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            answering.progress();
        }
    });
    let mut a = a.connect(&to_b.routed()).expect("resolved");
    drop(stop);
    helper.join().expect("no panic");
    a.post_send(&SendRequest::send(SendData::Inline(&[]))).expect("posted");
    assert_eq!(complete(&mut two, &one).status, WcStatus::Success);
}

fn nobody_at_an_address_is_an_error(driver: Driver) {
    let (one, _two) = hosts(driver, "");
    let a = prepare(&one);
    let nobody = Endpoint { ip: [10, 77, 0, 9].into(), ..a.endpoint().routed() };
    let error = a.connect(&nobody).err().expect("nobody answers");
    assert!(error.to_string().contains("no host answers for 10.77.0.9"), "{error}");
}

fn the_smaller_path_mtu_counts(driver: Driver) {
    let (one, two) = hosts(driver, "");
    assert_eq!(one.device.path_mtu_max(), Pmtu::B1024);
    let a = prepare(&one);
    let b = two.pd.queue_pair(&two.cq, &two.cq).path_mtu(Pmtu::B512).build().expect("a queue pair");
    assert_eq!(join([a, b]).map(|pair| pair.path_mtu()), [Pmtu::B512; 2]);
}

fn the_smaller_window_counts(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let (a, b) = (prepare(&one), two.pd.queue_pair(&two.cq, &two.cq).window(7).build().expect("a queue pair"));
    let (to_a, to_b) = (Endpoint { window: 3, ..a.endpoint() }, Endpoint { window: 64, ..b.endpoint() });
    let (mut a, b) = (a.connect(&to_b).expect("connected"), b.connect(&to_a).expect("connected"));
    assert_eq!((a.window(), b.window()), (64, 3));
    // More packets than that: they all arrive.
    let (source, target) = (one.region(1 << 17), two.region(1 << 17));
    source.write(0, &pattern(1 << 17)).expect("inside");
    let gather = [source.slice(..).expect("inside")];
    let write = SendRequest::write(SendData::Gather(&gather), target.remote().at(0));
    a.post_send(&write.signaled()).expect("posted");
    assert_eq!(complete(&mut one, &two).status, WcStatus::Success);
    let mut found = vec![0; 1 << 17];
    target.read(0, &mut found).expect("inside");
    assert!(found == pattern(1 << 17), "the bytes differ");
}

fn a_batch_is_posted_at_its_end_without_what_was_refused(driver: Driver) {
    let (mut one, mut two) = hosts(driver, "");
    let (mut a, mut b) = connect(&one, &two);
    let target = two.region(64);
    let write = |wr_id: u64| {
        let to = target.remote().at(wr_id * 8);
        SendRequest::write(SendData::Inline(b"eight by"), to).id(wr_id).signaled()
    };
    let long = [0; 33];
    let bad = SendRequest::send(SendData::Inline(&long));
    drop(a.batch());
    assert_eq!(a.outstanding(), 0, "an empty batch is nothing");
    let post = |batch: &mut SendBatch<'_>, wr_id| batch.post_send(&write(wr_id));
    let mut batch = a.batch();
    post(&mut batch, 0).expect("room");
    post(&mut batch, 1).expect("room");
    let error = batch.post_send(&bad).expect_err("33 > 32");
    assert!(matches!(error, Error::Post(PostError::InlineTooLong { given: 33, max: 32 })), "{error}");
    post(&mut batch, 2).expect("what was refused takes no place");
    for _ in 0..100 {
        one.device.progress();
        two.device.progress();
    }
    assert_eq!(two.device.counters().rx_in_order, 0, "a batch is posted when it ends");
    drop(batch);
    for wr_id in 0..3 {
        assert_eq!(complete(&mut one, &two).wr_id, wr_id);
    }
    assert_eq!(target.load_acquire_u64(24).expect("aligned"), 0, "three were posted");

    let receives: Vec<_> = (0..129).map(|wr_id| receive(wr_id, &[])).collect();
    let error = b.post_recv_batch(&receives).expect_err("128 fit");
    assert!(matches!(error, Error::Batch(BatchError { posted: 128, .. })), "{error}");
    b.abort().expect("any state goes to ERR");
    for wr_id in 0..128 {
        assert_eq!(complete(&mut two, &one).wr_id, wr_id);
    }
}

fn a_value_out_of_range_is_named_before_the_peer_hears_of_it(driver: Driver) {
    let (one, two) = hosts(driver, "");
    let error = |pair: verbs_api::QueuePairBuilder| pair.build().err().expect("refused").to_string();
    let pair = || one.pd.queue_pair(&one.cq, &one.cq);
    assert!(error(pair().window(0)).starts_with("window is 0"));
    assert!(error(pair().first_psn(1 << 24)).contains("SQ_PSN"));
    assert!(error(pair().timeout(32)).contains("TIMEOUT"));
    assert!(error(pair().min_rnr_timer(32)).contains("MIN_RNR_TIMER"));
    assert_eq!(
        error(pair().path_mtu(Pmtu::B2048)),
        "path MTU 2048 needs mtu=2140, and the port has 1182: open the device with that mtu=, or give the queue pair a smaller path MTU"
    );
    assert!(error(pair().access(Access::REMOTE_WRITE)).contains("LOCAL_WRITE"));
    let caps = QueueCaps { max_send_wr: 0, ..QueueCaps::default() };
    assert!(error(pair().caps(caps)).starts_with("max_send_wr is 0"));
    let foreign = one.pd.queue_pair(&two.cq, &one.cq);
    assert!(matches!(foreign.build(), Err(Error::OtherDevice { what: "completion queue" })));
}

fn a_full_queue_refuses_and_polling_empties_it(driver: Driver) {
    let (mut one, two) = hosts(driver, "");
    let caps = QueueCaps { max_send_wr: 4, ..QueueCaps::default() };
    let a = one.pd.queue_pair(&one.cq, &one.cq).caps(caps).timeout(18).build().expect("a queue pair");
    let b = prepare(&two);
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let mut a = a.connect(&to_b).expect("connected");
    let target = two.region(8);
    let request = SendRequest::write(SendData::Inline(&[1]), target.remote().at(0));
    for _ in 0..4 {
        a.post_send(&request.signaled()).expect("posted");
    }
    let full = a.post_send(&request).expect_err("four are outstanding");
    assert!(matches!(full, Error::Post(PostError::QueueFull { capacity: 4 })), "{full}");
    let _b = b.connect(&to_a).expect("connected");
    for _ in 0..4 {
        assert_eq!(complete(&mut one, &two).status, WcStatus::Success);
    }
    assert_eq!(a.outstanding(), 0);
    a.post_send(&request).expect("there is room again");
}

fn objects_go_in_any_order_and_leave_nothing_behind(driver: Driver) {
    let (one, two) = hosts(driver, "");
    for _ in 0..3000 {
        // More than the device's 1024 queue pairs and completion queues: each must go for the next
        // to come.
        let cq = one.device.create_cq(16).expect("a free place");
        let pair = one.pd.queue_pair(&cq, &cq).build().expect("a free place");
        drop(cq);
        drop(pair);
    }
    for _ in 0..5000 {
        one.region(1);
    }
    let Host { device, pd, cq } = two;
    let region = pd.register(8, REMOTE).expect("memory");
    drop((device, cq, pd));
    region.write(0, &[1; 8]).expect("the region keeps the device");
}

fn threads_that_drive_the_same_engines_lose_nothing(driver: Driver) {
    const MESSAGES: u64 = 2000;
    let (one, mut two) = hosts(driver, "loss=1%,seed=5");
    let (mut a, mut b) = connect(&one, &two);
    let done = AtomicBool::new(false);
    let (devices, mut cq) = ([one.device.clone(), two.device.clone()], one.cq);
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for device in &devices {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    device.progress();
                    std::thread::yield_now();
                }
            });
        }
        let sent = Raise(&done);
        scope.spawn(move || {
            let _sent = sent;
            let (mut posted, mut completed) = (0, 0);
            while completed < MESSAGES && Instant::now() < deadline {
                if posted < MESSAGES && posted - completed < 64 {
                    let text = posted.to_le_bytes();
                    let request = SendRequest::send(SendData::Inline(&text)).id(posted).signaled();
                    a.post_send(&request).expect("there is room");
                    posted += 1;
                }
                while let Some(completion) = cq.poll() {
                    assert_eq!((completion.wr_id, completion.status), (completed, WcStatus::Success));
                    completed += 1;
                }
            }
            assert_eq!(completed, MESSAGES, "within a minute");
        });
        let target = two.region(8 * 128);
        let mut received = 0;
        let slot = |number: u64| usize::try_from(number % 128).expect("small") * 8;
        for number in 0..128 {
            let scatter = [target.slice(slot(number)..slot(number) + 8).expect("inside")];
            b.post_recv(&receive(number, &scatter)).expect("posted");
        }
        while received < MESSAGES && Instant::now() < deadline {
            let Some(completion) = two.cq.poll() else { continue };
            assert_eq!((completion.wr_id, completion.status), (received, WcStatus::Success));
            let mut word = [0; 8];
            target.read(slot(received), &mut word).expect("inside");
            assert_eq!(u64::from_le_bytes(word), received);
            let scatter = [target.slice(slot(received)..slot(received) + 8).expect("inside")];
            b.post_recv(&receive(received + 128, &scatter)).expect("there is room");
            received += 1;
        }
        assert_eq!(received, MESSAGES, "within a minute");
    });
}
}
