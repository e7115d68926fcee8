//! What a message does in each state of its connection: the counters that it moves, and what is
//! answered (protocol.md 1.12).

mod support;

use rdma_cm::{CommId, Config, Event, Failure, Manager, Stats};
use std::collections::BTreeMap;
use std::time::Duration;
use support::{MS, PORT, config, ip, terms};
use wire::cm::{Mad, Message, Mra, Refers, Rej, RejReason};

const ACTIVE: usize = 0;
const PASSIVE: usize = 1;

/// A counter's name, and its value.
type Counter = (&'static str, fn(&Stats) -> u64);
/// Counters, and by how much they moved.
type Moved = Vec<(&'static str, u64)>;
/// What a message did: the counters that it moved, and the answers to it.
type Outcome = (Moved, Vec<&'static str>);

fn host(end: usize) -> std::net::IpAddr {
    ip(if end == ACTIVE { 1 } else { 2 })
}

/// The counters that moved, and by how much.
fn moved(before: &Stats, after: &Stats) -> Moved {
    let counters: [Counter; 15] = [
        ("sent", |stats| stats.sent),
        ("retransmitted", |stats| stats.retransmitted),
        ("requests", |stats| stats.requests),
        ("established", |stats| stats.established),
        ("rejected", |stats| stats.rejected),
        ("timed_out", |stats| stats.timed_out),
        ("duplicates", |stats| stats.duplicates),
        ("malformed", |stats| stats.malformed),
        ("strangers", |stats| stats.strangers),
        ("unexpected", |stats| stats.unexpected),
        ("backlog_full", |stats| stats.backlog_full),
        ("table_full", |stats| stats.table_full),
        ("output_full", |stats| stats.output_full),
        ("expired", |stats| stats.expired),
        ("stale", |stats| stats.stale),
    ];
    counters
        .map(|(name, of)| (name, of(after) - of(before)))
        .into_iter()
        .filter(|(_, steps)| *steps != 0)
        .collect()
}

/// Two ends, and the last MAD of each kind that each of them sent.
struct Pair {
    ends: [Manager; 2],
    ids: [CommId; 2],
    mads: BTreeMap<(usize, &'static str), Mad>,
}

/// How far a connection has come, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    /// A REQ is here.
    Requested,
    /// Its REP is.
    Replied,
    /// The RTU is.
    Established,
    /// The active end has ended it, the passive one has not heard of that.
    Leaving,
    /// Nothing is left.
    Over,
}

impl Pair {
    fn at(step: Step) -> Self {
        Self::with(config(2), step)
    }

    fn with(passive: Config, step: Step) -> Self {
        let mut ends = [Manager::new(config(1)), Manager::new(passive)];
        ends[PASSIVE].listen(PORT, 1).expect("a listener");
        let ours = ends[ACTIVE].connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
        let mut pair = Self { ends, ids: [ours; 2], mads: BTreeMap::new() };
        pair.pass(ACTIVE);
        let Some(Event::Requested { id, .. }) = pair.ends[PASSIVE].poll_event() else { panic!("no request") };
        pair.ids[PASSIVE] = id;
        if step >= Step::Replied {
            pair.ends[PASSIVE].accept(MS, id, &terms(2), b"").expect("it waits");
            pair.pass(PASSIVE);
        }
        if step >= Step::Established {
            pair.ends[ACTIVE].established(ours).expect("it was granted");
            pair.pass(ACTIVE);
        }
        if step >= Step::Leaving {
            pair.ends[ACTIVE].close(MS, ours);
            pair.take(ACTIVE);
        }
        if step >= Step::Over {
            let dreq = pair.mads[&(ACTIVE, "DREQ")].emit();
            pair.ends[PASSIVE].handle_mad(MS, host(ACTIVE), &dreq);
            pair.pass(PASSIVE);
            pair.pass(ACTIVE);
        }
        pair
    }

    /// What an end has to send, without sending it.
    fn take(&mut self, from: usize) -> Vec<Mad> {
        let mads = std::iter::from_fn(|| self.ends[from].poll_transmit());
        let mads: Vec<Mad> = mads.map(|transmit| Mad::parse(&transmit.mad[..]).expect("a MAD")).collect();
        for mad in &mads {
            self.mads.insert((from, mad.message.name()), mad.clone());
        }
        mads
    }

    /// Moves what an end has to send to the other one.
    fn pass(&mut self, from: usize) {
        for mad in self.take(from) {
            self.ends[1 - from].handle_mad(MS, host(from), &mad.emit());
        }
    }

    /// The last MAD of this kind comes to the other end, once more.
    fn say(&mut self, from: usize, name: &'static str) -> Outcome {
        self.say_mad(from, &self.mads[&(from, name)].clone())
    }

    /// A MAD comes to the other end: the counters that it moves, and what is answered.
    fn say_mad(&mut self, from: usize, mad: &Mad) -> Outcome {
        let to = 1 - from;
        let before = *self.ends[to].stats();
        self.ends[to].handle_mad(MS, host(from), &mad.emit());
        let moved = moved(&before, self.ends[to].stats());
        (moved, self.take(to).iter().map(|mad| mad.message.name()).collect())
    }
}

/// As `Pair::say` tells what a copy does that is answered.
fn answered(name: &'static str) -> Outcome {
    (vec![("sent", 1), ("duplicates", 1)], vec![name])
}

fn counted(counter: &'static str) -> Outcome {
    (vec![(counter, 1)], vec![])
}

#[test]
fn a_request_is_counted_and_nothing_else() {
    let pair = Pair::at(Step::Requested);
    assert_eq!(moved(&Stats::default(), pair.ends[ACTIVE].stats()), [("sent", 1)]);
    assert_eq!(moved(&Stats::default(), pair.ends[PASSIVE].stats()), [("requests", 1)]);
}

#[test]
fn a_request_that_comes_again_is_answered_as_its_state_asks_for() {
    assert_eq!(Pair::at(Step::Requested).say(ACTIVE, "REQ"), answered("MRA"));
    assert_eq!(Pair::at(Step::Replied).say(ACTIVE, "REQ"), answered("REP"));
    assert_eq!(Pair::at(Step::Established).say(ACTIVE, "REQ"), counted("duplicates"));
    let mut rejected = Pair::at(Step::Requested);
    let id = rejected.ids[PASSIVE];
    rejected.ends[PASSIVE].reject(MS, id, RejReason::CONSUMER, b"").expect("it waits");
    rejected.take(PASSIVE);
    assert_eq!(rejected.say(ACTIVE, "REQ"), answered("REJ"));
}

#[test]
fn a_reply_that_comes_again_is_answered_as_its_state_asks_for() {
    assert_eq!(Pair::at(Step::Replied).say(PASSIVE, "REP"), answered("MRA"));
    assert_eq!(Pair::at(Step::Established).say(PASSIVE, "REP"), answered("RTU"));
    assert_eq!(Pair::at(Step::Leaving).say(PASSIVE, "REP"), counted("unexpected"));
    let mut rejected = Pair::at(Step::Replied);
    let id = rejected.ids[ACTIVE];
    rejected.ends[ACTIVE].close(MS, id);
    rejected.take(ACTIVE);
    assert_eq!(rejected.say(PASSIVE, "REP"), answered("REJ"));
    let mut gone = Pair::at(Step::Replied);
    gone.ends[ACTIVE] = Manager::new(config(1));
    let refused = (vec![("sent", 1), ("rejected", 1), ("strangers", 1)], vec!["REJ"]);
    assert_eq!(gone.say(PASSIVE, "REP"), refused);
}

#[test]
fn a_reply_must_name_a_queue_pair() {
    let reply = Pair::at(Step::Replied).mads[&(PASSIVE, "REP")].clone();
    for (qpn, fits) in [(0, false), (1, true), (0xFF_FFFE, true), (0xFF_FFFF, false)] {
        let mut pair = Pair::at(Step::Requested);
        let Message::Rep(mut rep) = reply.message.clone() else { panic!("no REP") };
        (rep.remote_comm_id, rep.qpn) = (pair.ids[ACTIVE].0, qpn);
        let (moved, _) = pair.say_mad(PASSIVE, &Mad { message: Message::Rep(rep), ..reply.clone() });
        assert_eq!(moved, if fits { vec![] } else { vec![("unexpected", 1)] }, "{qpn:#x}");
        let event = pair.ends[ACTIVE].poll_event();
        assert_eq!(matches!(event, Some(Event::Replied { .. })), fits, "{qpn:#x}");
    }
}

#[test]
fn a_rtu_that_comes_again_or_too_early_is_counted() {
    for step in [Step::Established, Step::Leaving, Step::Over] {
        assert_eq!(Pair::at(step).say(ACTIVE, "RTU"), counted("duplicates"), "{step:?}");
    }
    let rtu = Pair::at(Step::Established).mads[&(ACTIVE, "RTU")].clone();
    let mut early = Pair::at(Step::Requested);
    let Message::Rtu(mut ready) = rtu.message.clone() else { panic!("no RTU") };
    ready.remote_comm_id = early.ids[PASSIVE].0;
    assert_eq!(
        early.say_mad(ACTIVE, &Mad { message: Message::Rtu(ready), ..rtu.clone() }),
        counted("unexpected")
    );
    let mut gone = Pair::at(Step::Established);
    gone.ends[PASSIVE] = Manager::new(config(2));
    assert_eq!(gone.say(ACTIVE, "RTU"), counted("strangers"));
}

/// The MRA with which an end puts an answer to this message off.
fn mra(pair: &mut Pair, from: usize, name: &'static str) -> Mra {
    assert_eq!(pair.say(1 - from, name), answered("MRA"));
    let Message::Mra(mra) = &pair.mads[&(from, "MRA")].message else { panic!("no MRA") };
    (**mra).clone()
}

fn mad_of(mra: Mra) -> Mad {
    Mad { tid: 0, attr_mod: 0, message: Message::Mra(Box::new(mra)) }
}

#[test]
fn an_answer_is_put_off_by_who_was_asked_and_as_often_as_it_may_be_asked() {
    for (step, asked, name, other) in
        [(Step::Requested, PASSIVE, "REQ", Refers::REP), (Step::Replied, ACTIVE, "REP", Refers::REQ)]
    {
        let mut pair = Pair::at(step);
        let mra = mra(&mut pair, asked, name);
        let of_other = mad_of(Mra { refers: other, ..mra.clone() });
        assert_eq!(pair.say_mad(asked, &of_other), counted("unexpected"), "that is not awaited");
        let unknown = mad_of(Mra { remote_comm_id: !mra.remote_comm_id, ..mra.clone() });
        assert_eq!(pair.say_mad(asked, &unknown), counted("strangers"));
        for _ in 0..config(1).retries {
            assert_eq!(pair.say_mad(asked, &mad_of(mra.clone())), (vec![], vec![]));
        }
        assert_eq!(pair.say_mad(asked, &mad_of(mra)), counted("unexpected"), "once too often");
    }
}

#[test]
fn an_answer_that_is_put_off_is_awaited_for_that_time_and_the_interval() {
    let mut pair = Pair::at(Step::Requested);
    let mra = mra(&mut pair, PASSIVE, "REQ");
    for (service_timeout, service) in [(8, 1 << 8), (24, 1 << 24), (25, 1 << 24), (31, 1 << 24)] {
        pair.say_mad(PASSIVE, &mad_of(Mra { service_timeout, ..mra.clone() }));
        let expected = MS + Duration::from_nanos(4096 * service) + config(1).retry_first;
        assert_eq!(pair.ends[ACTIVE].next_deadline(), Some(expected), "code {service_timeout}");
    }
}

#[test]
fn the_end_is_heard_of_once() {
    let mut pair = Pair::at(Step::Leaving);
    assert_eq!(pair.say(ACTIVE, "DREQ"), (vec![("sent", 1)], vec!["DREP"]));
    assert_eq!(pair.say(ACTIVE, "DREQ"), answered("DREP"));
    assert_eq!(pair.say(PASSIVE, "DREP"), (vec![("sent", 1)], vec!["DREP"]), "it may leave now");
    assert_eq!(pair.say(ACTIVE, "DREP"), (vec![], vec![]));
    assert_eq!(pair.say(ACTIVE, "DREP"), counted("duplicates"));
    let mut running = Pair::at(Step::Established);
    let mut drep = pair.mads[&(ACTIVE, "DREP")].clone();
    let Message::Drep(names) = &mut drep.message else { panic!("no DREP") };
    (names.local_comm_id, names.remote_comm_id) = (running.ids[ACTIVE].0, running.ids[PASSIVE].0);
    assert_eq!(running.say_mad(ACTIVE, &drep), counted("unexpected"), "nobody asked");
    running.ends[PASSIVE] = Manager::new(config(2));
    assert_eq!(running.say_mad(ACTIVE, &drep), counted("strangers"));
}

#[test]
fn an_end_is_that_of_a_queue_pair() {
    let mut pair = Pair::at(Step::Leaving);
    let mut dreq = pair.mads[&(ACTIVE, "DREQ")].clone();
    let Message::Dreq(end) = &mut dreq.message else { panic!("no DREQ") };
    end.remote_qpn += 1;
    assert_eq!(pair.say_mad(ACTIVE, &dreq), counted("unexpected"));
    pair.ends[PASSIVE] = Manager::new(config(2));
    let not_there = (vec![("sent", 1), ("strangers", 1)], vec!["DREP"]);
    assert_eq!(pair.say(ACTIVE, "DREQ"), not_there, "it is disconnected already");
}

#[test]
fn what_was_not_granted_cannot_be_ended() {
    let mut dreq = Pair::at(Step::Leaving).mads[&(ACTIVE, "DREQ")].clone();
    let mut pair = Pair::at(Step::Requested);
    let Message::Dreq(end) = &mut dreq.message else { panic!("no DREQ") };
    (end.local_comm_id, end.remote_comm_id) = (pair.ids[ACTIVE].0, pair.ids[PASSIVE].0);
    end.remote_qpn = 0;
    assert_eq!(pair.say_mad(ACTIVE, &dreq), counted("unexpected"));
}

#[test]
fn a_rejection_says_of_which_message_it_is() {
    for (step, end, refers) in [
        (Step::Requested, PASSIVE, Refers::REQ),
        (Step::Replied, ACTIVE, Refers::REP),
        (Step::Replied, PASSIVE, Refers::OTHER),
    ] {
        let mut pair = Pair::at(step);
        let id = pair.ids[end];
        pair.ends[end].close(MS, id);
        let Message::Rej(rej) = pair.take(end).remove(0).message else { panic!("no REJ") };
        assert_eq!((rej.refers, rej.reason), (refers, RejReason::CONSUMER));
        assert_eq!((rej.info_len, rej.info), (0, [0; Rej::INFO]));
        assert_eq!(pair.ends[end].next_deadline(), Some(MS + config(1).reject_wait), "it is remembered");
    }
}

#[test]
fn a_rejection_for_want_of_an_answer_names_the_device() {
    let mut cm = Manager::new(config(1));
    let id = cm.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    cm.close(MS, id);
    let rej = std::iter::from_fn(|| cm.poll_transmit()).last().expect("a REJ");
    let Ok(Mad { message: Message::Rej(rej), .. }) = Mad::parse(&rej.mad[..]) else { panic!("no REJ") };
    assert_eq!((rej.reason, rej.info_len), (RejReason::TIMEOUT, 8));
    assert_eq!(rej.info[..8], config(1).ca_guid.to_be_bytes());
}

#[test]
fn a_rejection_that_comes_again_ends_nothing() {
    let mut pair = Pair::at(Step::Requested);
    let id = pair.ids[ACTIVE];
    pair.ends[ACTIVE].close(MS, id);
    let rej = pair.take(ACTIVE).remove(0);
    assert_eq!(pair.say_mad(ACTIVE, &rej), (vec![], vec![]));
    assert!(matches!(pair.ends[PASSIVE].poll_event(), Some(Event::Failed { .. })));
    assert_eq!(pair.say_mad(ACTIVE, &rej), counted("strangers"));
    let mut over = Pair::at(Step::Over);
    let mut late = rej.clone();
    let Message::Rej(names) = &mut late.message else { panic!("no REJ") };
    (names.local_comm_id, names.remote_comm_id) = (over.ids[ACTIVE].0, over.ids[PASSIVE].0);
    assert_eq!(over.say_mad(ACTIVE, &late), counted("duplicates"));
}

#[test]
fn who_rejects_need_not_have_a_number_but_not_another_one() {
    let mut pair = Pair::at(Step::Replied);
    let refused = Rej {
        local_comm_id: !pair.ids[ACTIVE].0,
        remote_comm_id: pair.ids[PASSIVE].0,
        refers: Refers::REP,
        info_len: 0,
        reason: RejReason::INVALID_COMM_ID,
        info: [0; Rej::INFO],
        private_data: [0; Rej::PRIVATE_DATA],
    };
    let mad = |rej| Mad { tid: 0, attr_mod: 0, message: Message::Rej(Box::new(rej)) };
    assert_eq!(pair.say_mad(ACTIVE, &mad(refused.clone())), counted("strangers"));
    assert_eq!(pair.say_mad(ACTIVE, &mad(Rej { local_comm_id: 0, ..refused })), (vec![], vec![]));
    assert!(matches!(pair.ends[PASSIVE].poll_event(), Some(Event::Failed { .. })));
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let mut full = Pair::with(Config { connections_max: 1, ..config(2) }, Step::Requested);
    full.ends[PASSIVE].listen(PORT + 1, 1).expect("a listener");
    full.ends[ACTIVE].connect(MS, ip(2), PORT + 1, &terms(3), b"").expect("begun");
    full.take(ACTIVE);
    assert_eq!(full.say(ACTIVE, "REQ"), counted("table_full"));
    let mut behind = Pair::at(Step::Requested);
    behind.ends[ACTIVE].connect(MS, ip(2), PORT, &terms(3), b"").expect("begun");
    behind.take(ACTIVE);
    assert_eq!(behind.say(ACTIVE, "REQ"), counted("backlog_full"));
    let mut silent = Pair::with(Config { output_max: 0, ..config(2) }, Step::Requested);
    assert_eq!(silent.say(ACTIVE, "REQ"), (vec![("duplicates", 1), ("output_full", 1)], vec![]));
}

#[test]
fn who_asks_until_a_time_asks_no_more_at_it() {
    let mut cm = Manager::new(config(1));
    let id = cm.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    let until = cm.next_deadline().expect("a copy");
    cm.ask_until(id, until);
    let before = *cm.stats();
    cm.handle_timeouts(until);
    assert_eq!(moved(&before, cm.stats()), [("sent", 1), ("rejected", 1), ("timed_out", 1)]);
}

#[test]
fn what_time_brings_is_counted() {
    let mut cm = Manager::new(Config { retries: 1, ..config(1) });
    let id = cm.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    let first = cm.next_deadline().expect("a copy");
    assert_eq!(first, MS + config(1).retry_first);
    let before = *cm.stats();
    cm.handle_timeouts(first - Duration::from_nanos(1));
    assert_eq!(moved(&before, cm.stats()), [], "not yet");
    cm.handle_timeouts(first);
    assert_eq!(moved(&before, cm.stats()), [("sent", 1), ("retransmitted", 1)]);
    let before = *cm.stats();
    cm.handle_timeouts(cm.next_deadline().expect("the end"));
    assert_eq!(moved(&before, cm.stats()), [("sent", 1), ("rejected", 1), ("timed_out", 1)]);
    assert_eq!(cm.poll_event(), Some(Event::Failed { id, failure: Failure::TimedOut }));

    let mut unwanted = Pair::at(Step::Requested);
    let before = *unwanted.ends[PASSIVE].stats();
    unwanted.ends[PASSIVE].handle_timeouts(MS + config(2).request_lifetime);
    let expected = [("sent", 1), ("rejected", 1), ("expired", 1)];
    assert_eq!(moved(&before, unwanted.ends[PASSIVE].stats()), expected);

    let mut alone = Pair::at(Step::Leaving);
    let before = *alone.ends[ACTIVE].stats();
    let id = alone.ids[ACTIVE];
    while alone.ends[ACTIVE].poll_event() != Some(Event::Disconnected { id }) {
        let next = alone.ends[ACTIVE].next_deadline().expect("a copy, or the end");
        alone.ends[ACTIVE].handle_timeouts(next);
    }
    let copies = u64::from(config(1).retries);
    let expected = [("sent", copies), ("retransmitted", copies), ("timed_out", 1)];
    assert_eq!(moved(&before, alone.ends[ACTIVE].stats()), expected, "nobody answers a DREQ");
}
