mod link_down;
mod queues;
mod vhost;

use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::port::memif::{self, MemifPort};
use crate::port::test_pair::{self, Scratch, assert_intact, connect, deliver, queue, receive, within};

type Pair = test_pair::Pair<DpdkPort, DpdkPort>;

impl Pair {
    fn of_drivers() -> Self {
        Self::connected(|dir| open(dir, MemifRole::Server), |dir| open(dir, MemifRole::Client))
    }
}

fn open(dir: &Path, role: MemifRole) -> DpdkPort {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    DpdkPort::memif(eal, &MemifConfig::new(dir.join("s"), role)).expect("a port")
}

/// Buffers that the pool misses although nobody should hold any but the stash.
fn leaked(port: &DpdkPort) -> usize {
    usize::try_from(port.eth().pool().in_use()).expect("a count") - port.stash.len()
}

#[test]
fn a_port_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<DpdkPort>();
}

#[test]
fn frames_pass_as_over_any_port() {
    let mut pair = Pair::of_drivers();
    pair.passes_every_length();
    assert_eq!((leaked(&pair.server), leaked(&pair.client)), (0, 0));
    pair.lends_whole_slots();
    let mut pair = Pair::of_drivers();
    pair.forgets_what_is_cancelled();
    assert_eq!(leaked(&pair.client), 0);
}

#[test]
fn what_the_ring_does_not_take_stays_queued() {
    const RING: usize = 1 << dpdk_sys::MEMIF_RING_SIZE_LOG2;
    let mut pair = Pair::of_drivers();
    let length = |index: usize| 64 + index % 1000;
    let mut queued = 0;
    within("full ring", || {
        if queue(&mut pair.client, length(queued)) {
            queued += 1;
        }
        assert!(queued <= RING + TX_BURST, "the ring takes more than it has");
        queued == RING + TX_BURST
    });
    // The ring is full, and the port holds as much as it may. Nothing is lost, nothing is sent
    // twice.
    assert!(!queue(&mut pair.client, 64));
    assert_eq!(pair.client.stats().tx_frames, RING as u64);
    let sent_bytes: usize = (0..RING).map(length).sum();
    assert_eq!(pair.client.stats().tx_bytes, sent_bytes as u64);
    let mut received = 0;
    within("all frames", || {
        for frame in receive(&mut pair.server) {
            assert_eq!(frame.len(), length(received), "order");
            assert_intact(&frame);
            received += 1;
        }
        pair.client.tx_flush();
        received == queued
    });
    assert_eq!(pair.client.stats().tx_frames, queued as u64);
    assert_eq!(pair.client.stats().tx_dropped, 0);
    assert_eq!(leaked(&pair.client), 0);
}

/// A burst of them, and the buffers for what is sent next, are about 16 KiB.
#[test]
fn long_frames_pass_few_at_once() {
    const FRAMES: usize = 20;
    let mut pair = Pair::of_drivers();
    let mut pass = |len: usize| {
        for _ in 0..FRAMES {
            assert!(queue(&mut pair.client, len));
        }
        within("all frames on their way", || {
            pair.client.tx_flush();
            pair.client.queue.is_empty()
        });
        let mut bursts = Vec::new();
        within("all frames", || {
            let limit = pair.server.rx_limit();
            let frames = receive(&mut pair.server);
            frames.iter().for_each(|frame| assert_intact(frame));
            assert!(frames.len() <= limit);
            bursts.extend((!frames.is_empty()).then_some(frames.len()));
            bursts.iter().sum::<usize>() == FRAMES
        });
        let held = pair.client.stash.len();
        (bursts, pair.server.rx_limit(), pair.client.stash_size, held)
    };
    let mut pass_and_look = |len: usize| {
        let (bursts, limit, stash, held) = pass(len);
        assert!(held < stash, "{held} buffers are held, of {stash} that are taken at once");
        (bursts, limit, stash)
    };
    assert_eq!(pass_and_look(4000), (vec![FRAMES], 5, 5));
    assert_eq!(pass_and_look(4000), (vec![5; 4], 5, 5));
    assert_eq!(pass_and_look(4608), (vec![5, 4, 4, 4, 3], 4, 4));
    assert_eq!(pass_and_look(500), (vec![4, 16], RX_BURST, TX_STASH));
    assert_eq!(pass_and_look(4000), (vec![FRAMES], 5, 5));
    assert_eq!((leaked(&pair.server), leaked(&pair.client)), (0, 0));
}

