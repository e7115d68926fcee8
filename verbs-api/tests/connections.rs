//! Connections by address (protocol.md 1.12, 2.3), by the verbs: what both programs see of them,
//! through loss as well, and that nothing is left of them.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;

use std::net::SocketAddr;
use std::thread::{JoinHandle, scope, spawn, yield_now};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, ConnectionError, Connector, Device, Dialect, Disagreement, Driver, Error,
    Listener, MemoryRegion, Obstacle, Pmtu, PreparedQueuePair, ProtectionDomain, QpState, QueueCaps,
    QueuePair, RecvRequest, RejReason, SendData, SendRequest, WcStatus, WireMode,
};

const PORT: u16 = 7471;
/// Longer than any machine stands still.
const LIMIT: Duration = Duration::from_secs(120);
/// A try lasts a second: threads that wait for each other may be kept from running for as long.
const TIMEOUT: u8 = 18;
const FAULTS: &str = "fault:loss=3%,dup=3%,reorder=3%,seed=5:";

struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

fn host(driver: Driver, text: &str) -> Host {
    let device = Device::builder().driver(driver).open(text).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(4096).expect("a queue"));
    let memory = pd.register(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE).expect("memory");
    Host { device, pd, cq, memory }
}

/// Two hosts; `faults`, such as `fault:loss=1%:`, are those of both.
fn hosts(driver: Driver, name: &str, faults: &str) -> [Host; 2] {
    [(); 2].map(|()| host(driver, &format!("{faults}sim:cm-{name}-{driver:?}")))
}

/// Two hosts with IPv6 addresses, which neighbor discovery resolves.
fn ipv6_hosts(driver: Driver, name: &str, faults: &str) -> [Host; 2] {
    [1, 2].map(|number| host(driver, &format!("{faults}sim:cm-{name}-{driver:?},ip=fd00::{number}")))
}

impl Host {
    fn pair(&self) -> PreparedQueuePair {
        let caps = QueueCaps { max_send_wr: 8, max_recv_wr: 8, ..QueueCaps::default() };
        self.pd.queue_pair(&self.cq, &self.cq).caps(caps).timeout(TIMEOUT).build().expect("a queue pair")
    }

    fn plain_pair(&self) -> PreparedQueuePair {
        self.pd.queue_pair(&self.cq, &self.cq).wire_mode(WireMode::Plain).build().expect("built")
    }

    fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.device.ip(), PORT)
    }

    fn receive(&self) -> PreparedQueuePair {
        let mut pair = self.pair();
        let scatter = [self.memory.slice(..).expect("inside")];
        pair.post_recv(&RecvRequest { wr_id: 7, scatter: &scatter }).expect("posted");
        pair
    }

    fn complete(&mut self) -> (u64, WcStatus) {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(done) = self.cq.poll() {
                return (done.wr_id, done.status);
            }
            assert!(Instant::now() < deadline, "no completion");
        }
    }

    /// Drives the device until `condition`.
    fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition() {
            self.device.progress();
            yield_now();
            assert!(Instant::now() < deadline, "{what}");
        }
    }

    /// Nothing is left of any connection but queue pair 1.
    fn assert_empty(&self) {
        self.until("connections are forgotten", || self.device.connection_stats().connections == 0);
        assert_eq!(self.device.usage().queue_pairs, 1, "queue pairs");
        assert_eq!(self.device.connection_stats().manager.output_full, 0);
    }
}

/// A host in a thread that does `serve`, and comes back.
fn server<T: Send + 'static>(
    mut host: Host,
    serve: impl FnOnce(&mut Host, &Listener) -> T + Send + 'static,
) -> JoinHandle<(Host, T)> {
    let listener = Listener::bind(&host.device, PORT).expect("a listener");
    spawn(move || {
        let result = serve(&mut host, &listener);
        (host, result)
    })
}

fn connection_error(result: Result<QueuePair, Error>) -> ConnectionError {
    match result {
        Err(Error::Connection(error)) => error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("connected"),
    }
}

