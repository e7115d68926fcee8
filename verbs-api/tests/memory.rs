//! Memory regions that change in place (`ibv_rereg_mr`), regions of every combination of access
//! flags, and what a device says it can do (protocol.md 1.11).

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/host.rs"]
mod host;
#[path = "support/join.rs"]
mod join;
#[path = "support/segment.rs"]
mod segment;

use host::{Host, REMOTE, complete};
use join::join;
use segment::hosts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CongestionAlgorithm, Device, Driver, Error, MemoryRegion, QueuePair, RegisterError, SendData,
    SendRequest, WcStatus, WindowType,
};

/// Queue pairs whose peers may do everything that the regions permit.
fn connect([one, two]: &[Host; 2]) -> [QueuePair; 2] {
    let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    join([one, two].map(|host| {
        let pair = host.pd.queue_pair(&host.cq, &host.cq).access(all);
        pair.congestion(CongestionAlgorithm::Fixed).timeout(20).build().expect("a queue pair")
    }))
}

/// How a WRITE of one byte to `target` ends; the queue pairs are new each time.
fn write(hosts: &mut [Host; 2], target: verbs_api::RemoteRegion) -> WcStatus {
    let [mut a, _b] = connect(hosts);
    a.post_send(&SendRequest::write(SendData::Inline(b"!"), target.at(0)).signaled()).expect("posted");
    let [one, two] = hosts;
    complete(one, two).status
}

fn byte(region: &MemoryRegion) -> u8 {
    let mut byte = [0];
    region.read(0, &mut byte).expect("inside");
    byte[0]
}

/// Takes steps until that is over, and for some time at least; how many they were.
fn steps_until(over: &AtomicBool, mut step: impl FnMut()) -> u64 {
    let (start, mut steps) = (Instant::now(), 0);
    while !over.load(Ordering::Relaxed) || start.elapsed() < Duration::from_millis(100) {
        step();
        steps += 1;
    }
    steps
}

fn swap_in_one_more(word: &MemoryRegion) {
    let mut seen = word.load_acquire_u64(8).expect("aligned");
    loop {
        match word.compare_and_swap_u64(8, seen, seen + 1).expect("aligned") {
            found if found == seen => return,
            found => seen = found,
        }
    }
}

with_all_drivers! {

fn a_region_changes_its_rights_and_its_key(driver: Driver) {
    let mut hosts = hosts(driver, "rights");
    let mut region = hosts[1].pd.register(64, Access::LOCAL_WRITE).expect("memory");
    let closed = region.remote();
    assert_eq!(write(&mut hosts, closed), WcStatus::RemAccessErr);
    region.change_access(REMOTE).expect("nobody else names it");
    assert_eq!(write(&mut hosts, closed), WcStatus::RemAccessErr, "the old key is no more");
    assert_eq!(byte(&region), 0);
    let open = region.remote();
    assert_eq!((write(&mut hosts, open), byte(&region)), (WcStatus::Success, b'!'));

    let error = region.change_access(Access::REMOTE_WRITE).expect_err("remote writes are local writes, too");
    assert!(matches!(error, Error::Register(RegisterError::InconsistentAccess(_))), "{error}");
    assert_eq!((region.remote(), write(&mut hosts, open)), (open, WcStatus::Success), "nothing has changed");
}

/// A peer counts in a word in which two threads of this process count, too, by adding and by
/// swapping: no count is lost.
fn atomics_of_peers_and_of_this_process_are_one_step_for_each_other(driver: Driver) {
    const COUNT: u64 = 100;
    let mut hosts = hosts(driver, "counts");
    let [mut peer, _pair] = connect(&hosts);
    let word = hosts[1].pd.register(64, REMOTE | Access::REMOTE_ATOMIC).expect("memory");
    let before = hosts[0].region(64);
    let over = AtomicBool::new(false);
    let here = std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            steps_until(&over, || {
                word.fetch_add_u64(8, 1).expect("aligned");
            })
        });
        let swapping = scope.spawn(|| steps_until(&over, || swap_in_one_more(&word)));
        let [one, two] = &mut hosts;
        for _ in 0..COUNT {
            let add = SendRequest::fetch_and_add(before.slice(..8).expect("inside"), word.remote().at(8), 1);
            peer.post_send(&add.signaled()).expect("posted");
            assert_eq!(complete(one, two).status, WcStatus::Success);
        }
        over.store(true, Ordering::Relaxed);
        adding.join().expect("no panic") + swapping.join().expect("no panic")
    });
    assert_eq!(word.load_acquire_u64(8).expect("aligned"), here + COUNT);
}