/// They may take none where they are asked for a few.
#[test]
fn other_drivers_are_asked_for_whole_bursts() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let device = Device::virtual_device("net_null", "size=4000,copy=0");
    let mut port = DpdkPort::open(eal, device, 4000).expect("a port");
    for _ in 0..3 {
        assert_eq!((port.rx_burst(), port.rx_limit()), (RX_BURST, RX_BURST));
        assert!(queue(&mut port, 4000));
        port.tx_flush();
        assert_eq!(port.stash_size, TX_STASH);
    }
}

/// Whoever stands between asks the port below.
#[test]
fn a_port_in_a_box_has_its_own_limit() {
    let mut pair = Pair::of_drivers();
    for _ in 0..2 {
        assert!(queue(&mut pair.client, 4608));
    }
    deliver(&mut pair.client, &mut pair.server);
    let boxed: Box<dyn Port> = Box::new(pair.server);
    assert_eq!(boxed.rx_limit(), 4);
}

/// A driver does not tell what has left its ring. Who never sent has nothing there, and after a
/// while nobody has.
#[test]
fn what_was_sent_may_wait_for_a_while() {
    let mut pair = Pair::of_drivers();
    let client = &mut pair.client;
    assert_eq!(client.tx_waiting(), Some(0), "it has sent nothing");
    for round in 0..2 {
        let now = |ns: u64| Time(round * 1_000_000_000 + ns);
        assert!(queue(client, 100));
        assert_eq!(client.tx_waiting(), Some(1));
        // Nothing moves while the driver is at work on a link, be it that of another test.
        within("frame on its way", || {
            client.tx_flush();
            client.queue.is_empty()
        });
        assert_eq!(client.tx_waiting(), None, "the clock has stood still since");
        client.set_now(now(500_000_000));
        assert_eq!(client.tx_waiting(), None, "it may have been sent just before");
        client.set_now(now(500_000_000).after(IN_RING_NS - 1));
        assert_eq!(client.tx_waiting(), None);
        client.set_now(now(500_000_000).after(IN_RING_NS));
        assert_eq!(client.tx_waiting(), Some(0));
    }
}

#[test]
fn a_port_without_link_drops_and_counts() {
    let mut pair = Pair::of_drivers();
    pair.client.driver.eth.stop().expect("stops");
    within("link down", || !pair.server.link_up());
    for _ in 0..3 * TX_BURST {
        assert!(queue(&mut pair.server, 500), "a wire without carrier takes all");
    }
    pair.server.tx_flush();
    let stats = pair.server.stats();
    assert_eq!((stats.tx_frames, stats.tx_bytes, stats.tx_dropped), (0, 0, 3 * TX_BURST as u64));
    assert_eq!(leaked(&pair.server), 0);
    // The client comes back from within its receive bursts, and nothing of the past arrives.
    pair.connect();
    assert!(queue(&mut pair.server, 77));
    let frames = deliver(&mut pair.server, &mut pair.client);
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [77]);
}

