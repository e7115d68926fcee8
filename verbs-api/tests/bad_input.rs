//! Bad input, case by case: each ends in an error that says what to do, or in a drop that is
//! counted; nothing is written where it was not granted.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/arena.rs"]
mod arena;
#[path = "support/host.rs"]
mod host;
#[path = "support/segment.rs"]
mod segment;

use arena::{Arena, Part};
use datapath::port::sim::{Segment, SimPort};
use host::wait::PATIENCE;
use host::{Host, REMOTE, complete};
use segment::hosts;
use std::sync::Arc;
use std::time::Instant;
use verbs_api::{
    Access, CongestionAlgorithm, Counters, Device, Driver, EngineConfig, Port, PostError, QpState, QueueCaps,
    QueuePair, RecvRequest, RemoteAddr, SendData, SendRequest, Sge, WcStatus,
};

/// Queue pairs that give up late. The first sends to `to`, if that is not the second's port.
fn connect_by([one, two]: &[Host; 2], to: Option<[u8; 6]>) -> [QueuePair; 2] {
    let [a, b] = [one, two].map(|host| {
        let pair = host.pd.queue_pair(&host.cq, &host.cq).congestion(CongestionAlgorithm::Fixed);
        pair.timeout(20).build().expect("a queue pair")
    });
    let (to_a, mut to_b) = (a.endpoint(), b.endpoint());
    to_b.mac = to.or(to_b.mac);
    [a.connect(&to_b).expect("connected"), b.connect(&to_a).expect("connected")]
}

fn connect(hosts: &[Host; 2]) -> [QueuePair; 2] {
    connect_by(hosts, None)
}

/// Frames and packets that the engine dropped, for whatever reason.
fn dropped(device: &Device) -> u64 {
    let counters: Counters = device.counters();
    counters.iter().filter(|(name, _)| name.starts_with("drop_")).map(|(_, count)| count).sum()
}

