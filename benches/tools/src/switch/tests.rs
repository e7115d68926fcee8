//! The switch between segments inside the process.

use super::*;
use datapath::port::fault::Fault;
use datapath::port::sim::{Segment, SimPort};
use datapath::port::{PortCaps, RxFrame};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Device, EngineConfig, MemoryRegion, ProtectionDomain, QueuePair, SendData,
    SendRequest, WcStatus,
};

const MAX_FRAME: usize = 4608;
/// An IPv4 packet of a sender that understands ECN, behind its Ethernet header.
const ECT: u8 = 0b10;

const fn mac(host: u8) -> Mac {
    [2, 0, 0, 0, 0, host]
}

/// Hosts 1 to `count`, each on a segment of its own with one port of the switch.
fn network(queues: &[QueueConfig]) -> (Vec<SimPort>, Switch) {
    let mut switch = Switch::default();
    let hosts = (1..).zip(queues).map(|(host, queue)| {
        let segment = Arc::new(Segment::new(MAX_FRAME));
        let port = segment.attach_promiscuous(Some([6, 0, 0, 0, 0, host])).expect("the switch's end");
        switch.attach(Box::new(port), *queue);
        segment.attach(Some(mac(host))).expect("the host's end")
    });
    (hosts.collect(), switch)
}

fn frame(from: Mac, to: Mac, mark: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    // IPv4, 46 bytes, ECN-capable, with a right checksum.
    frame[12..17].copy_from_slice(&[8, 0, 0x45, ECT, 0]);
    frame[17] = 46;
    frame[59] = mark;
    frame
}

fn send(host: &mut SimPort, frame: &[u8]) {
    host.tx_slot().expect("a slot")[..frame.len()].copy_from_slice(frame);
    host.tx_commit(frame.len());
    host.tx_flush();
}

/// The last byte of all that waits, and how many were marked CE.
fn receive(host: &mut SimPort) -> (Vec<u8>, usize) {
    let (mut last, mut marked) = (Vec::new(), 0);
    loop {
        let count = host.rx_burst();
        for index in 0..count {
            let frame = host.rx_frame(index).bytes();
            last.push(frame[59]);
            marked += usize::from(frame[15] & 3 == 3);
        }
        host.rx_release();
        if count == 0 {
            return (last, marked);
        }
    }
}

fn stats(switch: &Switch, port: usize) -> LaneStats {
    switch.lanes().nth(port).expect("there is one").1
}

#[test]
fn it_floods_until_it_has_learned() {
    let (mut hosts, mut switch) = network(&[QueueConfig::default(); 3]);
    send(&mut hosts[0], &frame(mac(1), mac(2), 1));
    assert_eq!(switch.turn(Time(0)).received, 1);
    // Host 3 has another address: the segment's last port took it in for the switch only.
    assert_eq!(receive(&mut hosts[1]).0, [1]);
    assert_eq!(stats(&switch, 0).flooded, 1);
    assert_eq!(stats(&switch, 2).egress.frames, 1);
    send(&mut hosts[1], &frame(mac(2), mac(1), 2));
    switch.turn(Time(1));
    assert_eq!(receive(&mut hosts[0]).0, [2]);
    assert_eq!(stats(&switch, 2).egress.frames, 1, "host 1 was known");
    send(&mut hosts[0], &frame(mac(1), mac(2), 3));
    switch.turn(Time(2));
    assert_eq!(receive(&mut hosts[1]).0, [3]);
    assert_eq!(stats(&switch, 2).egress.frames, 1, "host 2 was known");
}

#[test]
fn a_broadcast_reaches_all_others() {
    let (mut hosts, mut switch) = network(&[QueueConfig::default(); 4]);
    send(&mut hosts[3], &frame(mac(4), [0xFF; 6], 9));
    switch.turn(Time(0));
    for host in &mut hosts[..3] {
        assert_eq!(receive(host).0, [9]);
    }
    assert!(receive(&mut hosts[3]).0.is_empty());
}

#[test]
fn what_must_not_pass_does_not() {
    let (mut hosts, mut switch) = network(&[QueueConfig::default(); 2]);
    send(&mut hosts[0], &frame([3, 0, 0, 0, 0, 1], [0xFF; 6], 1));
    send(&mut hosts[0], &frame(mac(1), [1, 0x80, 0xC2, 0, 0, 0], 1));
    send(&mut hosts[0], &frame(mac(1), [0xFF; 6], 1)[..13]);
    switch.turn(Time(0));
    // Host 5 was last seen at the port that a frame for it comes from.
    send(&mut hosts[0], &frame(mac(5), mac(2), 2));
    send(&mut hosts[0], &frame(mac(1), mac(5), 3));
    switch.turn(Time(1));
    assert_eq!(receive(&mut hosts[1]).0, [2]);
    assert_eq!(stats(&switch, 0).filtered, 4);
}

