//! What a device tells of its queue pairs: each reason for which one does not send more.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, CongestionAlgorithm, Device, Driver, MemoryRegion, QpLimit, QpReport, QpState,
    QueuePair, QueuePairBuilder, RecvRequest, SendData, SendRequest, StatAddress,
};

/// One end of a connection.
struct End {
    device: Device,
    cq: CompletionQueue,
    memory: MemoryRegion,
    pair: QueuePair,
}

/// Two ends, of which `faults` goes before the first one's device; `build` says how both queue
/// pairs are made.
fn ends(name: &str, faults: &str, build: impl Fn(QueuePairBuilder) -> QueuePairBuilder) -> [End; 2] {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let [one, two] = [format!("{faults}sim:{name}"), format!("sim:{name}")].map(|text| {
        let device = Device::open(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (pd, cq) = (device.alloc_pd(), device.create_cq(1024).expect("a queue"));
        let memory = pd.register(1 << 20, access).expect("memory");
        let prepared =
            build(pd.queue_pair(&cq, &cq).access(access).timeout(18)).build().expect("a queue pair");
        (device, cq, memory, prepared)
    });
    let (to_one, to_two) = (one.3.endpoint(), two.3.endpoint());
    let end = |(device, cq, memory, prepared): (_, _, _, verbs_api::PreparedQueuePair), peer| End {
        device,
        cq,
        memory,
        pair: prepared.connect(peer).expect("connected"),
    };
    [end(one, &to_two), end(two, &to_one)]
}

impl End {
    fn report(&self) -> QpReport {
        let [report] = self.device.reports()[..] else { panic!("one queue pair") };
        report
    }

    /// Looks until it is limited by `limit`, and runs the devices meanwhile.
    #[track_caller]
    fn wait_for(&self, limit: QpLimit, others: &[&Self]) -> QpReport {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut seen = Vec::new();
        loop {
            let report = self.report();
            if report.limit == limit {
                return report;
            }
            seen.push(report.limit);
            seen.dedup();
            assert!(Instant::now() < deadline, "never {limit}: {seen:?}");
            self.device.progress();
            for other in others {
                other.device.progress();
            }
        }
    }

    fn write(&mut self, other: &Self, len: usize, count: usize) {
        let source = [self.memory.slice(..len).expect("inside")];
        for _ in 0..count {
            let write = SendRequest::write(SendData::Gather(&source), other.memory.remote().at(0));
            self.pair.post_send(&write.signaled()).expect("posted");
        }
    }
}

#[test]
fn a_queue_pair_with_nothing_to_do_says_so() {
    let [mut one, two] = ends("stat-idle", "", |pair| pair);
    let report = one.report();
    assert_eq!((report.limit, report.requests, report.state), (QpLimit::NothingToSend, 0, QpState::Rts));
    assert_eq!((report.peer, report.dest_qpn), (two.device.ip(), two.pair.qpn()));
    one.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[] }).expect("posted");
    assert_eq!(one.report().receives, Some(1));
    one.write(&two, 64, 1);
    one.wait_for(QpLimit::NothingToSend, &[&two]);
    assert_eq!(one.report().requests, 0);
}

#[test]
fn no_receive_at_the_peer_is_named() {
    let [mut one, mut two] = ends("stat-rnr", "", |pair| pair);
    one.pair.post_send(&SendRequest::send(SendData::Inline(b"anybody there?")).signaled()).expect("posted");
    let report = one.wait_for(QpLimit::NoReceive, &[&two]);
    assert_eq!(report.requests, 1);
    assert_eq!(two.report().receives, Some(0));
    let scatter = [two.memory.slice(..64).expect("inside")];
    two.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter }).expect("posted");
    one.wait_for(QpLimit::NothingToSend, &[&two]);
}

#[test]
fn a_peer_that_says_nothing_is_named_within_a_second() {
    let [mut one, two] = ends("stat-silent", "", |pair| pair);
    one.write(&two, 64, 1);
    let report = one.wait_for(QpLimit::PeerSilent, &[]);
    // By the engine's own clock, so this does not depend on who else runs here but by more than
    // half a second.
    assert!(report.silent_ns >= 200_000_000, "{report:?}");
    assert_eq!((report.outstanding, report.requests), (1, 1));
    one.wait_for(QpLimit::NothingToSend, &[&two]);
}

