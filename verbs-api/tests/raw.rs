//! What a verbs library in C is made of: memory of the caller's, queue pairs of many threads,
//! windows whose binding the caller posts.

#[path = "support/wait.rs"]
mod wait;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashSet;

use memmap2::{Mmap, MmapMut, MmapOptions};
use verbs_api::raw::{self, Binding, RawRegion, SendFlags, SendOpcode, WorkRequest};
use verbs_api::{
    Access, AddressVector, Completion, CompletionQueue, Device, Error, PostError, ProtectionDomain, QpAttr,
    QpAttrMask, QpState, QpType, QueueCaps, RecvRequest, SendData, Sge, WcStatus, WindowType,
};

const ALL: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);

/// A device that its user drives, with a queue pair.
struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    pair: raw::QueuePair,
}

fn host(segment: &str) -> Host {
    let device = Device::open(&format!("sim:raw-{segment}")).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(256).expect("a queue"));
    let caps = QueueCaps { max_inline: QueueCaps::INLINE_LIMIT, ..QueueCaps::default() };
    let pair = pd.queue_pair(&cq, &cq).caps(caps).create_raw(QpType::Rc).expect("a queue pair");
    Host { device, pd, cq, pair }
}

/// Two hosts whose queue pairs are connected.
fn pair(segment: &str) -> [Host; 2] {
    let hosts = [host(segment), host(segment)];
    connect(&hosts[0], &hosts[1]);
    connect(&hosts[1], &hosts[0]);
    hosts
}

fn connect(from: &Host, to: &Host) {
    let attr = QpAttr {
        access_flags: ALL,
        av: AddressVector {
            src_ip: from.device.ip(),
            dst_ip: to.device.ip(),
            dst_mac: Some(to.device.mac()),
            ..AddressVector::default()
        },
        dest_qpn: to.pair.qpn(),
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        ..QpAttr::default()
    };
    let steps = [
        (QpState::Init, QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS),
        (
            QpState::Rtr,
            QpAttrMask::AV
                | QpAttrMask::PATH_MTU
                | QpAttrMask::DEST_QPN
                | QpAttrMask::RQ_PSN
                | QpAttrMask::MAX_DEST_RD_ATOMIC
                | QpAttrMask::MIN_RNR_TIMER,
        ),
        (
            QpState::Rts,
            QpAttrMask::TIMEOUT
                | QpAttrMask::RETRY_CNT
                | QpAttrMask::RNR_RETRY
                | QpAttrMask::SQ_PSN
                | QpAttrMask::MAX_QP_RD_ATOMIC,
        ),
    ];
    for (state, mask) in steps {
        from.pair.modify(&QpAttr { state, ..attr }, mask | QpAttrMask::STATE).expect("a transition");
        assert_eq!((from.pair.state(), from.pair.query().state), (state, state));
    }
}

/// Memory of a test's, which lives as long as the test.
fn memory(len: usize) -> MmapMut {
    MmapOptions::new().len(len).map_anon().expect("memory")
}

fn start_of(memory: &mut MmapMut) -> NonNull<u8> {
    NonNull::new(memory.as_mut_ptr()).expect("mapped")
}

fn register(host: &Host, memory: &mut MmapMut, iova: u64) -> RawRegion {
    let (start, len) = (start_of(memory), memory.len());
    // SAFETY: the caller drops the region first, and looks at the memory only when all is done.
    unsafe { host.pd.register_raw(start, len, iova, ALL) }.expect("a region")
}

