//! Acknowledgements that wait for the application's next call: each of its calls ends the wait.

#[path = "support/join.rs"]
mod join;

use datapath::port::RX_BURST;
use join::join;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, AckTiming, CompletionQueue, Device, Driver, MemoryRegion, ProtectionDomain, QueuePair,
    RecvRequest, SendData, SendRequest, WcStatus,
};

struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

fn host(segment: &str, driver: Driver, acks: AckTiming) -> Host {
    let device = Device::builder().driver(driver).acks(acks).open(segment).expect(segment);
    let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
    let memory = pd.register(64, Access::LOCAL_WRITE | Access::REMOTE_WRITE).expect("memory");
    Host { device, pd, cq, memory }
}

/// Two hosts of a segment with a queue pair each, which have talked: their addresses are known.
fn connected(segment: &str, driver: Driver) -> ([Host; 2], [QueuePair; 2]) {
    connected_as(segment, driver, AckTiming::BehindPosts)
}

/// Two connected hosts whose acknowledgements have the given timing.
fn connected_as(segment: &str, driver: Driver, acks: AckTiming) -> ([Host; 2], [QueuePair; 2]) {
    let hosts = [host(segment, Driver::Inline, acks), host(segment, driver, acks)];
    let prepared = hosts
        .each_ref()
        .map(|host| host.pd.queue_pair(&host.cq, &host.cq).timeout(18).build().expect("built"));
    let mut pairs = join(prepared);
    let mut hosts = hosts;
    pairs[0].post_send(&write(&hosts[1])).expect("posted");
    until(|| {
        hosts[1].device.progress();
        is_acknowledged(&mut hosts[0])
    });
    hosts[1].memory.store_release_u64(0, 0).expect("aligned");
    (hosts, pairs)
}

fn write(to: &Host) -> SendRequest<'static> {
    SendRequest::write(SendData::Inline(b"12345678"), to.memory.remote().at(0)).signaled()
}

/// The first host has written to the second, which has taken it in and owes the acknowledgement.
fn owing(segment: &str) -> ([Host; 2], [QueuePair; 2]) {
    let (mut hosts, mut pairs) = connected(segment, Driver::Inline);
    pairs[0].post_send(&write(&hosts[1])).expect("posted");
    assert_eq!(hosts[1].device.progress().sent, 0);
    assert_eq!(hosts[0].cq.poll(), None);
    (hosts, pairs)
}

fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "not within a minute");
    }
}

fn is_acknowledged(host: &mut Host) -> bool {
    host.cq.poll().is_some_and(|completion| completion.status == WcStatus::Success)
}

#[test]
fn a_post_is_sent_and_the_acknowledgement_behind_it() {
    let (mut hosts, mut pairs) = owing("sim:acks-post");
    pairs[1].post_send(&write(&hosts[0])).expect("posted");
    assert!(is_acknowledged(&mut hosts[0]));
}

#[test]
fn a_batch_is_a_post() {
    let (mut hosts, mut pairs) = owing("sim:acks-batch");
    pairs[1].batch().post_send(&write(&hosts[0])).expect("posted");
    assert!(is_acknowledged(&mut hosts[0]));
}

#[test]
fn a_post_behind_many_sends_the_acknowledgement() {
    let (mut hosts, mut pairs) = connected("sim:acks-many", Driver::Inline);
    for _ in 0..2 {
        pairs[1].post_send(&write(&hosts[0])).expect("posted");
    }
    pairs[0].post_send(&write(&hosts[1])).expect("posted");
    until(|| hosts[1].device.progress().received > 0);
    assert_ne!(hosts[1].memory.load_acquire_u64(0).expect("aligned"), 0);
    pairs[1].post_send(&write(&hosts[0])).expect("posted");
    assert!(is_acknowledged(&mut hosts[0]));
}

#[test]
fn posting_a_receive_sends_it() {
    let (mut hosts, mut pairs) = owing("sim:acks-receive");
    let scatter = [hosts[1].memory.slice(0..8).expect("inside")];
    pairs[1].post_recv(&RecvRequest { wr_id: 0, scatter: &scatter }).expect("posted");
    assert!(is_acknowledged(&mut hosts[0]));
}