#[test]
fn a_slow_port_queues_marks_and_drops_at_its_tail() {
    // 60 bytes and the wire's overhead at 10 Mb/s: 67.2 us a frame.
    let slow = QueueConfig { frames: 4, mark: Some(2), rate_mbps: Some(10) };
    let (mut hosts, mut switch) = network(&[QueueConfig::default(), slow]);
    for number in 0..10 {
        send(&mut hosts[0], &frame(mac(1), mac(2), number));
    }
    let begin = 1_000_000;
    let turn = switch.turn(Time(begin));
    let egress = stats(&switch, 1).egress;
    assert_eq!((egress.frames, egress.dropped, egress.queued_max, egress.marked), (1, 5, 4, 2));
    // The wire had been idle, so the first frame's time began earlier.
    assert_eq!(turn.next_due, Some(Time(begin - 50_000 + 67_200)));
    assert_eq!(receive(&mut hosts[1]), (vec![0], 0));
    switch.turn(Time(begin + 17_199));
    assert!(receive(&mut hosts[1]).0.is_empty());
    switch.turn(Time(begin + 17_200));
    assert_eq!(receive(&mut hosts[1]), (vec![1], 0));
    for step in 1..=4 {
        switch.turn(Time(begin + 17_200 + step * 67_200));
    }
    assert_eq!(receive(&mut hosts[1]), (vec![2, 3, 4], 2));
    assert_eq!(switch.turn(Time(begin + 1_000_000)).next_due, None);
}

#[test]
fn a_rate_does_not_depend_on_how_often_the_switch_looks() {
    for step in [1_000, 30_000, 300_000] {
        let slow = QueueConfig { frames: 1000, mark: None, rate_mbps: Some(100) };
        let (mut hosts, mut switch) = network(&[QueueConfig::default(), slow]);
        for _ in 0..500 {
            send(&mut hosts[0], &frame(mac(1), mac(2), 0));
        }
        let mut now = 1_000_000;
        // A turn takes a burst: all come in at the first look.
        while switch.turn(Time(now)).received > 0 {}
        while now < 2_000_000 {
            switch.turn(Time(now));
            now += step;
        }
        switch.turn(Time(2_000_000));
        // 1.05 ms with the head start, 6.72 us a frame.
        let frames = stats(&switch, 1).egress.frames;
        assert!((148..=158).contains(&frames), "{frames} frames, looking every {step} ns");
    }
}

/// A host whose ring was full has no claim to the time of the wire that it did not take.
#[test]
fn a_host_that_took_nothing_for_long_is_not_flooded() {
    let segment = Arc::new(Segment::new(200));
    let mut port = segment.attach(Some(mac(1))).expect("a port");
    let config = QueueConfig { frames: 10_000, mark: None, rate_mbps: Some(100) };
    let mut egress = Egress::new(config);
    let frame = frame(mac(2), mac(1), 0);
    let mut now = 1_000_000;
    // Nobody flushes, so the port takes a batch. Of the others 2 ms are in the queue then.
    for _ in 0..1000 {
        egress.drain(&mut port, Time(now));
        egress.offer(&mut port, &frame, Time(now));
        now += 2_000;
    }
    let before = egress.stats().frames;
    assert!(before <= 256, "{before} frames are no batch");
    port.tx_flush();
    egress.drain(&mut port, Time(now));
    // 50 us, 6.72 us a frame.
    let burst = egress.stats().frames - before;
    assert!((7..=9).contains(&burst), "{burst} frames at once");
}

#[test]
fn a_frame_that_the_next_wire_cannot_carry_is_lost() {
    let mut switch = Switch::default();
    let (long, short) = (Arc::new(Segment::new(200)), Arc::new(Segment::new(100)));
    for segment in [&long, &short] {
        switch.attach(Box::new(segment.attach_promiscuous(None).expect("a port")), QueueConfig::default());
    }
    let mut host = long.attach(Some(mac(7))).expect("a port");
    let mut frame = frame(mac(7), mac(8), 0);
    frame.resize(101, 0);
    send(&mut host, &frame);
    switch.turn(Time(0));
    assert_eq!(stats(&switch, 1).egress, EgressStats { too_long: 1, ..EgressStats::default() });
    assert_eq!(Row { port: String::new(), link_down: None, stats: stats(&switch, 1) }.lost(), 1);
}

/// A host of the network with an engine, whose neighbours on a ring write to it and are written to.
struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    source: MemoryRegion,
    target: MemoryRegion,
}

/// Bytes that each writes to the next.
const LEN: usize = 1 << 19;