fn request(opcode: SendOpcode, remote_addr: u64, rkey: u32, data: SendData<'_>) -> WorkRequest<'_> {
    WorkRequest { wr_id: 7, opcode, flags: SendFlags::SIGNALED, imm: 0, remote_addr, rkey, data }
}

/// The next completion of `hosts[0]`.
fn completion(hosts: &mut [Host; 2]) -> Completion {
    let [here, there] = hosts;
    wait::completion(&mut here.cq, &there.device)
}

fn post(host: &Host, request: &WorkRequest<'_>) {
    host.pair.send().post(request).expect("posted");
}

#[test]
fn memory_of_the_callers_is_written_and_read_at_the_addresses_that_it_chose() {
    let mut hosts = pair("iova");
    let [mut ours, mut theirs] = [memory(4096), memory(4096)];
    ours[..5].copy_from_slice(b"hello");
    let mine = register(&hosts[0], &mut ours, 0x1000);
    let its = register(&hosts[1], &mut theirs, 0);
    let at = |addr, length| [Sge { addr, length, lkey: mine.lkey() }];
    post(&hosts[0], &request(SendOpcode::Write, 100, its.rkey(), SendData::Gather(&at(0x1000, 5))));
    assert_eq!(completion(&mut hosts).status, WcStatus::Success);
    post(&hosts[0], &request(SendOpcode::Read, 101, its.rkey(), SendData::Gather(&at(0x1800, 4))));
    assert_eq!(completion(&mut hosts).status, WcStatus::Success);
    // Where the bytes are is not how they are named.
    let real = theirs.as_ptr().addr() as u64;
    post(&hosts[0], &request(SendOpcode::Write, real, its.rkey(), SendData::Gather(&at(0x1000, 5))));
    assert_eq!(completion(&mut hosts).status, WcStatus::RemAccessErr);
    for region in [mine, its] {
        assert!(region.deregister().is_ok());
    }
    assert_eq!((&theirs[100..105], &ours[0x800..0x804]), (&b"hello"[..], &b"ello"[..]));
}

#[test]
fn memory_that_is_not_there_or_may_not_be_written_is_refused() {
    let host = host("populate");
    let refused = |start, len, access| {
        // SAFETY: it is refused, or nobody connects to this device.
        match unsafe { host.pd.register_raw(start, len, 0, access) } {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        }
    };
    let gone = {
        let mut hole = memory(1 << 16);
        start_of(&mut hole)
    };
    let said = refused(gone, 4096, Access::empty()).expect("it is not mapped");
    assert!(
        said.contains("cannot be read: Cannot allocate memory")
            && said.contains("register memory that is mapped")
    );
    let only_read: Mmap = memory(4096).make_read_only().expect("protected");
    let start = NonNull::new(only_read.as_ptr().cast_mut()).expect("mapped");
    assert!(refused(start, 4096, ALL).is_some_and(|said| said.contains("cannot be written")));
    assert_eq!(refused(start, 4096, Access::REMOTE_READ), None);
    assert!(refused(start, usize::MAX, Access::empty()).is_some());
}

#[test]
fn a_region_stays_registered_while_a_window_is_bound_to_it() {
    let mut hosts = pair("window");
    let mut bytes = memory(4096);
    let start = start_of(&mut bytes);
    let access = Access::LOCAL_WRITE | Access::MW_BIND;
    // SAFETY: the memory outlives the region, and nobody looks at it.
    let region = unsafe { hosts[0].pd.register_raw(start, 4096, 0, access) }.expect("a region");
    let window = hosts[0].pd.alloc_raw_window(WindowType::Two).expect("a window");
    let key = window.first_key();
    let [low, ..] = key.to_le_bytes();
    let new_key = key & !0xFF | u32::from(low.wrapping_add(1).max(1));
    let range = Sge { addr: 0, length: 64, lkey: region.lkey() };
    let binding = Binding { range, access: Access::REMOTE_WRITE, new_key };
    post(&hosts[0], &request(SendOpcode::BindWindow, 0, key, SendData::Bind(&binding)));
    assert_eq!(completion(&mut hosts).status, WcStatus::Success);
    let (region, error) = region.deregister().expect_err("a window is bound to it");
    assert!(matches!(error, Error::RegionShared), "{error}");
    drop(window);
    assert!(region.deregister().is_ok());
}

#[test]
fn a_region_is_registered_anew_in_place() {
    let mut hosts = pair("again");
    let [mut first, mut second] = [memory(4096), memory(8192)];
    let mut its = register(&hosts[1], &mut first, 0);
    let old = its.rkey();
    let bytes = (start_of(&mut second), 8192, 0x5000);
    // SAFETY: the memory outlives the region.
    unsafe { its.reregister(None, Some(bytes), Some(ALL)) }.expect("free to change");
    assert_ne!(its.rkey(), old);
    post(&hosts[0], &request(SendOpcode::Write, 0x6FFF, its.rkey(), SendData::Inline(b"!")));
    assert_eq!(completion(&mut hosts).status, WcStatus::Success);
    post(&hosts[0], &request(SendOpcode::Write, 0, old, SendData::Inline(b"!")));
    assert_eq!(completion(&mut hosts).status, WcStatus::RemAccessErr);
    assert!(its.deregister().is_ok());
    assert_eq!(second[8191], b'!');
}

#[test]
fn any_number_of_threads_post_to_one_queue_pair() {
    const EACH: u64 = 500;
    let mut hosts = pair("threads");
    let mut theirs = memory(4096);
    let its = register(&hosts[1], &mut theirs, 0);
    let [Host { pair, cq, .. }, Host { device: peer, pair: its_pair, .. }] = &mut hosts;
    let numbers = std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pair, its_pair, rkey) = (&*pair, &*its_pair, its.rkey());
            scope.spawn(move || {
                for number in 0..EACH {
                    let wr_id = thread * EACH + number;
                    let one =
                        WorkRequest { wr_id, ..request(SendOpcode::Write, 0, rkey, SendData::Inline(b"1")) };
                    wait::until("room", || pair.send().post(&one).ok());
                    let receive = RecvRequest { wr_id, scatter: &[] };
                    // More than the queue holds: some are refused, none is lost or doubled.
                    let _ = its_pair.recv().post(&receive);
                }
            });
        }
        let mut numbers = HashSet::new();
        wait::until("all completions", || {
            peer.progress();
            numbers.extend(std::iter::from_fn(|| cq.poll()).map(|done| (done.status, done.wr_id)));
            (numbers.len() as u64 == 4 * EACH).then_some(())
        });
        numbers
    });
    assert!((0..4 * EACH).all(|number| numbers.contains(&(WcStatus::Success, number))));
}