#[track_caller]
fn refused<T, E: std::fmt::Display>(result: Result<T, E>, reason: &str) {
    let error = result.err().expect("refused").to_string();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_device_string_that_makes_no_sense_says_what_would() {
    for (device, reason) in [
        ("", "device `` has no scheme; give one such as memif:/run/srnic.sock,role=server"),
        ("infiniband:mlx5_0", "unknown device scheme `infiniband`; supported: memif, vhost"),
        ("sim:", "sim: names no segment; give it, as in"),
        ("sim:bad-input,role=server", "unknown device key `role`; keys are"),
        ("sim:bad-input,mtu=10", "mtu=10"),
        ("fault:loss=1%", "`fault:` must be followed by its faults, a colon and a device"),
        ("memif:/tmp/srnic-bad-input.sock", "does not say which end it is; add role=server or role=client"),
    ] {
        refused(Device::open(device), reason);
    }
}

#[cfg(feature = "dpdk")]
#[test]
fn a_socket_in_use_is_named_and_stays_its_owners() {
    use std::os::unix::net::{UnixListener, UnixStream};
    let socket = std::env::temp_dir().join(format!("srnic-in-use-{}.sock", std::process::id()));
    let owner = UnixListener::bind(&socket).expect("a fresh path");
    for device in [format!("memif:{},role=server", socket.display()), format!("vhost:{}", socket.display())] {
        refused(
            Device::open(&(device + ",hugepages=off")),
            "another server is listening on it; use another path",
        );
    }
    let client = UnixStream::connect(&socket).expect("its owner still listens");
    owner.accept().expect("the client");
    drop(client);
    std::fs::remove_file(&socket).expect("it is still there");
}

#[test]
fn a_size_beyond_its_limit_is_named_with_the_limit() {
    let builder = Device::builder();
    refused(
        builder.max_qps(1 << 21).open("sim:sizes"),
        "max_qps is 2097152; it must be between 1 and 1048576",
    );
    refused(builder.max_mrs(0).open("sim:sizes"), "max_mrs is 0; it must be between 1 and 16777216");
    let host = Host::new(builder.max_qps(1).max_mrs(1).open("sim:sizes").expect("a device"));
    refused(host.device.create_cq(1 << 23), "entries is 8388608; it must be between 1 and 4194304");

    let caps = QueueCaps::default();
    let pair = |caps| host.pd.queue_pair(&host.cq, &host.cq).caps(caps);
    let beyond = QueueCaps::WR_LIMIT + 1;
    refused(
        pair(QueueCaps { max_send_wr: beyond, ..caps }).build(),
        "max_send_wr is 32768; it must be between 1",
    );
    refused(pair(QueueCaps { max_recv_wr: 0, ..caps }).build(), "max_recv_wr is 0; it must be between 1");
    refused(pair(QueueCaps { max_send_sge: 99, ..caps }).build(), "max_send_sge is 99; it must be between 1");
    refused(
        pair(caps).window(1 << 14).build(),
        "window is 16384; it must be between 1 and 512; DeviceBuilder::window_max allows larger ones",
    );
    refused(pair(caps).timeout(32).build(), "TIMEOUT is 32; allowed are 0 to 31");
    refused(pair(caps).dscp(64).build(), "dscp of the address vector is 64; allowed are 0 to 63");
    refused(pair(caps).hop_limit(0).build(), "hop_limit of the address vector is 0; allowed are 1 to 255");
    refused(
        pair(caps).flow_label(1 << 20).build(),
        "flow_label of the address vector is 1048576; allowed are 0",
    );
    let _only = pair(caps).build().expect("room for one");
    refused(
        pair(caps).build(),
        "all 1 queue pairs of the device are in use; destroy some or open the device with more",
    );

    let region = host.region(64);
    refused(
        host.pd.register(64, REMOTE),
        "all 1 memory regions of the device are in use; raise max_mrs or deregister",
    );
    refused(host.pd.register(64, Access::REMOTE_WRITE), "needs LOCAL_WRITE as well");
    for len in [1 << 62, usize::MAX / 2, usize::MAX] {
        refused(host.pd.register(len, REMOTE), &format!("the system gives no {len} bytes"));
    }
    refused(region.slice(60..65), "bytes 60..65 are not inside a region of 64 bytes");
    refused(region.write(64, b"x"), "bytes 64..65 are not inside a region of 64 bytes");
}

#[test]
fn a_work_request_beyond_its_limit_is_named_with_the_limit() {
    let hosts = hosts(Driver::Inline, "requests");
    let [mut a, mut b] = connect(&hosts);
    let sge = hosts[0].region(64).slice(..).expect("inside");
    let many = [sge; 33];
    refused(
        b.post_recv(&RecvRequest { wr_id: 0, scatter: &many }),
        "33 scatter-gather elements; the queue was created for",
    );
    refused(
        a.post_send(&SendRequest::send(SendData::Gather(&many))),
        "33 scatter-gather elements; the queue was created for",
    );
    refused(
        a.post_send(&SendRequest::send(SendData::Inline(&[0; 4096]))),
        "4096 bytes of inline data; the queue pair was created for 32",
    );
    let huge = [Sge { length: u32::MAX, ..sge }];
    refused(
        a.post_send(&SendRequest::send(SendData::Gather(&huge))),
        "a message of 4294967295 bytes; at most 2^31 can be sent or received at once: split it",
    );
    assert_eq!(a.outstanding(), 0, "nothing of it was posted");
    let nothing = SendRequest::send(SendData::Inline(&[]));
    let full = (0..=QueueCaps::default().max_send_wr)
        .find_map(|_| a.post_send(&nothing).err())
        .expect("a full queue");
    assert!(matches!(full, verbs_api::Error::Post(PostError::QueueFull { .. })), "{full}");
    assert!(full.to_string().contains("poll"), "{full}");
}

/// A port of the segment that sends what it likes.
struct Raw(SimPort);

impl Raw {
    fn receive(&mut self) -> Option<Vec<u8>> {
        let frame = (self.0.rx_burst() > 0).then(|| self.0.rx_frame(0).bytes().to_vec());
        self.0.rx_release();
        frame
    }

    /// Sends a frame, which `to` takes in.
    fn send(&mut self, frame: &[u8], to: &Device) {
        let before = to.port_stats().rx_frames;
        self.0.tx_slot().expect("room")[..frame.len()].copy_from_slice(frame);
        self.0.tx_commit(frame.len());
        self.0.tx_flush();
        to.progress();
        assert_eq!(to.port_stats().rx_frames, before + 1);
    }
}

/// What a link may change without anybody noticing: TOS, TTL and both checksums, which the ICRC
/// leaves out, and the byte of the BTH that carries FECN and BECN.
const MUTABLE: [usize; 7] = [15, 22, 24, 25, 40, 41, 46];

/// A genuine WRITE goes astray to a port that mutilates it: cut at every length, each byte changed,
/// or all of them.
#[test]
fn a_malformed_packet_is_dropped_and_counted_and_changes_nothing() {
    let segment = Arc::new(Segment::new(1200));
    let mut hosts = [1, 2].map(|host: u8| {
        let config = EngineConfig {
            ip: [10, 77, 0, host].into(),
            seed: u64::from(host).into(),
            ..EngineConfig::default()
        };
        Host::new(Device::from_port(segment.attach(None).expect("room"), config).expect("a device"))
    });
    let mut raw = Raw(segment.attach(None).expect("room"));
    let [mut a, _b] = connect_by(&hosts, Some(raw.0.caps().mac));
    let target = hosts[1].region(64);
    let write = SendRequest::write(SendData::Inline(&[0xA5; 32]), target.remote().at(0));
    a.post_send(&write.id(1).signaled()).expect("posted");
    let mut frame = raw.receive().expect("a WRITE");
    let victim = hosts[1].device.clone();
    frame[..6].copy_from_slice(&victim.mac());

    let cut = (6..frame.len()).map(|len| frame[..len].to_vec());
    let changed = (12..frame.len()).filter(|at| !MUTABLE.contains(at)).map(|at| {
        let mut changed = frame.clone();
        changed[at] ^= 1 << (at % 8);
        changed
    });
    let mut state = 1_u64;
    let noise = (0..1000).map(|_| {
        let mut noise = frame.clone();
        for byte in &mut noise[12..] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = state.to_be_bytes()[0];
        }
        noise
    });
    for malformed in cut.chain(changed).chain(noise) {
        let before = dropped(&victim);
        raw.send(&malformed, &victim);
        assert_eq!(dropped(&victim), before + 1, "{malformed:02x?}");
    }
    let mut bytes = [0; 64];
    target.read(0, &mut bytes).expect("inside");
    assert_eq!(bytes, [0; 64]);

    // Nothing of it has harmed the connection.
    let before = dropped(&victim);
    raw.send(&frame, &victim);
    let [one, two] = &mut hosts;
    assert_eq!(complete(one, two).status, WcStatus::Success);
    target.read(0, &mut bytes).expect("inside");
    assert_eq!((&bytes[..32], dropped(&victim)), (&[0xA5; 32][..], before));
}