/// Accepts one, and echoes what comes until the peer disconnects.
fn echo_one(host: &mut Host, listener: &Listener) -> QueuePair {
    let request = listener.get_request(LIMIT).expect("a request");
    let mut pair = request.accept(host.receive()).expect("accepted").wait(LIMIT).expect("connected");
    loop {
        match host.complete() {
            (7, WcStatus::Success) => {
                let scatter = [host.memory.slice(..).expect("inside")];
                let mut bytes = [0; 5];
                host.memory.read(0, &mut bytes).expect("inside");
                pair.post_recv(&RecvRequest { wr_id: 7, scatter: &scatter }).expect("posted");
                pair.post_send(&SendRequest::send(SendData::Inline(&bytes))).expect("posted");
            }
            // Of its own answer too, if nobody has acknowledged that.
            (_, WcStatus::WrFlushErr) => return pair,
            other => panic!("{other:?}"),
        }
    }
}

/// Sends five bytes and has them back.
fn round_trip(host: &mut Host, pair: &mut QueuePair, text: &[u8; 5]) {
    pair.post_send(&SendRequest::send(SendData::Inline(text)).id(1).signaled()).expect("posted");
    let mut ends = [host.complete(), host.complete()];
    ends.sort_by_key(|(id, _)| *id);
    assert_eq!(ends, [(1, WcStatus::Success), (7, WcStatus::Success)]);
    let mut back = [0; 5];
    host.memory.read(0, &mut back).expect("inside");
    assert_eq!(&back, text);
}

/// So many connections begin at once; each end ends half of them.
fn at_once([here, there]: [Host; 2], count: usize) {
    let to = there.addr();
    let server = server(there, move |host, listener| {
        let mut accepting = Vec::new();
        let mut pairs = Vec::new();
        let deadline = Instant::now() + LIMIT;
        while pairs.len() < count {
            assert!(
                Instant::now() < deadline,
                "{} of {count}: {:?}",
                pairs.len(),
                host.device.connection_stats()
            );
            if let Some(request) = listener.poll() {
                accepting.push(request.accept(host.pair()).expect("accepted"));
            }
            accepting.retain_mut(|connecting| match connecting.poll().expect("connected") {
                None => true,
                Some(pair) => {
                    pairs.push(pair);
                    false
                }
            });
        }
        host.until("the peer ends half of them", || {
            pairs.iter().filter(|pair| pair.is_disconnected()).count() >= count / 2
        });
        drop(pairs);
        host.assert_empty();
    });
    let begun: Vec<_> =
        (0..count).map(|_| Connector::new().connect(here.pair(), to).expect("begun")).collect();
    let pairs: Vec<_> = begun.into_iter().map(|begun| begun.wait(LIMIT).expect("connected")).collect();
    let mut pairs = pairs.into_iter();
    pairs.by_ref().take(count / 2).for_each(drop);
    let rest: Vec<_> = pairs.collect();
    here.until("the peer ends the others", || rest.iter().all(QueuePair::is_disconnected));
    drop(rest);
    here.assert_empty();
    server.join().expect("no panic");
    assert!(here.device.fault_stats().tx.lost > 0);
}

