//! Leaving: what others wait for goes out before a device closes (protocol.md 1.14).

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::{scope, yield_now};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Device, Drained, Driver, Endpoint, Listener, ProtectionDomain, QueuePair,
    RecvRequest, SendData, SendRequest, WcStatus,
};

const PORT: u16 = 7471;
/// Longer than any machine stands still.
const LIMIT: Duration = Duration::from_secs(120);

struct Host {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    device: Device,
}

fn host(driver: Driver, text: &str) -> Host {
    let device = Device::builder().driver(driver).open(text).expect("a device");
    let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    Host { pd, cq, device }
}

fn poll(cq: &mut CompletionQueue) -> WcStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(completion) = cq.poll() {
            return completion.status;
        }
        assert!(Instant::now() < deadline, "no completion");
        yield_now();
    }
}

/// Takes a message and leaves at once, by dropping everything. `meet` exchanges endpoints.
fn take_and_leave(driver: Driver, text: &str, meet: impl FnOnce(Endpoint) -> Endpoint) {
    let mut host = host(driver, text);
    let memory = host.pd.register(64, Access::LOCAL_WRITE).expect("memory");
    let mut pair = host.pd.queue_pair(&host.cq, &host.cq).build().expect("a queue pair");
    let scatter = [memory.slice(..).expect("inside")];
    pair.post_recv(&RecvRequest { wr_id: 1, scatter: &scatter }).expect("posted");
    let peer = meet(pair.endpoint());
    let _pair: QueuePair = pair.connect(&peer).expect("connected");
    assert_eq!(poll(&mut host.cq), WcStatus::Success);
}

/// Who has received a message and leaves does not take its acknowledgement along, though the first
/// two are lost.
#[test]
fn a_message_that_was_received_is_acknowledged_by_who_leaves() {
    for driver in [Driver::Inline, Driver::THREAD] {
        for round in 0..10 {
            let segment = format!("sim:leaving-{driver:?}-{round}");
            let lossy = format!("fault:drop=ack@1-2,dir=tx:{segment}");
            let ((to_there, at_there), (to_here, at_here)) = (channel(), channel());
            scope(|scope| {
                scope.spawn(move || {
                    take_and_leave(driver, &lossy, |endpoint| {
                        to_here.send(endpoint).expect("it waits");
                        at_there.recv().expect("it comes")
                    });
                });
                let mut host = host(driver, &segment);
                let pair = host.pd.queue_pair(&host.cq, &host.cq).build().expect("a queue pair");
                to_there.send(pair.endpoint()).expect("it waits");
                let peer = at_here.recv().expect("it comes");
                let mut pair = pair.connect(&peer).expect("connected");
                pair.post_send(&SendRequest::send(SendData::Inline(b"last")).signaled()).expect("posted");
                assert_eq!(poll(&mut host.cq), WcStatus::Success, "{driver:?}, round {round}");
            });
        }
    }
}

/// Two hosts with a connection by address.
fn connected(name: &str) -> ([Host; 2], [QueuePair; 2]) {
    let hosts = [(); 2].map(|()| host(Driver::Inline, &format!("sim:leaving-{name}")));
    let [here, there] = &hosts;
    let listener = Listener::bind(&there.device, PORT).expect("a listener");
    let to = (there.device.ip(), PORT).into();
    let pairs = scope(|scope| {
        let passive = scope.spawn(|| {
            let pair = there.pd.queue_pair(&there.cq, &there.cq).build().expect("a queue pair");
            let request = listener.get_request(LIMIT).expect("a request");
            request.accept(pair).expect("accepted").wait(LIMIT).expect("connected")
        });
        let pair = here.pd.queue_pair(&here.cq, &here.cq).build().expect("a queue pair");
        let pair = pair.connect_to(to, LIMIT).expect("connected");
        while !passive.is_finished() {
            here.device.progress();
        }
        [pair, passive.join().expect("no panic")]
    });
    (hosts, pairs)
}