with_all_drivers! {

/// The last handle goes while the peer is writing: the peer is refused, and from then on not a byte
/// changes.
fn a_target_that_is_dropped_in_the_middle_is_written_no_more(driver: Driver) {
    const LEN: usize = 8 << 20;
    let mut hosts = hosts(driver, "target");
    let [mut a, _b] = connect(&hosts);
    let source = hosts[0].region(LEN);
    source.write(0, &vec![0xA5; LEN]).expect("inside");
    let arena = Arena::new(LEN);
    let target = hosts[1].pd.register_backing(Arc::new(Part::of(&arena, 0..LEN)), REMOTE).expect("memory");
    let gather = [source.slice(..).expect("inside")];
    let write = SendRequest::write(SendData::Gather(&gather), target.remote().at(0));
    // So many that they do not end before the drop, whoever is paused in between.
    for wr_id in 0..60 {
        a.post_send(&write.id(wr_id)).expect("posted");
    }
    let deadline = Instant::now() + PATIENCE;
    while hosts[1].device.counters().rx_in_order < 16 {
        for host in &hosts {
            host.device.progress();
        }
        assert!(Instant::now() < deadline, "no packet within a minute");
    }
    drop(target);
    let then = arena.bytes();
    assert!(then.contains(&0xA5), "it had begun");
    let [one, two] = &mut hosts;
    let failed = complete(one, two);
    assert_eq!((failed.status, a.state()), (WcStatus::RemAccessErr, QpState::Err));
    assert!(arena.bytes() == then, "it was written after its deregistration");
    assert_eq!(Arc::strong_count(&arena), 1, "the engine keeps nothing of it");
}

/// The memory of requests that are under way goes: of a SEND, and of the receive that waits for
/// one.
fn a_buffer_that_is_dropped_under_a_request_is_a_local_error(driver: Driver) {
    let mut hosts = hosts(driver, "buffers");
    let [mut a, mut b] = connect(&hosts);
    let buffer = hosts[1].region(64);
    let scatter = [buffer.slice(..).expect("inside")];
    b.post_recv(&RecvRequest { wr_id: 7, scatter: &scatter }).expect("posted");
    drop(buffer);
    a.post_send(&SendRequest::send(SendData::Inline(b"hello")).id(8)).expect("posted");
    let [one, two] = &mut hosts;
    let received = complete(two, one);
    assert_eq!((received.wr_id, received.status), (7, WcStatus::LocProtErr));
    let sent = complete(one, two);
    assert_eq!((sent.wr_id, sent.status), (8, WcStatus::RemOpErr));

    let [mut a, mut b] = connect(&hosts);
    b.post_recv(&RecvRequest { wr_id: 9, scatter: &[] }).expect("posted");
    let buffer = hosts[0].region(64);
    let gather = [buffer.slice(..).expect("inside")];
    drop(buffer);
    a.post_send(&SendRequest::send(SendData::Gather(&gather)).id(10)).expect("keys are checked by the engine");
    let [one, two] = &mut hosts;
    let sent = complete(one, two);
    assert_eq!((sent.wr_id, sent.status), (10, WcStatus::LocProtErr));
    assert_eq!(two.cq.poll(), None, "the peer saw nothing of it");
}

/// A region in the middle of an arena: whatever a peer names outside of it, no byte of the arena
/// changes.
fn an_address_outside_the_region_is_refused_and_nothing_is_written(driver: Driver) {
    const GUARD: u64 = 4096;
    const LEN: u64 = 8192;
    let mut hosts = hosts(driver, "outside");
    let arena = Arena::new(usize::try_from(LEN + 2 * GUARD).expect("small"));
    let middle = usize::try_from(GUARD).expect("small")..usize::try_from(GUARD + LEN).expect("small");
    let region = |access| hosts[1].pd.register_backing(Arc::new(Part::of(&arena, middle.clone())), access).expect("memory");
    let (target, read_only) = (region(REMOTE), region(Access::LOCAL_WRITE));
    let there = target.remote();
    let RemoteAddr { addr, rkey } = there.at(0);
    let source = hosts[0].region(usize::try_from(2 * LEN).expect("small"));
    source.write(0, &[0xA5; 8192]).expect("inside");
    let cases = [
        (there.at(LEN - 31), 32, "one byte behind it"),
        (there.at(LEN), 1, "behind it"),
        (there.at(0_u64.wrapping_sub(1)), 32, "one byte before it"),
        (there.at(0_u64.wrapping_sub(GUARD)), 8, "in the guard"),
        (there.at(0), LEN + 1, "its second packet's neighbor, at last"),
        (there.at(4096), 2 * LEN, "far behind it"),
        (RemoteAddr { addr: u64::MAX - 3, rkey }, 8, "around the end of the address space"),
        (RemoteAddr { addr: 0, rkey }, 8, "at zero"),
        (RemoteAddr { addr, rkey: rkey ^ 1 }, 8, "a key of another life"),
        (RemoteAddr { addr, rkey: 0 }, 8, "no key"),
        (read_only.remote().at(0), 8, "a region that peers may not write"),
    ];
    for (to, len, what) in cases {
        let [mut a, b] = connect(&hosts);
        let gather = [Sge { length: u32::try_from(len).expect("small"), ..source.slice(..).expect("inside") }];
        a.post_send(&SendRequest::write(SendData::Gather(&gather), to).id(1)).expect("posted");
        let [one, two] = &mut hosts;
        let failed = complete(one, two);
        assert_eq!((failed.wr_id, failed.status), (1, WcStatus::RemAccessErr), "{what}");
        assert_eq!((a.state(), b.state()), (QpState::Err, QpState::Err), "{what}");
        let bytes = arena.bytes();
        let (guards, inside) = (arena.outside(&middle), &bytes[middle.clone()]);
        assert!(guards.iter().all(|byte| *byte == 0), "{what}: a guard was written");
        // The start of a message that leaves the region later was granted.
        assert!(len > LEN || inside.iter().all(|byte| *byte == 0), "{what}: it was written");
        if len > LEN {
            target.write(0, &[0; 8192]).expect("inside");
        }
    }
}

}