with_all_drivers! {

fn messages_pass_and_a_disconnect_ends_both_sides(driver: Driver) {
    let [mut here, there] = hosts(driver, "echo", "");
    let to = there.addr();
    let server = server(there, echo_one);
    let mut pair = here.receive().connect_to(to, LIMIT).expect("connected");
    assert_eq!((pair.state(), pair.peer_addr(), pair.remote().wire_mode), (QpState::Rts, Some(to), WireMode::Srnic));
    round_trip(&mut here, &mut pair, b"hello");
    assert!(!pair.is_disconnected());
    let scatter = [here.memory.slice(..).expect("inside")];
    pair.post_recv(&RecvRequest { wr_id: 9, scatter: &scatter }).expect("posted");

    assert!(pair.disconnect(LIMIT).expect("ended"));
    assert!(pair.is_disconnected());
    assert_eq!((pair.state(), here.complete()), (QpState::Err, (9, WcStatus::WrFlushErr)));
    let (there, its_pair) = server.join().expect("no panic");
    assert_eq!(its_pair.state(), QpState::Err, "the peer's disconnect takes it there");
    there.until("it says so", || its_pair.is_disconnected());
    drop((pair, its_pair));
    here.assert_empty();
    there.assert_empty();
}

/// An MTU of 1500 carries 1,408 bytes in the SRNIC dialect and 1,024 in plain RoCEv2 (2.3).
fn an_mtu_of_1500_carries_more_in_the_dialect(driver: Driver) {
    let dialects = [
        (Dialect::Require, Pmtu::B1408),
        (Dialect::Prefer, Pmtu::B1408),
        (Dialect::Off, Pmtu::B1024),
    ];
    for (dialect, expected) in dialects {
        let [mut here, there] = [(); 2].map(|()| host(driver, &format!("sim:cm-{dialect:?}-{driver:?},mtu=1500")));
        let to = there.addr();
        let server = server(there, |host, listener| {
            let request = listener.get_request(LIMIT).expect("a request");
            let pair = request.accept(host.receive()).expect("accepted").wait(LIMIT).expect("connected");
            assert_eq!(host.complete(), (7, WcStatus::Success));
            let mut bytes = [0; 4096];
            host.memory.read(0, &mut bytes).expect("inside");
            (bytes, pair)
        });
        let sent: [u8; 4096] = core::array::from_fn(|index| index.to_le_bytes()[0]);
        here.memory.write(0, &sent).expect("inside");
        let mut pair = Connector::new().dialect(dialect).connect(here.pair(), to).expect("begun").wait(LIMIT).expect("connected");
        let gather = [here.memory.slice(..).expect("inside")];
        pair.post_send(&SendRequest::send(SendData::Gather(&gather)).id(1).signaled()).expect("posted");
        assert_eq!(here.complete(), (1, WcStatus::Success));
        let (_, (got, its_pair)) = server.join().expect("no panic");
        assert_eq!([pair.path_mtu(), its_pair.path_mtu()], [expected; 2]);
        assert_eq!(got, sent);
    }
}

/// 1.12: REQ and REP name the PSN that their receiver starts at, as Linux has it, not the one that
/// their sender does.
fn each_end_starts_where_the_other_says(driver: Driver) {
    let [here, there] = hosts(driver, "psn", "");
    let pair_from = |host: &Host, psn: u32| {
        host.pd.queue_pair(&host.cq, &host.cq).first_psn(psn).build().expect("a queue pair")
    };
    let to = there.addr();
    let server = server(there, move |host, listener| {
        let request = listener.get_request(LIMIT).expect("a request");
        request.accept(pair_from(host, 0x222)).expect("accepted").wait(LIMIT).expect("connected")
    });
    let pair = pair_from(&here, 0x111).connect_to(to, LIMIT).expect("connected");
    let (_there, its_pair) = server.join().expect("no panic");
    let psns = |pair: &QueuePair| (pair.query().sq_psn, pair.query().rq_psn);
    assert_eq!((psns(&pair), psns(&its_pair)), ((0x222, 0x111), (0x111, 0x222)));
}

fn both_programs_have_something_to_say(driver: Driver) {
    let [here, there] = hosts(driver, "private", "");
    let to = there.addr();
    let server = server(there, |host, listener| {
        assert_eq!(listener.local_addr(), host.addr());
        let request = listener.get_request(LIMIT).expect("a request");
        assert_eq!((request.private_data(), request.speaks_srnic()), (&b"knock"[..], true));
        let peer = request.peer();
        let pair = request.with_private_data(&[5; 196]).accept(host.pair()).expect("accepted").wait(LIMIT).expect("connected");
        assert_eq!(pair.private_data(), b"knock");

        let request = listener.get_request(LIMIT).expect("a request");
        assert!(matches!(request.reject(&[0; 149]), Err(Error::Connection(_))), "too much");
        let request = listener.get_request(LIMIT).expect("a request");
        request.reject(b"full").expect("rejected");
        drop(listener.get_request(LIMIT).expect("a request"));
        (pair, peer.ip())
    });
    let knock = Connector::new().private_data(b"knock");
    let pair = knock.connect(here.pair(), to).expect("begun").wait(LIMIT).expect("connected");
    assert_eq!(pair.private_data(), [5; 196]);
    for said in [&b""[..], b"full", b""] {
        let error = connection_error(here.pair().connect_to(to, LIMIT));
        let expected = ConnectionError::Rejected { reason: RejReason::CONSUMER, private_data: said.to_vec() };
        assert_eq!(error, expected);
    }
    let too_much = Connector::new().private_data(&[0; 57]).connect(here.pair(), to);
    assert!(matches!(too_much, Err(Error::Connection(ConnectionError::Call(_)))));
    let (there, (its_pair, peer)) = server.join().expect("no panic");
    assert_eq!(peer, here.device.ip());

    // The passive side may end it, too; and by dropping it.
    drop(its_pair);
    here.until("the peer's end is seen", || { there.device.progress(); pair.is_disconnected() });
    assert_eq!(pair.state(), QpState::Err);
    drop(pair);
    here.assert_empty();
    there.assert_empty();
}

fn dialects_are_agreed_on(driver: Driver) {
    let [mut here, there] = hosts(driver, "dialect", "");
    let to = there.addr();
    let server = server(there, |host, listener| {
        // It speaks plain RoCEv2 only, so do both.
        let request = listener.get_request(LIMIT).expect("a request");
        let mut plain = host.plain_pair();
        let scatter = [host.memory.slice(..).expect("inside")];
        plain.post_recv(&RecvRequest { wr_id: 7, scatter: &scatter }).expect("posted");
        let pair = request.accept(plain).expect("accepted").wait(LIMIT).expect("connected");
        assert_eq!(host.complete(), (7, WcStatus::Success));
        // And who requires more is told.
        let request = listener.get_request(LIMIT).expect("a request");
        let plain = host.plain_pair();
        assert!(request.accept(plain).expect("granted").wait(LIMIT).is_err());
        // And who is required more.
        let request = listener.get_request(LIMIT).expect("a request");
        assert!(!request.speaks_srnic());
        let error = request.with_dialect(Dialect::Require).accept(host.pair()).err().map(|error| error.to_string());
        assert!(error.expect("refused").contains("Dialect::Prefer"));
        pair
    });
    let mut pair = here.pair().connect_to(to, LIMIT).expect("connected");
    assert_eq!(pair.remote().wire_mode, WireMode::Plain);
    pair.post_send(&SendRequest::send(SendData::Inline(b"plain")).id(1).signaled()).expect("posted");
    assert_eq!(here.complete(), (1, WcStatus::Success));

    let require = Connector::new().dialect(Dialect::Require);
    let error = connection_error(require.connect(here.pair(), to).expect("begun").wait(LIMIT));
    assert_eq!(error, ConnectionError::Disagreement(Disagreement::Dialect));
    let off = Connector::new().dialect(Dialect::Off);
    let error = connection_error(off.connect(here.pair(), to).expect("begun").wait(LIMIT));
    let reason = RejReason::VENDOR_OPTION_NOT_SUPPORTED;
    assert_eq!(error, ConnectionError::Rejected { reason, private_data: Vec::new() });
    assert!(matches!(require.connect(here.plain_pair(), to), Err(Error::Connection(ConnectionError::PlainPair))));
    let (there, its_pair) = server.join().expect("no panic");
    drop((pair, its_pair));
    here.until("both are told", || { there.device.progress(); here.device.connection_stats().connections == 0 });
    there.assert_empty();
}

/// Port 0 is any that is free, as with sockets.
fn a_listener_finds_a_port(driver: Driver) {
    let [mut here, there] = hosts(driver, "any-port", "");
    let [one, two] = [0, 1].map(|_| Listener::bind(&there.device, 0).expect("a port is free"));
    assert_ne!(one.local_addr().port(), two.local_addr().port());
    for listener in [one, two] {
        assert_ne!(listener.local_addr().port(), 0);
        let connector = Connector::new().private_data(b"any");
        let mut connecting = connector.connect(here.pair(), listener.local_addr()).expect("begun");
        let deadline = Instant::now() + LIMIT;
        let request = loop {
            assert!(connecting.poll().expect("not rejected").is_none() && Instant::now() < deadline);
            if let Some(request) = listener.poll() {
                break request;
            }
        };
        assert_eq!(request.private_data(), b"any");
    }
    assert!(here.cq.poll().is_none());
}

fn who_is_not_there_is_said(driver: Driver) {
    let [here, there] = hosts(driver, "absent", "");
    let listener = Listener::bind(&there.device, PORT).expect("a listener");
    let taken = Listener::bind(&there.device, PORT);
    assert!(taken.err().map(|error| error.to_string()).is_some_and(|error| error.contains("7471")));
    let other_port = SocketAddr::new(there.device.ip(), PORT + 1);
    let mut connecting = Connector::new().connect(here.pair(), other_port).expect("begun");
    let deadline = Instant::now() + LIMIT;
    let error = loop {
        there.device.progress();
        match connecting.poll() {
            Ok(None) => assert!(Instant::now() < deadline),
            result => break connection_error(result.map(|pair| pair.expect("checked"))),
        }
    };
    assert!(matches!(error, ConnectionError::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. }), "{error}");
    assert!(error.to_string().contains("nobody listens"), "{error}");
    assert!(connecting.poll().is_err(), "it is over");

    // Nobody accepts.
    let limit = Duration::from_millis(50);
    let error = connection_error(here.pair().connect_to(there.addr(), limit));
    assert!(matches!(error, ConnectionError::Late { .. }), "{error}");
    // Which the peer hears of, so that its program gets no request that nobody wants.
    there.until("the request is taken back", || there.device.connection_stats().connections == 0);
    assert!(listener.poll().is_none());
    let nobody = SocketAddr::from(([10, 77, 0, 200], PORT));
    let error = connection_error(here.pair().connect_to(nobody, limit));
    assert_eq!(error, ConnectionError::Late { limit, why: Obstacle::Neighbor(nobody.ip()) });
    // Who gives no limit has one of the device's own.
    let mut connecting = Connector::new().connect(here.pair(), nobody).expect("begun");
    let error = loop {
        match connecting.poll() {
            Ok(None) => assert!(Instant::now() < deadline),
            result => break connection_error(result.map(|pair| pair.expect("checked"))),
        }
    };
    assert_eq!(error, ConnectionError::Unreachable(nobody.ip()));
    let v6 = "[fd00::1]:7471".parse().expect("an address");
    assert!(matches!(Connector::new().connect(here.pair(), v6), Err(Error::Connection(ConnectionError::Call(_)))));
    drop(listener);
    here.assert_empty();
    there.assert_empty();
}

