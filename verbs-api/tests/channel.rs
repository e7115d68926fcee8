//! Completion channels: who armed a queue is woken, once, and never too late.

#[macro_use]
#[path = "support/drivers.rs"]
mod drivers;
#[path = "support/join.rs"]
mod join;

use join::join;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;
use verbs_api::{
    CompletionChannel, CompletionQueue, CongestionAlgorithm, Device, Driver, Error, ProtectionDomain,
    QueuePair, RecvRequest, SendData, SendRequest, WcStatus,
};

const LONG: Duration = Duration::from_secs(60);

struct Host {
    device: Device,
    channel: CompletionChannel,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

/// Two hosts of a segment whose queue pairs are connected.
fn pair(driver: Driver, name: &str) -> ([Host; 2], [QueuePair; 2]) {
    let hosts = [(); 2].map(|()| {
        let device =
            Device::builder().driver(driver).open(&format!("sim:{name}-{driver:?}")).expect("a device");
        let (channel, pd) = (device.create_channel().expect("a descriptor"), device.alloc_pd());
        let cq = device.create_cq_on(&channel, 256).expect("a queue");
        Host { device, channel, pd, cq }
    });
    let prepared = [0, 1].map(|index: usize| {
        let Host { pd, cq, .. } = &hosts[index];
        pd.queue_pair(cq, cq)
            .congestion(CongestionAlgorithm::Fixed)
            .timeout(18)
            .build()
            .expect("a queue pair")
    });
    (hosts, join(prepared))
}

fn post_receives(b: &mut QueuePair, count: usize) {
    b.post_recv_batch(&vec![RecvRequest { wr_id: 0, scatter: &[] }; count]).expect("posted");
}

/// Waits on the channel of `to`, whose peer must be driven, too.
fn wait(to: &Host, from: &Host) -> u32 {
    for _ in 0..60_000 {
        from.device.progress();
        if let Some(number) = to.channel.wait(Duration::from_millis(1)).expect("a channel") {
            return number;
        }
    }
    panic!("no event within a minute");
}

fn readable(channel: &CompletionChannel) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&now)).expect("poll works") == 1
}

/// Lets the engine end its turn: what was polled in the middle of one makes no event after this.
fn settle(host: &Host) {
    let _ = host.device.usage();
}

fn nothing() -> SendRequest<'static> {
    SendRequest::send(SendData::Inline(&[]))
}

