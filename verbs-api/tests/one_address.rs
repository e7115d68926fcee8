//! Two hosts with one IP address (protocol.md 1.13), as their programs see it.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/host.rs"]
#[expect(dead_code, reason = "what other tests need of it")]
mod host;

use host::wait::PATIENCE;
use std::time::{Duration, Instant};
use verbs_api::{AsyncEvent, Connector, Device, Driver, Listener};

/// Two hosts with one address, the first of which has it already.
fn two_with_one_address(name: &str, ip: &str, driver: Driver) -> [Device; 2] {
    let open = |mac: &str| {
        let text = format!("sim:{name}-{driver:?},ip={ip},mac=02:00:00:00:00:{mac}");
        Device::builder().driver(driver).open(&text).expect("a device")
    };
    let older = open("07");
    // The other one may come when it has asked: it is the newer one then.
    let deadline = Instant::now() + PATIENCE;
    while older.counters().tx_neighbor == 0 && Instant::now() < deadline {
        assert_eq!(older.wait_event(Duration::from_millis(1)).expect("a descriptor"), None);
    }
    [older, open("08")]
}

with_all_drivers! {
fn the_newer_host_is_told_that_its_address_is_taken(driver: Driver) {
    for (name, ip, other) in [("twins", "10.77.0.7", "10.77.0.9"), ("twins6", "fd00::7", "fd00::9")] {
        let [older, newer] = two_with_one_address(name, ip, driver);
        let until_told = || {
            let deadline = Instant::now() + PATIENCE;
            loop {
                assert_eq!(older.wait_event(Duration::from_millis(1)).expect("a descriptor"), None);
                if let Some(event) = newer.wait_event(Duration::from_millis(1)).expect("a descriptor") {
                    return event;
                }
                assert!(Instant::now() < deadline, "not told");
            }
        };
        assert_eq!(until_told(), AsyncEvent::AddressConflict { mac: older.mac(), ours: false });
        assert_eq!((newer.address_holder(), older.address_holder()), (Some(older.mac()), None));
        assert!(newer.counters().address_disputes > 0);
        let pd = newer.alloc_pd();
        let refused = pd.create_ah_to(other.parse().expect("an address"));
        let refused = refused.expect_err("no neighbor is found").to_string();
        assert_eq!(
            refused,
            format!(
                "{ip} is the address of another host, too, the one with the Ethernet address 02:00:00:00:00:07: give one of \
                 them another ip="
            )
        );
        let cq = newer.create_cq(16).expect("a queue");
        let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
        let to = (other.parse::<std::net::IpAddr>().expect("an address"), 7471).into();
        let late = pair.connect_to(to, Duration::from_millis(50)).map(drop).expect_err("no neighbor is found");
        assert_eq!(late.to_string(), format!("no connection within 50ms: {refused}"));
        // Who polls it, or awaits it, hears of the same cause.
        let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
        let mut connecting = Connector::new().connect(pair, to).expect("begun");
        let deadline = Instant::now() + PATIENCE;
        let failed = loop {
            match connecting.poll() {
                Ok(pair) => assert!(pair.is_none(), "no neighbor is found"),
                Err(error) => break error,
            }
            assert_eq!(older.wait_event(Duration::from_millis(1)).expect("a descriptor"), None);
            assert!(Instant::now() < deadline, "it is given up");
        };
        assert_eq!(failed.to_string(), format!("no connection within 1s: {refused}"));
    }
}

}

/// Its peer was not told that the connection is over, and that is not said.
#[test]
fn a_host_that_lost_its_address_has_not_disconnected() {
    let open = |ip: u8, driver| {
        let text = format!("sim:twins-late,ip=10.77.0.{ip}");
        Device::builder().driver(driver).open(&text).expect("a device")
    };
    // The oldest of all, which nobody drives yet: it has not asked for its address.
    let silent = open(7, Driver::Inline);
    let (ours, its) = (open(7, Driver::THREAD), open(9, Driver::THREAD));
    let listener = Listener::bind(&its, 7471).expect("a listener");
    let build = |device: &Device| {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
        pd.queue_pair(&cq, &cq).build().expect("a queue pair")
    };
    let connecting = Connector::new().connect(build(&ours), listener.local_addr()).expect("begun");
    let request = listener.get_request(PATIENCE).expect("a request");
    let accepting = request.accept(build(&its)).expect("accepted");
    let mut pair = connecting.wait(PATIENCE).expect("connected");
    let peer = accepting.wait(PATIENCE).expect("connected");
    let connected = Instant::now();
    // It yields to an older host while it asks itself, which takes 3 s; and knows its peer's
    // Ethernet address for 5 s.
    while ours.address_holder().is_none() || connected.elapsed() < Duration::from_millis(5500) {
        silent.progress();
        assert!(connected.elapsed() < PATIENCE, "it has lost its address");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!pair.disconnect(Duration::from_millis(100)).expect("it was connected"), "the peer was not told");
    assert!(!peer.is_disconnected());
}