#[test]
fn losses_that_are_repaired_are_named() {
    // The second packet is lost each time that it is sent.
    let [mut one, two] = ends("stat-lost", "fault:drop=data@2/resend@1-,dir=tx:", |pair| pair);
    one.write(&two, 1 << 16, 1);
    let report = one.wait_for(QpLimit::Recovery, &[&two]);
    assert!(report.repairing_tx && report.outstanding > 0, "{report:?}");
    assert!(two.report().repairing_rx);
    assert!(report.counters.rx_nacks > 0 && two.report().counters.rx_out_of_order > 0, "{report:?}");
}

/// Of two queue pairs, only the one that it happened to.
#[test]
fn a_queue_pair_counts_what_happens_to_it_and_errors_are_told_by_kind() {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let [here, there] = [1, 2].map(|host| {
        let text =
            format!("sim:stat-counts,ip=10.77.0.{host},stat={}", path(&format!("counts{host}")).display());
        let device = Device::open(&text).expect("a device");
        let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
        let memory = pd.register(4096, access).expect("memory");
        (device, pd, cq, memory)
    });
    let build = |(_, pd, cq, _): &(_, verbs_api::ProtectionDomain, CompletionQueue, _)| {
        [(); 2].map(|()| pd.queue_pair(cq, cq).access(access).timeout(18).build().expect("a queue pair"))
    };
    let (ours, theirs) = (build(&here), build(&there));
    let ends = [0, 1].map(|at| (ours[at].endpoint(), theirs[at].endpoint()));
    let mut ours = ours.into_iter().zip(&ends).map(|(pair, (_, to))| pair.connect(to).expect("connected"));
    let theirs: Vec<_> =
        theirs.into_iter().zip(&ends).map(|(pair, (to, _))| pair.connect(to).expect("connected")).collect();
    let (mut one, other) = (ours.next().expect("two"), ours.next().expect("two"));
    drop(ours);
    let run_until = |done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            here.0.progress();
            there.0.progress();
            assert!(Instant::now() < deadline, "{:?} {:?}", here.0.reports(), there.0.reports());
        }
    };
    let counters = |(device, ..): &(Device, _, _, _), qpn: u32| {
        let reports = device.reports();
        reports.iter().find(|report| report.qpn == qpn).map(|report| report.counters).expect("it is there")
    };
    // Nobody has posted a receive; and then memory is named that nobody has.
    one.post_send(&SendRequest::send(SendData::Inline(b"wait"))).expect("posted");
    run_until(&|| counters(&here, one.qpn()).rx_rnr_naks > 0);
    assert!(counters(&there, theirs[0].qpn()).tx_rnr_naks > 0);
    let mut theirs = theirs.into_iter();
    let (mut its_one, its_other) = (theirs.next().expect("two"), theirs.next().expect("two"));
    for wr_id in 0..3 {
        let scatter = [there.3.slice(..64).expect("inside")];
        its_one.post_recv(&RecvRequest { wr_id, scatter: &scatter }).expect("posted");
    }
    let nowhere = verbs_api::RemoteAddr { addr: 0, rkey: 1 };
    for _ in 0..3 {
        one.post_send(&SendRequest::write(SendData::Inline(b"nowhere"), nowhere)).expect("posted");
    }
    run_until(&|| one.state() == QpState::Err && its_one.state() == QpState::Err);
    let (mine, its) = (here.0.counters(), there.0.counters());
    assert_eq!((mine.req_cqe_error, mine.req_remote_access_errors, mine.req_cqe_flush_error), (1, 1, 2));
    assert_eq!((its.resp_remote_access_errors, its.resp_cqe_flush_error, its.resp_cqe_error), (1, 2, 0));
    let nothing = verbs_api::QpCounters::default();
    assert_eq!((counters(&here, other.qpn()), counters(&there, its_other.qpn())), (nothing, nothing));
    let told = StatAddress::Unix(path("counts1")).read().expect("an answer");
    for line in [
        format!("\nsrnic_qp_rnr_nak_retry_err_total{{qpn=\"{}\"}} 0\n", other.qpn()),
        format!(
            "\nsrnic_qp_rnr_nak_retry_err_total{{qpn=\"{}\"}} {}\n",
            one.qpn(),
            counters(&here, one.qpn()).rx_rnr_naks
        ),
        "\nsrnic_req_remote_access_errors_total 1\n".to_owned(),
    ] {
        assert!(told.contains(&line), "{line} in {told}");
    }
}