fn host(port: SimPort, number: u8) -> Host {
    let config = EngineConfig {
        ip: [10, 77, 0, number].into(),
        seed: u64::from(number).into(),
        ..EngineConfig::default()
    };
    let device = Device::from_port(port, config).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
    let register = || pd.register(LEN, Access::LOCAL_WRITE | Access::REMOTE_WRITE).expect("memory");
    let (source, target) = (register(), register());
    let bytes: Vec<u8> = (0..LEN).map(|i| ((i * 31) >> 3).to_le_bytes()[0] ^ number).collect();
    source.write(0, &bytes).expect("inside");
    Host { device, pd, cq, source, target }
}

/// A queue pair from one host to another; the other's end comes second.
fn connect(from: &Host, to: &Host) -> (QueuePair, QueuePair) {
    let build = |host: &Host| host.pd.queue_pair(&host.cq, &host.cq).timeout(18).build().expect("built");
    let (ours, theirs) = (build(from), build(to));
    let (endpoint, remote) = (ours.endpoint(), theirs.endpoint());
    (ours.connect(&remote).expect("connected"), theirs.connect(&endpoint).expect("connected"))
}

#[test]
fn three_engines_write_in_a_ring_through_faults() {
    let mut switch = Switch::default();
    let faults = "loss=2%,dup=1%,reorder=1%,seed=5".parse().expect("faults");
    let mut hosts: Vec<Host> = (1..=3)
        .map(|number| {
            let segment = Arc::new(Segment::new(MAX_FRAME));
            let port = segment.attach_promiscuous(Some([6, 0, 0, 0, 0, number])).expect("a port");
            switch.attach(Box::new(Fault::new(port, &faults)), QueueConfig::default());
            host(segment.attach(Some(mac(number))).expect("a port"), number)
        })
        .collect();
    let mut pairs: Vec<_> = (0..3).map(|from| connect(&hosts[from], &hosts[(from + 1) % 3])).collect();
    for from in 0..3 {
        let (source, target) =
            ([hosts[from].source.slice(..).expect("whole")], &hosts[(from + 1) % 3].target);
        let write = SendRequest::write(SendData::Gather(&source), target.remote().at(0)).signaled();
        pairs[from].0.post_send(&write).expect("posted");
    }
    let (start, mut done) = (Instant::now(), 0);
    while done < 3 {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        switch.turn(Time(u64::try_from(start.elapsed().as_nanos()).expect("short")));
        for host in &mut hosts {
            if let Some(completion) = host.cq.poll() {
                assert_eq!(completion.status, WcStatus::Success);
                done += 1;
            }
        }
    }
    for from in 0..3 {
        let (mut sent, mut received) = (vec![0; LEN], vec![0; LEN]);
        hosts[from].source.read(0, &mut sent).expect("inside");
        hosts[(from + 1) % 3].target.read(0, &mut received).expect("inside");
        assert!(sent == received, "what host {} wrote", from + 1);
    }
    let resent: u64 = hosts.iter().map(|host| host.device.counters().tx_retransmits).sum();
    assert!(resent > 0, "the faults did nothing");
}

/// A port that counts its turns and whose link a test switches on.
struct Counted {
    bursts: Arc<AtomicU64>,
    up: Arc<AtomicBool>,
}

impl Port for Counted {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: [0; 6], max_frame: MAX_FRAME }
    }

    fn link_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    fn rx_burst(&mut self) -> usize {
        self.bursts.fetch_add(1, Ordering::Relaxed);
        0
    }

    fn rx_frame(&self, _index: usize) -> RxFrame<'_> {
        unreachable!("none came")
    }

    fn rx_release(&mut self) {}

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn tx_commit(&mut self, _len: usize) {}

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {}

    fn stats(&self) -> PortStats {
        PortStats::default()
    }
}

#[test]
fn ports_without_a_link_have_a_turn_a_millisecond_and_others_all() {
    let mut switch = Switch::default();
    let (bursts, up) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let port = Counted { bursts: Arc::clone(&bursts), up: Arc::clone(&up) };
    switch.attach(Box::new(port), QueueConfig::default());
    // A turn takes a microsecond.
    let mut turns = |from: u64, to: u64| {
        let before = bursts.load(Ordering::Relaxed);
        (from..to).for_each(|at| _ = switch.turn(Time(at * 1000)));
        bursts.load(Ordering::Relaxed) - before
    };
    assert_eq!(turns(0, 10_000), 10);
    up.store(true, Ordering::Relaxed);
    assert_eq!(turns(10_000, 20_000), 10_000, "from the first look on");
    up.store(false, Ordering::Relaxed);
    assert_eq!(turns(20_000, 30_000), 10, "its link is gone at the first look");
}