/// Two hundred at once, through loss, duplicates and reordering of everything.
fn two_hundred_at_once_through_loss(driver: Driver) {
    at_once(hosts(driver, "many", FAULTS), 200);
}

fn ipv6_hosts_connect_through_loss(driver: Driver) {
    at_once(ipv6_hosts(driver, "many-v6", FAULTS), 50);
}

/// Names of hosts are IPv6 addresses, and everything is as it is with the others.
fn ipv6_hosts_hear_of_each_other(driver: Driver) {
    let [mut here, there] = ipv6_hosts(driver, "v6", FAULTS);
    let to = there.addr();
    let server = server(there, |host, listener| {
        assert_eq!(listener.local_addr().to_string(), "[fd00::2]:7471");
        let request = listener.get_request(LIMIT).expect("a request");
        let peer = request.peer().ip();
        request.reject(b"not now").expect("rejected");
        (peer, echo_one(host, listener))
    });
    let error = connection_error(here.pair().connect_to(to, LIMIT));
    let (reason, private_data) = (RejReason::CONSUMER, b"not now".to_vec());
    assert_eq!(error, ConnectionError::Rejected { reason, private_data });
    let words = "the peer rejected the connection: its program does not want it: \"not now\"";
    assert_eq!(error.to_string(), words);
    let mut pair = here.receive().connect_to(to, LIMIT).expect("connected");
    assert_eq!((pair.peer_addr(), pair.remote().ip), (Some(to), to.ip()));
    for _ in 0..100 {
        let scatter = [here.memory.slice(..).expect("inside")];
        round_trip(&mut here, &mut pair, b"hello");
        pair.post_recv(&RecvRequest { wr_id: 7, scatter: &scatter }).expect("posted");
    }
    assert!(pair.disconnect(LIMIT).expect("ended"));
    let (there, (peer, its_pair)) = server.join().expect("no panic");
    assert_eq!(peer, here.device.ip());
    drop((pair, its_pair));

    let nobody: SocketAddr = "[fd00::200]:7471".parse().expect("an address");
    let limit = Duration::from_millis(50);
    let error = connection_error(here.pair().connect_to(nobody, limit));
    assert_eq!(error, ConnectionError::Late { limit, why: Obstacle::Neighbor(nobody.ip()) });
    let v4 = SocketAddr::from(([10, 77, 0, 1], PORT));
    let refused = Connector::new().connect(here.pair(), v4).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("10.77.0.1 is of another family than this end's address, fd00::1"));
    here.assert_empty();
    there.assert_empty();
    assert!(here.device.fault_stats().tx.lost > 0);
}