#[test]
fn a_call_of_the_control_path_sends_it() {
    let (mut hosts, _pairs) = owing("sim:acks-control");
    drop(hosts[1].device.alloc_pd());
    assert!(is_acknowledged(&mut hosts[0]));
}

#[test]
fn polling_sends_it_even_if_completions_wait() {
    let (mut hosts, mut pairs) = connected("sim:acks-poll", Driver::Inline);
    let scatter = [hosts[1].memory.slice(0..8).expect("inside")];
    let receive = RecvRequest { wr_id: 0, scatter: &scatter };
    pairs[1].post_recv_batch(&[receive, receive]).expect("posted");
    let send = SendRequest::send(SendData::Inline(b"12345678")).signaled();
    let mut batch = pairs[0].batch();
    for _ in 0..2 {
        batch.post_send(&send).expect("posted");
    }
    drop(batch);
    assert!(hosts[1].cq.poll().is_some());
    assert_eq!(hosts[0].cq.poll(), None);
    assert!(hosts[1].cq.poll().is_some(), "both arrived in one turn");
    assert!(is_acknowledged(&mut hosts[0]));
}

/// Sends that request so many times, of which the first asks for an acknowledgement and, as long as
/// it has none, no other.
fn send_many(from: &Host, pair: &mut QueuePair, messages: usize, request: &SendRequest<'_>) {
    let before = from.device.counters().tx_requests;
    pair.post_send(request).expect("posted");
    let mut batch = pair.batch();
    for _ in 1..messages {
        batch.post_send(request).expect("posted");
    }
    drop(batch);
    until(|| {
        from.device.progress();
        from.device.counters().tx_requests == before + messages as u64
    });
}

/// Waits until all of them are acknowledged; nobody else's engine runs.
fn acknowledged(host: &mut Host, messages: usize) {
    let mut ended = 0;
    until(|| {
        ended += usize::from(is_acknowledged(host));
        ended == messages
    });
}

/// With the default timing, what nobody asked for waits until its stream is silent for a turn. Who
/// polls, takes all that it waits for and never calls again must not leave its peer without.
#[test]
fn who_goes_away_with_a_completion_has_acknowledged_it() {
    let (mut hosts, mut pairs) = connected_as("sim:acks-away", Driver::Inline, AckTiming::AtOnce);
    // One more than the receiver takes in a turn.
    let messages = RX_BURST + 1;
    let receive = RecvRequest { wr_id: 0, scatter: &[] };
    pairs[1].post_recv_batch(&vec![receive; messages]).expect("posted");
    send_many(&hosts[0], &mut pairs[0], messages, &SendRequest::send(SendData::Inline(&[])).signaled());
    let mut completions = vec![None; messages];
    let mut taken = 0;
    until(|| {
        taken += hosts[1].cq.poll_into(&mut completions);
        taken == messages
    });
    acknowledged(&mut hosts[0], messages);
}

/// A WRITE completes nothing where it arrives: the poll after the one that took it in acknowledges
/// it.
#[test]
fn who_posts_once_and_only_polls_acknowledges() {
    let (mut hosts, mut pairs) = connected_as("sim:acks-polls", Driver::Inline, AckTiming::AtOnce);
    let messages = RX_BURST + 1;
    pairs[1].post_send(&write(&hosts[0])).expect("posted");
    let request = write(&hosts[1]);
    send_many(&hosts[0], &mut pairs[0], messages, &request);
    // Two polls take all in, the third finds nothing new.
    for _ in 0..3 {
        hosts[1].cq.poll();
    }
    acknowledged(&mut hosts[0], messages);
}

#[test]
fn dropping_the_queue_pair_sends_it() {
    let (mut hosts, pairs) = owing("sim:acks-drop");
    let [_one, two] = pairs;
    drop(two);
    assert!(is_acknowledged(&mut hosts[0]));
}

#[test]
fn a_device_with_a_thread_waits_for_nobody() {
    let (mut hosts, mut pairs) = connected("sim:acks-thread", Driver::THREAD);
    pairs[0].post_send(&write(&hosts[1])).expect("posted");
    until(|| is_acknowledged(&mut hosts[0]));
}