#[test]
fn a_full_window_and_a_full_congestion_window_are_told_apart() {
    for (name, algorithm, limit) in [
        ("stat-credit", CongestionAlgorithm::Fixed, QpLimit::Credit),
        ("stat-cwnd", CongestionAlgorithm::Dctcp, QpLimit::Congestion),
    ] {
        let window = if limit == QpLimit::Credit { 4 } else { 512 };
        let build = |pair: QueuePairBuilder| pair.window(window).congestion(algorithm);
        let [mut one, two] = ends(name, "fault:delay=20ms,ecn=100%:", build);
        // Marked throughout, so that the congestion window does not grow to the other.
        one.write(&two, 1 << 20, 4);
        let report = one.wait_for(limit, &[&two]);
        assert_eq!(report.window, u32::from(window));
        assert!(report.outstanding <= report.window && report.requests > 0, "{report:?}");
        assert_eq!(limit == QpLimit::Congestion, report.cwnd < report.window, "{report:?}");
    }
}

#[test]
fn reads_that_wait_for_reads_are_named() {
    let [mut one, two] = ends("stat-reads", "fault:delay=20ms:", |pair| pair.max_rd_atomic(1));
    let into = [one.memory.slice(..64).expect("inside")];
    for _ in 0..2 {
        one.pair.post_send(&SendRequest::read(&into, two.memory.remote().at(0)).signaled()).expect("posted");
    }
    one.wait_for(QpLimit::Reads, &[&two]);
    one.wait_for(QpLimit::NothingToSend, &[&two]);
}

#[test]
fn acknowledgements_under_way_and_an_error_are_named() {
    let [mut one, two] = ends("stat-flight", "fault:delay=20ms:", |pair| pair.timeout(8).retry_cnt(0));
    one.write(&two, 64, 1);
    one.wait_for(QpLimit::Acknowledgement, &[&two]);
    // Nobody drives the peer any more, and one retry is all there is.
    let report = one.wait_for(QpLimit::State, &[]);
    assert_eq!(report.state, QpState::Err);
    assert!(one.cq.poll().is_some());
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("srnic-{name}-{}.stat", std::process::id()))
}

#[test]
fn whoever_connects_reads_it_whatever_the_program_does() {
    for driver in [Driver::Inline, Driver::THREAD] {
        let path = path(&format!("{driver:?}").replace(' ', ""));
        let text = format!("sim:stat-text-{driver:?},stat={}", path.display());
        let device = Device::builder().driver(driver).open(&text).expect("a device");
        let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
        let pair = pd.queue_pair(&cq, &cq).create().expect("a queue pair");
        let address = StatAddress::Unix(path.clone());
        for _ in 0..3 {
            let said = address.read().expect("an answer");
            let info = format!("srnic_qp_info{{qpn=\"{}\",type=\"RC\",state=\"RESET\"", pair.qpn());
            assert!(said.contains(&info) && said.contains("limit=\"state\"} 1\n"), "{said}");
            assert!(
                said.contains("\nsrnic_local_ack_timeout_err_total 0\n")
                    && said.contains("\nsrnic_port_rx_packets_total 0\n")
            );
        }
        let error =
            Device::builder().open(&format!("sim:other,stat={}", path.display())).err().expect("taken");
        assert!(error.to_string().starts_with("what the device tells cannot be had at /"), "{error}");
        drop((pair, pd, cq, device));
        assert!(!path.exists(), "the socket goes with the device");
    }
}

/// A mistaken path costs nobody a file.
#[test]
fn what_is_no_socket_is_left_alone() {
    let root = std::env::temp_dir().join(format!("srnic-stat-paths-{}", std::process::id()));
    let [file, link, directory, stale] = ["file", "link", "directory", "stale"].map(|name| root.join(name));
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(&file, b"precious").expect("a file");
    drop(UnixListener::bind(&stale).expect("free"));
    symlink(&file, &link).expect("a link");
    let to_stale = root.join("to-stale");
    symlink(&stale, &to_stale).expect("a link");
    let open = |path: &Path| Device::open(&format!("sim:stat-paths,stat={}", path.display()));
    for path in [&file, &link, &directory, &to_stale] {
        let error = open(path).err().expect("refused").to_string();
        assert!(
            error.contains("something that is no socket is there; remove it or use another path"),
            "{error}"
        );
        assert!(path.symlink_metadata().is_ok(), "{} is gone", path.display());
    }
    assert_eq!(fs::read(&file).expect("it is there"), b"precious");
    drop(open(&stale).expect("what a device left is replaced"));
    fs::remove_dir_all(&root).expect("ours");
}