fn a_thousand_in_a_row(driver: Driver) {
    let [here, there] = hosts(driver, "row", "");
    let to = there.addr();
    let server = server(there, |host, listener| {
        for _ in 0..1000 {
            let request = listener.get_request(LIMIT).expect("a request");
            let pair = request.accept(host.pair()).expect("accepted").wait(LIMIT).expect("connected");
            host.until("it ends", || pair.is_disconnected());
        }
        host.assert_empty();
    });
    for _ in 0..1000 {
        let mut pair = here.pair().connect_to(to, LIMIT).expect("connected");
        assert!(pair.disconnect(LIMIT).expect("ended"));
    }
    here.until("the server is done", || server.is_finished());
    server.join().expect("no panic");
    here.assert_empty();
    let stats = here.device.connection_stats();
    assert_eq!((stats.manager.established, stats.manager.timed_out, stats.unsent), (1000, 0, 0));
}

}

/// A device connects to itself.
#[test]
fn a_device_may_be_its_own_peer() {
    let host = host(Driver::THREAD, "sim:cm-self");
    let listener = Listener::bind(&host.device, PORT).expect("a listener");
    let connecting = Connector::new().connect(host.pair(), host.addr()).expect("begun");
    let request = listener.get_request(LIMIT).expect("a request");
    let accepting = request.accept(host.pair()).expect("accepted");
    let mut pairs = [connecting.wait(LIMIT).expect("connected"), accepting.wait(LIMIT).expect("connected")];
    assert_eq!(pairs[0].remote().qpn, pairs[1].qpn());
    assert!(pairs[0].disconnect(LIMIT).expect("ended"));
    host.until("its other end", || pairs[1].is_disconnected());
    drop(pairs);
    drop(listener);
    host.assert_empty();
}

