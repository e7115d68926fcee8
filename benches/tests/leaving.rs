//! Programs that end their connection in an orderly way and leave, at 1 % loss in both directions:
//! nobody waits for them, whatever is lost (protocol.md 1.14).

#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../tools/tests/support/mod.rs"]
mod support;

use srnic_tools::dial::dial;
use srnic_tools::switch::{PortSpec, Switch};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{LIMIT, Place};
use verbs_api::{Access, Connector, Device, Listener, RecvRequest, SendData, SendRequest};

const PORT: u16 = 7471;
/// What no end takes longer than: a peer that has left is waited for 9 s.
const END: Duration = Duration::from_secs(5);
/// Ends that run with every test.
const SHORT: u64 = 100;

/// Where both hosts are.
trait Way: Sync {
    /// The device of host 1 or 2.
    fn device(&self, host: u8) -> String;
}

struct Pair(Place);

impl Way for Pair {
    fn device(&self, host: u8) -> String {
        let role = if host == 1 { "server" } else { "client" };
        format!("memif:{},role={role}", self.0.path("s").display())
    }
}

struct Switched(Place);

impl Switched {
    fn socket(&self, host: u8) -> String {
        self.0.path(&format!("{host}.sock")).display().to_string()
    }

    fn switch(&self) -> Switch {
        let mut switch = Switch::default();
        for host in [1, 2] {
            let spec: PortSpec = format!("memif:{}", self.socket(host)).parse().expect("a port");
            switch.attach(spec.open().expect("opened"), spec.queue);
        }
        switch
    }
}

impl Way for Switched {
    fn device(&self, host: u8) -> String {
        format!("memif:{},role=client,ip=10.77.0.{host}", self.socket(host))
    }
}

/// The device of this host in this round.
fn open(way: &impl Way, host: u8, round: u64) -> Device {
    let seed = 2 * round + u64::from(host);
    let spec = format!("fault:loss=1%,dir=tx,seed={seed}:{}", way.device(host));
    Device::open(&spec).expect("a device")
}

fn until_linked(device: &Device) {
    let deadline = Instant::now() + LIMIT;
    while !device.link_up() {
        device.progress();
        thread::yield_now();
        assert!(Instant::now() < deadline, "no link");
    }
}

/// Takes a message, waits until the peer has ended the connection, and leaves; how long that took
/// from when it knew.
fn answer(way: &impl Way, round: u64, ready: &Barrier) -> Duration {
    let device = open(way, 1, round);
    let listener = Listener::bind(&device, PORT).expect("a listener");
    until_linked(&device);
    ready.wait();
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    let memory = pd.register(64, Access::LOCAL_WRITE).expect("memory");
    let mut prepared = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
    let scatter = [memory.slice(..).expect("inside")];
    prepared.post_recv(&RecvRequest { wr_id: 1, scatter: &scatter }).expect("posted");
    let pair = listener.get_request(LIMIT).expect("a request").accept(prepared).expect("accepted");
    let pair = pair.wait(LIMIT).expect("connected");
    let deadline = Instant::now() + LIMIT;
    while !pair.is_disconnected() {
        device.progress();
        thread::yield_now();
        assert!(Instant::now() < deadline, "the peer never left");
    }
    let knew = Instant::now();
    assert_eq!(cq.poll().map(|completion| completion.byte_len), Some(5), "the message came");
    drop((pair, memory, cq, pd, listener, device));
    knew.elapsed()
}

/// Sends a message, ends the connection, and leaves; how long that took from when the message had
/// arrived.
fn lead(way: &impl Way, round: u64, ready: &Barrier) -> Duration {
    let device = open(way, 2, round);
    until_linked(&device);
    ready.wait();
    let (pd, mut cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
    let to = ([10, 77, 0, 1], PORT).into();
    let prepare = || Ok((pd.queue_pair(&cq, &cq).build()?, ()));
    let (mut pair, ()) = dial(&device, Connector::new(), to, LIMIT, prepare).expect("connected");
    pair.post_send(&SendRequest::send(SendData::Inline(b"hello")).signaled()).expect("posted");
    let deadline = Instant::now() + LIMIT;
    while cq.poll().is_none() {
        thread::yield_now();
        assert!(Instant::now() < deadline, "the message never came");
    }
    let done = Instant::now();
    assert!(pair.disconnect(LIMIT).expect("a connection by address"), "over on both sides");
    drop((pair, cq, pd, device));
    done.elapsed()
}

/// The longest of so many ends.
fn longest_end(way: &impl Way, rounds: u64) -> Duration {
    let (ready, over) = (Barrier::new(2), Barrier::new(2));
    let each = |end: fn(&_, u64, &Barrier) -> Duration| {
        let mut longest = Duration::ZERO;
        for round in 0..rounds {
            longest = longest.max(end(way, round, &ready));
            over.wait();
        }
        longest
    };
    thread::scope(|scope| {
        let server = scope.spawn(|| each(answer));
        let client = each(lead);
        client.max(server.join().expect("no panic"))
    })
}

fn over_memif(rounds: u64) {
    let took = longest_end(&Pair(Place::new("leaving")), rounds);
    assert!(took < END, "an end took {took:?}");
}

fn over_the_switch(rounds: u64) {
    let way = Switched(Place::new("leaving-switch"));
    let mut switch = way.switch();
    let stop = AtomicBool::new(false);
    let took = thread::scope(|scope| {
        scope.spawn(|| switch.run(|| stop.load(Ordering::Relaxed), |why| panic!("{why}")));
        let took = longest_end(&way, rounds);
        stop.store(true, Ordering::Relaxed);
        took
    });
    assert!(took < END, "an end took {took:?}");
}

#[test]
fn no_end_over_memif_waits_for_who_has_left() {
    over_memif(SHORT);
}

#[test]
fn no_end_over_the_switch_waits_for_who_has_left() {
    over_the_switch(SHORT);
}

#[test]
#[ignore = "a thousand each way: minutes"]
fn a_thousand_ends() {
    over_memif(1000);
    over_the_switch(1000);
}
