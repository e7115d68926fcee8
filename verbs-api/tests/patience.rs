//! Who connects to a peer that is not there yet asks for as long as it was told, and says at last
//! what was in the way.

#[path = "support/drivers.rs"]
mod drivers;

use std::net::SocketAddr;
use std::thread::{sleep, spawn, yield_now};
use std::time::{Duration, Instant};
use verbs_api::{
    AddressHandle, ConnectionError, Connector, Device, Driver, Error, LinkDown, Listener, Obstacle,
    PreparedQueuePair, QueuePair,
};

const PORT: u16 = 7471;
const LIMIT: Duration = Duration::from_secs(120);
/// Longer than an Ethernet address is asked for.
const LATE: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(300);

fn open(driver: Driver, text: &str) -> Device {
    Device::builder().driver(driver).open(text).expect("a device")
}

fn pair(device: &Device) -> PreparedQueuePair {
    let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    pd.queue_pair(&cq, &cq).build().expect("a queue pair")
}

fn addr(host: u8) -> SocketAddr {
    ([10, 77, 0, host], PORT).into()
}

/// Opens its device late, and accepts one connection.
fn serve_late(driver: Driver, text: &str) -> QueuePair {
    sleep(LATE);
    let device = open(driver, text);
    let listener = Listener::bind(&device, PORT).expect("a listener");
    let request = listener.get_request(LIMIT).expect("a request");
    request.accept(pair(&device)).expect("accepted").wait(LIMIT).expect("connected")
}

/// Two hosts on a network. The second has a thread, and listens to another port.
fn neighbors(driver: Driver, name: &str) -> (Device, Device, Listener) {
    let name = format!("sim:patience-{name}-{driver:?}");
    let here = open(driver, &format!("{name},ip=10.77.0.1"));
    let there = open(Driver::THREAD, &format!("{name},ip=10.77.0.2"));
    let other = Listener::bind(&there, PORT + 1).expect("a listener");
    (here, there, other)
}

/// Binds its listener after the first requests have been refused, and accepts one connection.
fn bind_late(device: &Device) -> QueuePair {
    let start = Instant::now();
    while device.connection_stats().manager.rejected < 3 {
        assert!(start.elapsed() < LIMIT, "asked again");
        yield_now();
    }
    let listener = Listener::bind(device, PORT).expect("a listener");
    let request = listener.get_request(LIMIT).expect("a request");
    request.accept(pair(device)).expect("accepted").wait(LIMIT).expect("connected")
}

/// Looks for a host that is there, however long its thread takes to answer. While the handle lives,
/// the host is known.
fn acquaint(device: &Device, host: u8) -> AddressHandle {
    let (pd, start) = (device.alloc_pd(), Instant::now());
    loop {
        match pd.create_ah_to(addr(host).ip()) {
            Ok(way) => return way,
            Err(other) => assert!(start.elapsed() < LIMIT, "{other}"),
        }
    }
}

fn error(result: Result<QueuePair, Error>) -> ConnectionError {
    match result {
        Err(Error::Connection(error)) => error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("connected"),
    }
}

/// Polls a connection that does not come about: why, and after which time.
fn give_up(here: &Device, to: SocketAddr, limit: Duration) -> (ConnectionError, Duration) {
    let start = Instant::now();
    let mut connecting = Connector::new().patience(limit).connect(pair(here), to).expect("begun");
    loop {
        match connecting.poll() {
            Ok(None) => yield_now(),
            Ok(Some(_)) => panic!("connected"),
            Err(other) => return (error(Err(other)), start.elapsed()),
        }
    }
}