#[test]
fn drain_says_what_nobody_has_taken() {
    let ([here, there], [mut pair, other]) = connected("late");
    assert_eq!(here.device.drain(LIMIT), Drained::Everything);
    // Its peer is not driven, and does not answer.
    assert!(!pair.disconnect(Duration::ZERO).expect("by address"));
    let begun = Instant::now();
    let Drained::Late(owed) = here.device.drain(Duration::from_millis(30)) else { panic!("nobody answers") };
    let took = begun.elapsed();
    assert!((Duration::from_millis(30)..LIMIT / 2).contains(&took), "it took {took:?}");
    assert_eq!((owed.connections, owed.frames), (1, 0));
    // Now it does.
    let deadline = Instant::now() + LIMIT;
    while !(pair.is_disconnected() && other.is_disconnected()) {
        here.device.progress();
        there.device.progress();
        assert!(Instant::now() < deadline, "no end");
    }
    assert_eq!(here.device.drain(LIMIT), Drained::Everything);
    assert_eq!(there.device.drain(LIMIT), Drained::Everything);
}

/// The end of a connection that both know costs who leaves a round trip, not the whole linger.
#[test]
fn an_end_that_both_know_is_not_waited_for() {
    let waits = Mutex::new(Vec::new());
    for round in 0..20 {
        let name = format!("sim:leaving-known-{round}");
        let there = host(Driver::THREAD, &name);
        let here = host(Driver::THREAD, &name);
        let listener = Listener::bind(&there.device, PORT).expect("a listener");
        let to = (there.device.ip(), PORT).into();
        scope(|scope| {
            scope.spawn(|| {
                let pair = there.pd.queue_pair(&there.cq, &there.cq).build().expect("a queue pair");
                let pair = listener.get_request(LIMIT).expect("a request").accept(pair).expect("accepted");
                let pair = pair.wait(LIMIT).expect("connected");
                while !pair.is_disconnected() {
                    yield_now();
                }
                let begun = Instant::now();
                assert_eq!(there.device.drain(LIMIT), Drained::Everything);
                waits.lock().expect("no panic").push(begun.elapsed());
            });
            let pair = here.pd.queue_pair(&here.cq, &here.cq).build().expect("a queue pair");
            let mut pair = pair.connect_to(to, LIMIT).expect("connected");
            assert!(pair.disconnect(LIMIT).expect("by address"));
            drop(pair);
        });
    }
    let mut waits = waits.into_inner().expect("no panic");
    waits.sort_unstable();
    // A busy machine makes some longer; the linger would make all of them as long as itself.
    assert!(waits[waits.len() / 4] < Device::DRAIN_LIMIT / 2, "{waits:?}");
}

/// DPDK does not tell what has left its rings. Its devices wait for that only if they have sent
/// lately.
#[cfg(feature = "dpdk")]
#[test]
fn a_device_of_dpdk_that_is_idle_owes_nothing() {
    let path = std::env::temp_dir().join(format!("srnic-leaving-idle-{}", std::process::id()));
    let open =
        |role| Device::open(&format!("memif:{},driver=dpdk,role={role}", path.display())).expect("a device");
    let devices = ["server", "client"].map(open);
    let deadline = Instant::now() + LIMIT;
    while !devices.iter().all(Device::link_up) {
        devices.iter().for_each(|device| _ = device.progress());
        assert!(Instant::now() < deadline, "no link");
    }
    // It asks whether its address is another host's, a few times in two seconds.
    while devices[0].drain(Duration::ZERO) != Drained::Everything {
        devices.iter().for_each(|device| _ = device.progress());
        assert!(Instant::now() < deadline, "it always owes something");
    }
}

#[test]
fn nobody_is_waited_for_where_there_is_no_link() {
    let path = std::env::temp_dir().join(format!("srnic-leaving-{}", std::process::id()));
    let device = Device::open(&format!("memif:{},role=server", path.display())).expect("a device");
    let begun = Instant::now();
    assert_eq!(device.drain(LIMIT), Drained::LinkDown);
    drop(device);
    assert!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
}

/// Nobody else can drive the one while the other goes. Ten times: once may be the machine's.
#[test]
fn two_devices_of_one_thread_do_not_wait_for_each_other() {
    let fastest = (0..10).map(|round| {
        let ([here, there], [mut pair, other]) = connected(&format!("one-thread-{round}"));
        assert!(!pair.disconnect(Duration::ZERO).expect("by address"));
        let begun = Instant::now();
        drop((pair, here));
        drop((other, there));
        begun.elapsed()
    });
    let fastest = fastest.min().expect("ten");
    assert!(fastest < Device::DRAIN_LIMIT / 4, "{fastest:?}");
}