with_all_drivers! {

fn an_armed_queue_tells_once_and_only_when_armed_again(driver: Driver) {
    let ([one, mut two], [mut a, mut b]) = pair(driver, "once");
    post_receives(&mut b, 100);
    for round in 0..50 {
        settle(&two);
        two.cq.arm(false).expect("it has a channel");
        assert_eq!(two.cq.poll(), None);
        a.post_send(&nothing()).expect("posted");
        assert_eq!(wait(&two, &one), two.cq.number(), "round {round}");
        assert!(!readable(&two.channel), "one event was one event");
        assert_eq!(two.cq.poll().map(|completion| completion.status), Some(WcStatus::Success));
        // Not armed: nobody is told.
        a.post_send(&nothing()).expect("posted");
        while two.cq.poll().is_none() {
            one.device.progress();
        }
        assert_eq!(two.channel.take_event(), None, "round {round}");
    }
}

fn a_wish_for_solicited_ones_is_answered_by_nothing_less(driver: Driver) {
    let ([one, mut two], [mut a, mut b]) = pair(driver, "solicited");
    post_receives(&mut b, 100);
    two.cq.arm(true).expect("it has a channel");
    a.post_send(&nothing()).expect("posted");
    while two.cq.poll().is_none() {
        one.device.progress();
    }
    assert_eq!(two.channel.take_event(), None, "it was not solicited");
    a.post_send(&nothing().solicited()).expect("posted");
    assert_eq!(wait(&two, &one), two.cq.number());
    assert!(two.cq.poll().is_some());
    settle(&two);
    // The wish for any is the stronger one, in either order.
    for wishes in [[true, false], [false, true]] {
        for wish in wishes {
            two.cq.arm(wish).expect("it has a channel");
        }
        a.post_send(&nothing()).expect("posted");
        assert_eq!(wait(&two, &one), two.cq.number());
        while two.cq.poll().is_some() {}
        settle(&two);
    }
    // A failure counts as solicited.
    two.cq.arm(true).expect("it has a channel");
    b.abort().expect("any state goes to ERR");
    assert_eq!(wait(&two, &one), two.cq.number());
    assert_eq!(two.cq.poll().map(|completion| completion.status), Some(WcStatus::WrFlushErr));
}

fn a_queue_that_goes_takes_its_events_with_it(driver: Driver) {
    let ([one, two], [mut a, mut b]) = pair(driver, "gone");
    post_receives(&mut b, 1);
    two.cq.arm(false).expect("it has a channel");
    a.post_send(&nothing()).expect("posted");
    for _ in 0..60_000 {
        if readable(&two.channel) {
            break;
        }
        for host in [&one, &two] {
            host.device.progress();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(readable(&two.channel), "no event within a minute");
    let Host { device, channel, pd, cq } = two;
    drop((b, cq));
    assert!(!readable(&channel));
    assert_eq!(channel.take_event(), None);
    drop((device, pd));
}

fn a_resized_queue_keeps_what_waits_and_what_is_armed(driver: Driver) {
    let ([one, mut two], [mut a, mut b]) = pair(driver, "resized");
    post_receives(&mut b, 100);
    let mut a_cq = one.device.create_cq(1).expect("a queue");
    two.cq.arm(false).expect("it has a channel");
    for wr_id in 0..20 {
        a.post_send(&nothing().with_imm(wr_id)).expect("posted");
    }
    wait(&two, &one);
    while two.device.counters().rx_in_order < 20 {
        for host in [&one, &two] {
            host.device.progress();
        }
    }
    let error = two.cq.resize(8).expect_err("twenty wait").to_string();
    assert_eq!(error, "20 completions wait; poll them first, or give the queue that many entries");
    two.cq.arm(false).expect("it has a channel");
    two.cq.resize(1000).expect("room");
    assert_eq!(two.cq.entries(), 1024);
    a.post_send(&nothing().with_imm(20)).expect("posted");
    assert_eq!(wait(&two, &one), two.cq.number(), "the wish moved with the queue");
    for imm in 0..=20 {
        assert_eq!(two.cq.poll().map(|completion| completion.imm), Some(imm));
    }
    two.cq.resize(8).expect("nothing waits");
    assert_eq!(two.cq.entries(), 8);
    assert!(matches!(two.cq.resize(0), Err(Error::Create(_))));
    assert!(matches!(a_cq.arm(false), Err(Error::NoChannel)));
    a_cq.resize(2).expect("it needs no channel");
}

fn who_waits_in_vain_gets_nothing(driver: Driver) {
    let ([one, _two], _pairs) = pair(driver, "vain");
    one.cq.arm(false).expect("it has a channel");
    assert_eq!(one.channel.wait(Duration::from_millis(2)).expect("a channel"), None);
}

}

/// Nobody polls and nobody drives: the engine's thread wakes who waits.
#[test]
fn a_blocked_thread_is_woken_by_the_engines_thread() {
    let ([_one, mut two], [mut a, mut b]) = pair(Driver::THREAD, "blocked");
    post_receives(&mut b, 100);
    for round in 0..100 {
        settle(&two);
        two.cq.arm(false).expect("it has a channel");
        assert_eq!(two.cq.poll(), None);
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| two.channel.wait(LONG).expect("a channel"));
            // Sometimes before it sleeps, sometimes after.
            std::thread::sleep(Duration::from_micros(20 * round));
            a.post_send(&nothing()).expect("posted");
            waiting.join().expect("no panic")
        });
        assert_eq!(waiting, Some(two.cq.number()), "round {round}");
        assert!(two.cq.poll().is_some());
    }
}

#[test]
fn a_channel_of_another_device_is_refused() {
    let ([one, two], _pairs) = pair(Driver::Inline, "other");
    let error = one.device.create_cq_on(&two.channel, 1).err().expect("refused");
    assert!(matches!(error, Error::OtherDevice { what: "completion channel" }));
}