with_all_drivers! {

fn a_peer_that_comes_after_five_seconds_is_connected_to(driver: Driver) {
    let name = std::env::temp_dir().join(format!("srnic-patience-{}-{driver:?}", std::process::id()));
    let memif = |role: &str, host: u8| {
        format!("memif:{},role={role},ip=10.77.0.{host}", name.display())
    };
    let sim = |host: u8| format!("sim:patience-{driver:?},ip=10.77.0.{host}");
    // On one the link is missing, on the other the host.
    for (ours, theirs) in [(memif("client", 1), memif("server", 2)), (sim(1), sim(2))] {
        let here = open(driver, &ours);
        let server = spawn(move || serve_late(driver, &theirs));
        let start = Instant::now();
        let ours = pair(&here).connect_to(addr(2), LIMIT).expect("connected");
        assert!(start.elapsed() > LATE);
        drop((ours, server.join().expect("no panic")));
    }
}

fn who_gives_up_says_what_was_in_the_way(driver: Driver) {
    let name = format!("patience-why-{driver:?}");
    let here = open(driver, &format!("sim:{name},ip=10.77.0.1"));
    let late = error(pair(&here).connect_to(addr(2), SHORT));
    assert_eq!(late, ConnectionError::Late { limit: SHORT, why: Obstacle::Neighbor(addr(2).ip()) });
    assert_eq!(
        late.to_string(),
        "no connection within 300ms: no host answers for 10.77.0.2: is a device with this ip= open on the same link, and \
         does its program drive it?"
    );
    // That it was not found a moment ago does not end the next attempt at once.
    let again = Instant::now();
    while again.elapsed() < Duration::from_secs(5) {
        let late = error(pair(&here).connect_to(addr(2), SHORT));
        assert_eq!(late, ConnectionError::Late { limit: SHORT, why: Obstacle::Neighbor(addr(2).ip()) });
    }
    // Nobody accepts there.
    let here = open(driver, &format!("sim:{name}-there,ip=10.77.0.1"));
    let there = open(Driver::THREAD, &format!("sim:{name}-there,ip=10.77.0.2"));
    let _listener = Listener::bind(&there, PORT).expect("a listener");
    let _known = acquaint(&here, 2);
    let late = error(pair(&here).connect_to(addr(2), SHORT));
    assert_eq!(late, ConnectionError::Late { limit: SHORT, why: Obstacle::Silence(addr(2).ip()) });
}

fn a_missing_link_is_the_reason_at_either_end(driver: Driver) {
    let at = std::env::temp_dir().join(format!("srnic-patience-link-{}-{driver:?}", std::process::id()));
    let device = open(driver, &format!("memif:{},role=client", at.display()));
    let connecting = error(pair(&device).connect_to(addr(1), SHORT));
    let words = format!("no connection within 300ms: the link is down: nobody listens at {}", at.display());
    assert!(connecting.to_string().starts_with(&words), "{connecting}");
    let listener = Listener::bind(&device, PORT).expect("a listener");
    let waited = match listener.get_request(SHORT) {
        Err(Error::Connection(error)) => error,
        _ => panic!("nobody is there"),
    };
    let is_alone = |error: &ConnectionError| {
        matches!(error, ConnectionError::Late { why: Obstacle::Link(LinkDown::NoPeer(_)), .. })
    };
    assert!(is_alone(&connecting) && is_alone(&waited), "{waited}");
}

/// Neither what looking for an address takes nor how often a manager asks makes it longer or
/// shorter.
fn a_connectors_patience_ends_when_it_says(driver: Driver) {
    let name = format!("patience-end-{driver:?}");
    let here = open(driver, &format!("sim:{name},ip=10.77.0.1"));
    let there = open(Driver::THREAD, &format!("sim:{name},ip=10.77.0.2"));
    let _listener = Listener::bind(&there, PORT).expect("a listener");
    let _known = acquaint(&here, 2);
    let (nobody, silent) = (addr(3), addr(2));
    for (to, why) in [(nobody, Obstacle::Neighbor(nobody.ip())), (silent, Obstacle::Silence(silent.ip()))] {
        for limit in [SHORT, Duration::from_secs(5)] {
            let late = ConnectionError::Late { limit, why: why.clone() };
            let attempt = || {
                let (failed, took) = give_up(&here, to, limit);
                assert_eq!(failed, late);
                assert!(took >= limit, "{to}: {took:?} of {limit:?}");
                took
            };
            // To look for an address takes two seconds and a half. Other things on the machine
            // make one attempt longer, and not each of five.
            let in_time = (0..5).any(|_| attempt() < limit + Duration::from_secs(2));
            assert!(in_time, "{to}: five times {limit:?} took two seconds longer");
        }
    }
}

/// Who polls says before how long it means to.
fn a_connection_that_is_polled_has_the_connectors_patience(driver: Driver) {
    let name = format!("patience-poll-{driver:?}");
    let here = open(driver, &format!("sim:{name},ip=10.77.0.1"));
    let theirs = format!("sim:{name},ip=10.77.0.2");
    let server = spawn(move || serve_late(driver, &theirs));
    let start = Instant::now();
    let mut connecting = Connector::new().patience(LIMIT).connect(pair(&here), addr(2)).expect("begun");
    let ours = loop {
        assert!(start.elapsed() < LIMIT);
        match connecting.poll() {
            Ok(Some(pair)) => break pair,
            Ok(None) => yield_now(),
            Err(other) => panic!("{other} after {:?}", start.elapsed()),
        }
    };
    drop((ours, server.join().expect("no panic")));
}

fn a_listener_that_is_bound_late_is_waited_for(driver: Driver) {
    let (here, there, _other) = neighbors(driver, "listener");
    let server = spawn(move || bind_late(&there));
    let ours = pair(&here).connect_to(addr(2), LIMIT).expect("connected");
    drop((ours, server.join().expect("no panic")));
}

fn who_polls_waits_for_a_listener_that_is_bound_late(driver: Driver) {
    let (here, there, _other) = neighbors(driver, "polled-listener");
    let server = spawn(move || bind_late(&there));
    let mut connecting = Connector::new().patience(LIMIT).connect(pair(&here), addr(2)).expect("begun");
    let ours = loop {
        match connecting.poll() {
            Ok(Some(pair)) => break pair,
            Ok(None) => yield_now(),
            Err(other) => panic!("{other}"),
        }
    };
    drop((ours, server.join().expect("no panic")));
}

/// At the end of the patience, or at once if that was asked for.
fn nobody_listens_is_said_when_the_patience_is_over(driver: Driver) {
    let (here, _there, _other) = neighbors(driver, "refused");
    let words = "the peer rejected the connection: nobody listens to that port";
    let attempt = |connector: Connector, limit: Duration| {
        let start = Instant::now();
        let connecting = connector.connect(pair(&here), addr(2)).expect("begun");
        let refused = error(connecting.wait(limit));
        (refused.to_string(), start.elapsed())
    };
    let (refused, took) = attempt(Connector::new().patience(LIMIT).wait_for_listener(false), LIMIT);
    assert_eq!(refused, words);
    assert!(took < LIMIT / 2, "{took:?} of {LIMIT:?}");
    for has_patience in [false, true] {
        // On a busy machine the other host's thread may not answer in two seconds.
        let in_time = [2, 4, 8, 16].map(Duration::from_secs).into_iter().any(|limit| {
            let connector = if has_patience { Connector::new().patience(limit) } else { Connector::new() };
            let (refused, took) = attempt(connector, limit);
            assert!(took >= limit, "{took:?} of {limit:?}");
            refused == words && took < limit * 4
        });
        assert!(in_time, "the refusal was not said");
    }
}

}