#[test]
fn what_is_no_question_gets_no_answer() {
    let path = path("rude");
    // A socket that a program left behind when it was killed is no obstacle.
    drop(UnixListener::bind(&path).expect("free"));
    let device = Device::open(&format!("sim:stat-rude,stat={}", path.display())).expect("a device");
    let mut post = UnixStream::connect(&path).expect("it listens");
    post.write_all(b"POST / HTTP/1.1\r\n\r\n").expect("written");
    let mut said = String::new();
    post.read_to_string(&mut said).expect("text");
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
    let mut endless = UnixStream::connect(&path).expect("it listens");
    // It hangs up on the way.
    let _ = endless.write_all(&[b'x'; 100_000]);
    drop(UnixStream::connect(&path).expect("it listens"));
    assert!(StatAddress::Unix(path).read().is_ok());
    drop(device);
}

#[test]
fn a_tcp_address_serves_prometheus() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port");
    let device = Device::open(&format!("sim:stat-tcp,stat={address}")).expect("a device");
    assert!(StatAddress::Tcp(address).read().expect("an answer").contains("# TYPE srnic_rx_acks counter\n"));
    drop(device);
    assert!(StatAddress::Tcp(address).read().is_err(), "nobody listens any more");
}

/// Who asks what a device tells has a second for it, however the bytes come.
#[test]
fn a_visitor_that_dribbles_does_not_hold_up_the_end_of_the_device() {
    let path = std::env::temp_dir().join(format!("srnic-dribble-{}.stat", std::process::id()));
    let device = Device::open(&format!("sim:stat-dribble,stat={}", path.display())).expect("a device");
    let mut visitor = UnixStream::connect(&path).expect("it listens");
    visitor.write_all(b"G").expect("written");
    std::thread::spawn(move || {
        // A minute, where it has a second.
        for _ in 0..240 {
            std::thread::sleep(Duration::from_millis(250));
            if visitor.write_all(b"x").is_err() {
                return;
            }
        }
    });
    // It is being served.
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    drop(device);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(30), "the device took {took:?} to close");
}

/// Visitors that ask and then read next to nothing hold up neither others nor the end of the
/// device.
#[test]
fn slow_readers_hold_up_nobody() {
    let path = path("slow");
    let device = Device::open(&format!("sim:stat-slow,stat={}", path.display())).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    let pairs = [(); 512].map(|()| pd.queue_pair(&cq, &cq).create().expect("a queue pair"));
    let slow = [(); 3].map(|()| {
        let mut visitor = UnixStream::connect(&path).expect("it listens");
        visitor.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
        // It is being served.
        visitor.read_exact(&mut [0; 16]).expect("an answer begins");
        visitor
    });
    let over = Arc::new(AtomicBool::new(false));
    let readers = slow.map(|mut visitor| {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            // So slowly that all of it takes a minute, but without a pause of a second.
            while let (Ok(1..), false) = (visitor.read(&mut [0; 1024]), over.load(Ordering::Relaxed)) {
                std::thread::sleep(Duration::from_millis(200));
            }
        })
    });
    let begin = Instant::now();
    let said = StatAddress::Unix(path).read().expect("an answer");
    assert!(said.len() > 400_000, "so much that a socket does not hold it: {}", said.len());
    drop((pairs, pd, cq, device));
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(30), "another answer and the end of the device took {took:?}");
    over.store(true, Ordering::Relaxed);
    let _ = readers.map(|reader| reader.join().expect("no panic"));
}

/// The path may have become another program's meanwhile.
#[test]
fn a_socket_that_is_no_longer_ours_is_left_alone() {
    let path = path("taken-over");
    let device = Device::open(&format!("sim:stat-taken-over,stat={}", path.display())).expect("a device");
    fs::remove_file(&path).expect("it is there");
    let other = UnixListener::bind(&path).expect("free");
    drop(device);
    assert!(UnixStream::connect(&path).is_ok(), "the other program's socket is gone");
    drop(other);
    fs::remove_file(&path).expect("ours");
}
