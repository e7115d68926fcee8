//! Threads: each has a queue pair and a completion queue of its own, on devices that all of them
//! share (protocol.md 1.10).

use crate::host::Host;
use crate::net::{bytes, connect};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use verbs_api::{Access, Device, QueuePair, SendData, SendRequest, SrqCaps, WcStatus, WindowType};

const THREADS: usize = 3;
const MESSAGES: u64 = 300;
const DEPTH: u64 = 8;

/// WRITEs numbers one after the other, `DEPTH` of them under way; each completes at its own queue,
/// in order.
fn write_numbers(host: &mut Host, pair: &mut QueuePair, to: verbs_api::RemoteRegion) {
    let deadline = Instant::now() + crate::host::wait::PATIENCE;
    let (mut posted, mut done) = (0, 0);
    while done < MESSAGES {
        if posted < MESSAGES && posted < done + DEPTH {
            let (number, slot) = (posted.to_ne_bytes(), posted % DEPTH * 8);
            let request = SendRequest::write(SendData::Inline(&number), to.at(slot));
            pair.post_send(&request.id(posted).signaled()).expect("room");
            posted += 1;
        }
        while let Some(completion) = host.cq.poll() {
            let found = (completion.wr_id, completion.status, completion.qpn);
            assert_eq!(found, (done, WcStatus::Success, pair.qpn()));
            done += 1;
        }
        assert!(Instant::now() < deadline, "{done} messages within a minute");
    }
}

/// Makes objects of every kind of one device and drops them, in an order that depends on the round.
fn make_and_drop(device: &Device, round: usize) {
    let pd = device.alloc_pd();
    let cq = device.create_cq(16).expect("a queue");
    let srq = pd.create_srq(SrqCaps { max_wr: 4, max_sge: 1 }).expect("a shared queue");
    let region = pd.register(64, Access::LOCAL_WRITE | Access::MW_BIND).expect("memory");
    let window = pd.alloc_window(WindowType::Two).expect("a window");
    let handle = pd.create_ah_to(device.ip()).expect("its own host");
    let datagrams = pd.ud_queue_pair(&cq, &cq).build().expect("a queue pair");
    let pair = pd.queue_pair(&cq, &cq).srq(&srq).build().expect("a queue pair");
    let mut objects: Vec<Box<dyn core::any::Any>> = vec![
        Box::new(pd),
        Box::new(cq),
        Box::new(srq),
        Box::new(region),
        Box::new(window),
        Box::new(handle),
        Box::new(datagrams),
        Box::new(pair),
    ];
    while !objects.is_empty() {
        objects.swap_remove(round % objects.len());
    }
}

on_every_lan! {

/// Threads make and drop objects of every kind, in any order, on devices between which messages go;
/// nothing is left.
fn objects_come_and_go_beside_traffic(lan: Lan) {
    let mut hosts = lan.hosts();
    let devices = hosts.each_ref().map(|host| host.device.clone());
    let [mut pair, _peer] = connect(&hosts, |_, builder| builder);
    let target = hosts[1].region(8 * usize::try_from(DEPTH).expect("small"));
    let before = devices.each_ref().map(Device::usage);
    let left = AtomicUsize::new(1 + THREADS);
    std::thread::scope(|scope| {
        let (left, devices) = (&left, &devices);
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..50 {
                    make_and_drop(&devices[thread % 2], thread + 3 * round);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let ([host, _], pair, to) = (&mut hosts, &mut pair, target.remote());
        scope.spawn(move || {
            write_numbers(host, pair, to);
            left.fetch_sub(1, Ordering::Relaxed);
        });
        let deadline = Instant::now() + 2 * crate::host::wait::PATIENCE;
        while left.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            devices[1].progress();
            std::thread::yield_now();
        }
    });
    assert_eq!(devices.each_ref().map(Device::usage), before);
}

/// Threads post, poll and drive the same device at once.
fn threads_share_a_device(lan: Lan) {
    let shared = lan.hosts();
    let mut lanes: Vec<_> = (0..THREADS)
        .map(|_| {
            let hosts = shared.each_ref().map(|host| Host::new(host.device.clone()));
            let pairs = connect(&hosts, |_, builder| builder);
            let target = hosts[1].region(8 * usize::try_from(DEPTH).expect("small"));
            (hosts, pairs, target)
        })
        .collect();
    let left = AtomicUsize::new(THREADS);
    std::thread::scope(|scope| {
        for ([host, _], [pair, _], target) in &mut lanes {
            let (to, left) = (target.remote(), &left);
            scope.spawn(move || {
                write_numbers(host, pair, to);
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // Who is written to runs, too. (A thread that fails shows it by itself, after its minute.)
        let deadline = Instant::now() + 2 * crate::host::wait::PATIENCE;
        while left.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            shared[1].device.progress();
            std::thread::yield_now();
        }
    });
    for (_, _, target) in &lanes {
        let found = bytes(target);
        let words = found.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        for (slot, last) in (0..DEPTH).zip(words) {
            assert_eq!((last % DEPTH, last >= MESSAGES - DEPTH), (slot, true), "{last}");
        }
    }
}

}