#[test]
fn queue_pair_1_may_be_taken() {
    let host = host(Driver::Inline, "sim:cm-taken");
    let gsi = host.pd.ud_queue_pair(&host.cq, &host.cq).general_services().build().expect("a queue pair");
    let error = Listener::bind(&host.device, PORT).err().map(|error| error.to_string());
    assert!(error.as_deref().is_some_and(|error| error.contains("general services")), "{error:?}");
    drop(gsi);
    Listener::bind(&host.device, PORT).expect("it is free again");
}

/// Both sides end it at the same time: both are told, by their own call.
#[test]
fn both_disconnect_at_once() {
    let [here, there] = hosts(Driver::THREAD, "at-once", "");
    let listener = Listener::bind(&there.device, PORT).expect("a listener");
    for _ in 0..20 {
        let connecting = Connector::new().connect(here.pair(), there.addr()).expect("begun");
        let accepting =
            listener.get_request(LIMIT).expect("a request").accept(there.pair()).expect("accepted");
        let pairs = [connecting.wait(LIMIT).expect("connected"), accepting.wait(LIMIT).expect("connected")];
        scope(|threads| {
            for mut pair in pairs {
                threads.spawn(move || assert!(pair.disconnect(LIMIT).expect("ended")));
            }
        });
    }
    drop(listener);
    here.assert_empty();
    there.assert_empty();
}