fn a_region_moves_to_another_domain_and_to_other_memory(driver: Driver) {
    let mut hosts = hosts(driver, "moves");
    let mut region = hosts[1].region(64);
    let elsewhere = hosts[1].device.alloc_pd();
    region.change_domain(&elsewhere).expect("nobody else names it");
    assert_eq!(write(&mut hosts, region.remote()), WcStatus::RemAccessErr, "not the queue pair's domain");
    region.change_domain(&hosts[1].pd).expect("and back");
    assert_eq!(write(&mut hosts, region.remote()), WcStatus::Success);

    let before = region.remote();
    let old = region.change_backing(Arc::new(datapath::memory::HeapBacking::new(128))).expect("unshared");
    assert_eq!((region.len(), byte(&region)), (128, 0), "it is other memory");
    assert_eq!(write(&mut hosts, before), WcStatus::RemAccessErr);
    assert_eq!(Arc::strong_count(&old), 1, "the engine has let go of what it was");
    assert_eq!((write(&mut hosts, region.remote()), byte(&region)), (WcStatus::Success, b'!'));
    let error = region.change_domain(&hosts[0].pd).expect_err("another device's").to_string();
    assert_eq!(error, "the protection domain belongs to another device; make both of the same one");
}

}

#[test]
fn a_region_that_others_name_does_not_change() {
    let mut hosts = hosts(Driver::Inline, "named");
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::MW_BIND;
    let mut region = hosts[0].pd.register(64, access).expect("memory");
    let clone = region.clone();
    assert!(matches!(region.change_access(Access::empty()), Err(Error::RegionShared)));
    drop(clone);
    let [mut a, _b] = connect(&hosts);
    let mut window = hosts[0].pd.alloc_window(WindowType::One).expect("a window");
    window.bind(&mut a, 1, &region, .., Access::REMOTE_WRITE).expect("posted");
    let [one, two] = &mut hosts;
    assert_eq!(complete(one, two).status, WcStatus::Success);
    let error = region.change_access(Access::empty()).expect_err("a window shows it").to_string();
    assert_eq!(error, "the region has clones, or windows on it; drop those first");
    drop(window);
    region.change_access(Access::empty()).expect("now it is alone");
}

/// Each combination of flags, and each operation of a peer on it: done if, and only if, the flags
/// say so.
#[test]
fn every_combination_of_access_flags_permits_what_it_says() {
    let mut hosts = hosts(Driver::Inline, "flags");
    let own = hosts[0].pd.register(64, Access::LOCAL_WRITE).expect("memory");
    for bits in 0..32 {
        let access = Access::from_bits_truncate(bits);
        let region = match hosts[1].pd.register(64, access) {
            Ok(region) => region,
            Err(error) => {
                let writes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
                assert!(writes && !access.contains(Access::LOCAL_WRITE), "{access:?}: {error}");
                continue;
            }
        };
        let at = region.remote().at(0);
        let result = own.slice(..8).expect("inside");
        for (needs, request) in [
            (Access::REMOTE_WRITE, SendRequest::write(SendData::Inline(b"8 bytes."), at)),
            (Access::REMOTE_READ, SendRequest::read(&[result], at)),
            (Access::REMOTE_ATOMIC, SendRequest::fetch_and_add(result, at, 1)),
            (Access::REMOTE_ATOMIC, SendRequest::compare_and_swap(result, at, 0, 1)),
        ] {
            let [mut a, _b] = connect(&hosts);
            a.post_send(&request.signaled()).expect("posted");
            let [one, two] = &mut hosts;
            let status = complete(one, two).status;
            let granted = if access.contains(needs) { WcStatus::Success } else { WcStatus::RemAccessErr };
            assert_eq!(status, granted, "{request:?} to a region with {access:?}");
        }
    }
}

#[test]
fn a_device_says_what_it_can_do_and_does_no_more() {
    let device =
        Device::builder().max_qps(2).max_cqs(3).max_mrs(4).max_ahs(1).open("sim:can,mac=02:00:00:aa:bb:cc");
    let device = device.expect("a device");
    let attr = device.query();
    assert_eq!((attr.max_qp, attr.max_cq, attr.max_mr, attr.max_ah, attr.phys_port_cnt), (2, 3, 4, 1, 1));
    assert_eq!((attr.node_guid, attr.max_pkeys), (0x0000_00FF_FEAA_BBCC, 1));
    assert_eq!(attr.version, env!("CARGO_PKG_VERSION"));
    let pd = device.alloc_pd();
    let cqs: Vec<_> = (0..attr.max_cq).map(|_| device.create_cq(1).expect("within the limit")).collect();
    assert!(device.create_cq(1).is_err() && device.create_cq(attr.max_cqe + 1).is_err());
    let regions: Vec<_> =
        (0..attr.max_mr).map(|_| pd.register(1, Access::empty()).expect("within")).collect();
    assert!(pd.register(1, Access::empty()).is_err());
    let pairs: Vec<_> =
        (0..attr.max_qp).map(|_| pd.queue_pair(&cqs[0], &cqs[0]).build().expect("within")).collect();
    assert!(pd.queue_pair(&cqs[0], &cqs[0]).build().is_err());
    let handle = pd.create_ah_to(device.ip()).expect("within the limit");
    let error = pd.create_ah_to(device.ip()).expect_err("one too many").to_string();
    assert!(error.contains("all 1 address handles"), "{error}");
    let usage = device.usage();
    let used = (usage.queue_pairs, usage.completion_queues, usage.memory_regions, usage.address_handles);
    assert_eq!(used, (2, 3, 4, 1));
    drop((handle, pairs, regions));
}