#[test]
fn what_is_taken_back_is_never_sent() {
    let mut hosts = pair("discard");
    let mut theirs = memory(4096);
    let its = register(&hosts[1], &mut theirs, 0);
    let [one, two] =
        [b"1", b"2"].map(|byte| request(SendOpcode::Write, 0, its.rkey(), SendData::Inline(byte)));
    {
        let mut queue = hosts[0].pair.send();
        queue.post(&one).expect("room");
        queue.discard();
    }
    post(&hosts[0], &WorkRequest { wr_id: 8, remote_addr: 1, ..two });
    assert_eq!(completion(&mut hosts).wr_id, 8);
    assert!(hosts[0].cq.poll().is_none());
    assert!(its.deregister().is_ok());
    assert_eq!(theirs[..2], [0, b'2']);
}

#[test]
fn who_waits_until_all_is_sent_needs_nobody_who_polls() {
    let hosts = pair("sent");
    let mut theirs = memory(4096);
    let its = register(&hosts[1], &mut theirs, 0);
    let silent = WorkRequest {
        flags: SendFlags::default(),
        ..request(SendOpcode::Write, 0, its.rkey(), SendData::Inline(b"x"))
    };
    (0..20).for_each(|_| post(&hosts[0], &silent));
    assert!(!hosts[0].pair.wait_sent(Duration::from_millis(5)), "the peer does not answer");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                hosts[1].device.progress();
            }
        });
        let sent = hosts[0].pair.wait_sent(Duration::from_secs(60));
        done.store(true, Ordering::Relaxed);
        assert!(sent);
    });
    assert!(its.deregister().is_ok());
    assert_eq!(theirs[0], b'x');
}

#[test]
fn as_much_inline_as_perftest_asks_for_is_taken_and_more_refused() {
    const PERFTEST: usize = 236;
    let mut hosts = pair("inline");
    let mut theirs = memory(4096);
    let its = register(&hosts[1], &mut theirs, 0);
    let bytes = [b'x'; 241];
    let inline = |len| request(SendOpcode::Write, 0, its.rkey(), SendData::Inline(&bytes[..len]));
    for len in [PERFTEST, 240] {
        post(&hosts[0], &inline(len));
        assert_eq!(completion(&mut hosts).status, WcStatus::Success);
    }
    let refused = hosts[0].pair.send().post(&inline(241));
    assert!(matches!(refused, Err(Error::Post(PostError::InlineTooLong { given: 241, max: 240 }))));
    assert!(its.deregister().is_ok());
    assert!(theirs[..240].iter().all(|byte| *byte == b'x') && theirs[240] == 0);
}