/// A peer whose device makes no progress any more: who waits for it is not kept for ever.
#[test]
fn a_peer_that_stops_is_not_waited_for() {
    let here = host(Driver::THREAD, "sim:cm-stops");
    let there = host(Driver::Inline, "sim:cm-stops");
    let listener = Listener::bind(&there.device, PORT).expect("a listener");
    let connecting = Connector::new().connect(here.pair(), there.addr()).expect("begun");
    let accepting = listener.get_request(LIMIT).expect("a request").accept(there.pair()).expect("accepted");
    let mut pair = connecting.wait(LIMIT).expect("connected");
    assert!(!pair.disconnect(Duration::from_millis(50)).expect("ended"), "nobody answers");
    assert_eq!(pair.state(), QpState::Err);
    drop(pair);
    // It comes back: what happened meanwhile was not lost.
    let its = accepting.wait(LIMIT).expect("it was connected");
    there.until("and is over", || its.is_disconnected());
    drop((its, listener));
    here.assert_empty();
    there.assert_empty();
}

/// A peer that was told, and whose answer is lost with its device: the link says that it is gone.
#[test]
fn who_left_is_not_waited_for() {
    // On a machine that is busy the request may be repeated before it is granted. Then what is lost
    // is the grant.
    let told = (0..50).find_map(|_| leaves_when_told());
    assert_eq!(told, Some(true), "it waited for who is gone");
}

/// One peer disconnects from another, of which nothing arrives but the grant of the connection.
/// Whether it heard that the other is gone, or `None` if they were not connected.
fn leaves_when_told() -> Option<bool> {
    let path = std::env::temp_dir().join(format!("srnic-cm-left-{}.sock", std::process::id()));
    let memif = format!("memif:{}", path.display());
    let there = host(Driver::Inline, &format!("fault:drop=data@2-,dir=tx:{memif},role=server"));
    let here = host(Driver::Inline, &format!("{memif},role=client"));
    here.until("the link", || {
        there.device.progress();
        here.device.link_up() && there.device.link_up()
    });
    let listener = Listener::bind(&there.device, PORT).expect("a listener");
    let mut asking = Connector::new().connect(here.pair(), there.addr()).expect("begun");
    let deadline = Instant::now() + LIMIT;
    let mut granting = loop {
        assert!(asking.poll().ok()?.is_none() && Instant::now() < deadline);
        if let Some(request) = listener.poll() {
            break request.accept(there.pair()).expect("accepted");
        }
    };
    let (mut pair, mut its_pair) = (None, None);
    while pair.is_none() || its_pair.is_none() {
        assert!(Instant::now() < deadline, "not connected");
        if pair.is_none() {
            pair = asking.poll().ok()?;
        }
        if its_pair.is_none() {
            its_pair = granting.poll().ok()?;
        }
        here.device.progress();
    }
    let (mut pair, its_pair) = (pair?, its_pair?);
    drop((asking, granting, listener));
    let waits = spawn(move || {
        // Less than it takes to give up a peer that says nothing.
        let told = pair.disconnect(Duration::from_secs(10)).expect("ended");
        (told, here)
    });
    there.until("it is told", || its_pair.is_disconnected());
    drop((its_pair, there));
    let (told, _here) = waits.join().expect("no panic");
    Some(told)
}