#[test]
fn oversize_and_torn_frames_are_dropped_and_counted() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    // DPDK's null device makes frames from nothing: here of 300 bytes, for a port that takes 200.
    let device = Device::virtual_device("net_null", "size=300,copy=0");
    let mut port = DpdkPort::open(eal, device, 200).expect("a port");
    assert_eq!(port.rx_burst(), 0);
    assert_eq!(port.stats(), PortStats { rx_dropped: RX_BURST as u64, ..PortStats::default() });
    drop(port);
    let device = Device::virtual_device("net_null", "size=200,copy=0");
    let mut port = DpdkPort::open(eal, device, 200).expect("a port");
    assert_eq!(port.rx_burst(), RX_BURST);
    assert_eq!(port.rx_frame(RX_BURST - 1).len(), 200);
    port.rx_release();
    assert_eq!(port.stats().rx_bytes, 200 * RX_BURST as u64);
}

#[test]
#[should_panic(expected = "no slot is lent")]
fn a_commit_without_a_slot_panics() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let mut port = DpdkPort::open(eal, Device::virtual_device("net_null", ""), 200).expect("a port");
    port.tx_commit(10);
}

#[test]
#[should_panic(expected = "a frame of 201 bytes on a port for 200")]
fn a_commit_beyond_the_slot_panics() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let mut port = DpdkPort::open(eal, Device::virtual_device("net_null", ""), 200).expect("a port");
    port.tx_slot().expect("a slot");
    port.tx_commit(201);
}
#[test]
fn a_client_finds_a_server_that_comes_later_and_one_that_comes_back() {
    let dir = Scratch::new();
    let mut client = open(dir.path(), MemifRole::Client);
    for _ in 0..10 {
        assert_eq!(client.rx_burst(), 0);
        assert!(!client.link_up());
    }
    let mut pair = None;
    for _ in 0..2 {
        drop(pair.take());
        let mut server = open(dir.path(), MemifRole::Server);
        connect(&mut server, &mut client);
        assert!(queue(&mut client, 300));
        assert_eq!(deliver(&mut client, &mut server)[0].len(), 300);
        pair = Some(server);
    }
}

fn lending(dir: &Path, role: memif::Role) -> MemifPort {
    MemifPort::open(&lending_config(dir, role), [2, 0, 0, 0, 0, 9]).expect("a port")
}

fn lending_config(dir: &Path, role: memif::Role) -> memif::Config {
    memif::Config {
        path: dir.join("s"),
        role,
        max_frame: dpdk_sys::MEMIF_MAX_FRAME,
        ring_size_log2: 4,
        secret: None,
    }
}

/// The driver's ends and those that lend their buffers are of one protocol, whichever is which.
/// More frames pass than a ring has slots.
#[test]
fn either_end_may_lend_its_buffers() {
    let lengths = (14..=4608).step_by(101).chain([4608]);
    let server = |dir: &Path| open(dir, MemifRole::Server);
    let mut pair = test_pair::Pair::connected(server, |dir| lending(dir, memif::Role::Client));
    pair.pass_both_ways(lengths.clone());
    drop(pair);
    let client = |dir: &Path| open(dir, MemifRole::Client);
    let mut pair = test_pair::Pair::connected(|dir| lending(dir, memif::Role::Server), client);
    pair.pass_both_ways(lengths);
    // One goes, and the other notices.
    let test_pair::Pair { server: mut lending, client, .. } = pair;
    drop(client);
    within("link down", || {
        lending.rx_burst();
        !lending.link_up()
    });
}

/// The driver's client gives its buffers when it first receives.
#[test]
fn nothing_waits_where_the_client_has_given_no_buffers_yet() {
    let dir = Scratch::new();
    let mut server = lending(dir.path(), memif::Role::Server);
    let mut client = open(dir.path(), MemifRole::Client);
    within("a link", || {
        client.tend_link();
        server.rx_burst();
        server.link_up()
    });
    assert!(!queue(&mut server, 100), "there are no buffers");
    assert_eq!(server.tx_waiting(), Some(0));
    connect(&mut server, &mut client);
    client.rx_burst();
    assert!(queue(&mut server, 100));
    server.tx_flush();
    assert_eq!(server.tx_waiting(), Some(1));
}
