//! Completion queues and channels (protocol.md 1.10).

use crate::host::Host;
use crate::lan::Lan;
use crate::net::{Net, connect, nothing};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, AsyncEvent, Completion, CompletionChannel, QpState, QueueCaps, RemoteAddr, SendData, SendRequest,
    WcOpcode, WcStatus, WindowType,
};

/// A connection whose second side has a channel.
fn with_channel(lan: Lan) -> (Net, CompletionChannel) {
    let mut hosts = lan.hosts();
    let channel = hosts[1].device.create_channel().expect("a descriptor");
    hosts[1].cq = hosts[1].device.create_cq_on(&channel, 64).expect("a queue");
    let pairs = connect(&hosts, |_, builder| builder);
    (Net { hosts, pairs }, channel)
}

/// Waits for an event of the second side; the first is driven meanwhile.
fn wait(net: &Net, channel: &CompletionChannel) -> u32 {
    let mut event = None;
    net.wait_until("an event", || {
        event = channel.wait(Duration::from_micros(100)).expect("a channel");
        event.is_some()
    });
    event.expect("waited for")
}

/// Lets the engine end its turn: what was polled in the middle of one makes no event after this.
fn settle(host: &Host) {
    let _ = host.device.usage();
}

on_every_lan! {

/// A queue of requests that are not signaled fills, says what to do, and empties without a
/// completion.
fn places_of_unsignaled_requests_are_free_when_these_are_done(lan: Lan) {
    let caps = QueueCaps { max_send_wr: 4, ..QueueCaps::default() };
    let mut net = Net::with(lan, |_, builder| builder.caps(caps));
    let region = net.hosts[1].region(8);
    let at = region.remote().at(0);
    for round in 0..10_u64 {
        // The engine sees them when the batch ends.
        let mut batch = net.pairs[0].batch();
        let word = round.to_ne_bytes();
        let mut post = || batch.post_send(&SendRequest::write(SendData::Inline(&word), at));
        for _ in 0..4 {
            post().expect("there is room");
        }
        let said = post().expect_err("it is full").to_string();
        drop(batch);
        assert!(said.contains("holds 4 work requests") && said.contains("also if no completion"), "{said}");
        net.wait_until("room", || net.pairs[0].outstanding() == 0);
        assert_eq!(net.hosts[0].cq.poll(), None);
    }
}

/// Completions come in the order of their requests, of each kind with its opcode; unsignaled ones
/// not at all.
fn completions_come_in_order_with_their_opcodes(lan: Lan) {
    let mut net = Net::new(lan);
    let (local, remote) = (net.hosts[0].region(64), net.hosts[1].pd.register(64, crate::net::ALL).expect("memory"));
    let (sge, at) = (local.slice(..8).expect("inside"), remote.remote().at(0));
    for wr_id in 0..3 {
        net.receive(1, wr_id, &[]);
    }
    for (wr_id, request) in [
        SendRequest::send(SendData::Inline(&[])),
        SendRequest::write(SendData::Inline(&[1; 8]), at),
        SendRequest::read(&[sge], at),
        SendRequest::compare_and_swap(sge, at, 0, 1),
        SendRequest::fetch_and_add(sge, at, 1),
        SendRequest::write(SendData::Inline(&[2; 8]), at).with_imm(5),
        SendRequest::send(SendData::Inline(&[])).with_imm(6),
    ]
    .into_iter()
    .enumerate()
    {
        // Each before it is not signaled.
        net.post(0, &SendRequest::write(SendData::Inline(&[]), at));
        net.post(0, &request.id(wr_id as u64).signaled());
    }
    for (wr_id, opcode) in [
        WcOpcode::Send,
        WcOpcode::RdmaWrite,
        WcOpcode::RdmaRead,
        WcOpcode::CompSwap,
        WcOpcode::FetchAdd,
        WcOpcode::RdmaWrite,
        WcOpcode::Send,
    ]
    .into_iter()
    .enumerate()
    {
        let done = net.done(0);
        assert_eq!((done.wr_id, done.opcode, done.status), (wr_id as u64, opcode, WcStatus::Success));
        assert_eq!(done.qpn, net.pairs[0].qpn());
    }
    for (wr_id, (opcode, imm)) in
        [(WcOpcode::Recv, 0), (WcOpcode::RecvRdmaWithImm, 5), (WcOpcode::Recv, 6)].into_iter().enumerate()
    {
        let done = net.done(1);
        assert_eq!((done.wr_id, done.opcode, done.imm), (wr_id as u64, opcode, imm));
    }
}

/// What fails completes, signaled or not.
fn an_error_completes_even_unsignaled(lan: Lan) {
    let mut net = Net::new(lan);
    let nowhere = RemoteAddr { addr: 0, rkey: 0xFFFF_FFFF };
    net.post(0, &SendRequest::write(SendData::Inline(&[1]), nowhere).id(8));
    assert_eq!(net.ended(0), (8, WcStatus::RemAccessErr));
}

/// Several at once, as many as there are.
fn completions_are_polled_together(lan: Lan) {
    let mut net = Net::new(lan);
    for wr_id in 0..10 {
        net.receive(1, wr_id, &[]);
        net.post(0, &nothing().id(wr_id));
    }
    let mut found: Vec<u64> = Vec::new();
    while found.len() < 10 {
        net.hosts[1].device.progress();
        let mut out: [Option<Completion>; 4] = Default::default();
        let count = net.hosts[0].cq.poll_into(&mut out);
        assert!(out.iter().take(count).all(Option::is_some) && out.iter().skip(count).all(Option::is_none));
        found.extend(out.iter().flatten().map(|completion| completion.wr_id));
    }
    assert_eq!(found, (0..10).collect::<Vec<_>>());
}

/// A queue that runs over is an event, ends the queue pair whose completion was lost, and keeps
/// what it has.
fn a_queue_that_runs_over_says_so(lan: Lan) {
    let mut hosts = lan.hosts();
    hosts[1].cq = hosts[1].device.create_cq(4).expect("a queue");
    let pairs = connect(&hosts, |_, builder| builder);
    let mut net = Net { hosts, pairs };
    let entries = u64::from(net.hosts[1].cq.entries());
    for wr_id in 0..=entries {
        net.receive(1, wr_id, &[]);
        net.post(0, &nothing());
    }
    let (cq, qpn) = (net.hosts[1].cq.number(), net.pairs[1].qpn());
    assert_eq!(net.event(1), AsyncEvent::CqOverrun { cq, qpn });
    assert_eq!(net.event(1), AsyncEvent::QpFatal { qpn });
    for wr_id in 0..entries {
        assert_eq!(net.ended(1), (wr_id, WcStatus::Success));
    }
    assert_eq!(net.hosts[1].cq.poll(), None);
}

/// Two queue pairs share a completion queue of sends that runs over: the one whose completion was
/// lost ends, the other goes on.
fn a_shared_queue_that_runs_over_ends_who_lost(lan: Lan) {
    let mut hosts = lan.hosts();
    hosts[0].cq = hosts[0].device.create_cq(4).expect("a queue");
    let [first, second] = [0, 1].map(|_| connect(&hosts, |_, builder| builder));
    let mut net = Net { hosts, pairs: first };
    let (mut other, peer) = second.into();
    let target = net.hosts[1].region(8);
    let write = SendRequest::write(SendData::Inline(&[1; 8]), target.remote().at(0)).signaled();
    let entries = u64::from(net.hosts[0].cq.entries());
    for wr_id in 0..entries {
        other.post_send(&write.id(wr_id)).expect("posted");
    }
    net.wait_until("all have completed", || other.outstanding() == 0);
    net.post(0, &write.id(100));
    let (cq, qpn) = (net.hosts[0].cq.number(), net.pairs[0].qpn());
    assert_eq!([net.event(0), net.event(0)], [AsyncEvent::CqOverrun { cq, qpn }, AsyncEvent::QpFatal { qpn }]);
    assert_eq!([other.state(), peer.state()], [QpState::Rts; 2]);
    for wr_id in 0..entries {
        assert_eq!(net.ended(0), (wr_id, WcStatus::Success));
    }
    other.post_send(&write.id(101)).expect("posted");
    assert_eq!(net.ended(0), (101, WcStatus::Success));
}

/// One channel tells of each of its queues, whatever completes there.
fn a_channel_tells_of_all_its_queues(lan: Lan) {
    let mut hosts = lan.hosts();
    let channel = hosts[0].device.create_channel().expect("a descriptor");
    let region = hosts[1].pd.register(64, crate::net::ALL).expect("memory");
    let (at, result) = (region.remote().at(0), hosts[0].pd.register(64, crate::net::ALL | Access::MW_BIND).expect("memory"));
    let into = crate::net::whole(&result);
    let word = [result.slice(..8).expect("inside")];
    let requests = [
        SendRequest::write(SendData::Inline(&[0; 8]), at),
        SendRequest::read(&into, at),
        SendRequest::fetch_and_add(word[0], at, 1),
        SendRequest::compare_and_swap(word[0], at, 1, 2),
    ];
    let mut queues: Vec<_> = (0..=requests.len())
        .map(|_| hosts[0].device.create_cq_on(&channel, 16).expect("a queue"))
        .collect();
    let mut pairs: Vec<_> = Vec::new();
    for cq in &mut queues {
        core::mem::swap(&mut hosts[0].cq, cq);
        pairs.push(connect(&hosts, |_, builder| builder));
        core::mem::swap(&mut hosts[0].cq, cq);
        cq.arm(false).expect("it has a channel");
    }
    for ([pair, _], request) in pairs.iter_mut().zip(&requests) {
        pair.post_send(&request.signaled()).expect("posted");
    }
    let mut window = hosts[0].pd.alloc_window(WindowType::One).expect("a window");
    let last = requests.len();
    window.bind(&mut pairs[last][0], 9, &result, .., Access::REMOTE_READ).expect("posted");
    let mut told = Vec::new();
    let deadline = Instant::now() + crate::host::wait::PATIENCE;
    while told.len() < queues.len() {
        told.extend(channel.wait(Duration::from_micros(100)).expect("a channel"));
        hosts[1].device.progress();
        assert!(Instant::now() < deadline, "{told:?} within a minute");
    }
    told.sort_unstable();
    let mut numbers: Vec<_> = queues.iter().map(verbs_api::CompletionQueue::number).collect();
    numbers.sort_unstable();
    assert_eq!(told, numbers, "each once");
    assert_eq!(channel.take_event(), None);
    for cq in &mut queues {
        assert_eq!(cq.poll().map(|done| done.status), Some(WcStatus::Success));
    }
}

/// A queue that is made larger keeps what waits in it.
fn a_queue_is_resized_with_what_is_in_it(lan: Lan) {
    let mut net = Net::new(lan);
    for wr_id in 0..8 {
        net.receive(1, wr_id, &[]);
        net.post(0, &nothing().id(wr_id));
        assert_eq!(net.ended(0), (wr_id, WcStatus::Success));
    }
    let error = net.hosts[1].cq.resize(2).expect_err("eight wait").to_string();
    assert!(error.contains("8 completions wait"), "{error}");
    net.hosts[1].cq.resize(1000).expect("room");
    for wr_id in 0..8 {
        assert_eq!(net.ended(1), (wr_id, WcStatus::Success));
    }
}

/// A queue that is armed tells once, and no more until it is armed again.
fn an_armed_queue_tells_once(lan: Lan) {
    let (mut net, channel) = with_channel(lan);
    for round in 0..5 {
        net.receive(1, round, &[]);
        net.receive(1, round, &[]);
        settle(&net.hosts[1]);
        net.hosts[1].cq.arm(false).expect("it has a channel");
        net.post(0, &nothing());
        assert_eq!(wait(&net, &channel), net.hosts[1].cq.number());
        assert_eq!(net.ended(1), (round, WcStatus::Success));
        net.post(0, &nothing());
        assert_eq!(net.ended(1), (round, WcStatus::Success));
        assert_eq!(channel.take_event(), None, "it was not armed");
        assert_eq!([net.ended(0).1, net.ended(0).1], [WcStatus::Success; 2]);
    }
}

/// Armed for solicited ones, a queue tells of those, and of failures, and of nothing else.
fn a_wish_for_solicited_ones_is_kept(lan: Lan) {
    let (mut net, channel) = with_channel(lan);
    for wr_id in 0..4 {
        net.receive(1, wr_id, &[]);
    }
    net.hosts[1].cq.arm(true).expect("it has a channel");
    net.post(0, &nothing());
    assert_eq!(net.ended(1), (0, WcStatus::Success));
    settle(&net.hosts[1]);
    assert_eq!(channel.take_event(), None);
    net.post(0, &nothing().solicited());
    assert_eq!(wait(&net, &channel), net.hosts[1].cq.number());
    assert_eq!(net.ended(1), (1, WcStatus::Success));
    settle(&net.hosts[1]);
    net.hosts[1].cq.arm(true).expect("it has a channel");
    net.pairs[1].abort().expect("any state goes to ERR");
    assert_eq!(wait(&net, &channel), net.hosts[1].cq.number(), "a failure is solicited");
    assert_eq!([net.ended(1), net.ended(1)], [(2, WcStatus::WrFlushErr), (3, WcStatus::WrFlushErr)]);
}

}
