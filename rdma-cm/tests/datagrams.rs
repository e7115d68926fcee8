//! Services of datagrams: questions and answers (SIDR), each lost, doubled, late, or a stranger's.

use rdma_cm::{CmError, CommId, Config, Event, Failure, Manager, Question, Service};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::cm::{Mad, Message, SidrStatus};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const PORT: u16 = 7174;
const SERVICE: Service = Service { qpn: 17, qkey: 0x0123_4567 };

fn ip(host: usize) -> IpAddr {
    [10, 0, 0, if host == 0 { 1 } else { 2 }].into()
}

/// Two hosts. What is sent arrives at once, unless it is lost by its number among all.
struct Net {
    ends: [Manager; 2],
    now: Duration,
    sent: Vec<(usize, &'static str)>,
    lost: Vec<usize>,
    events: [Vec<Event>; 2],
}

impl Net {
    fn new(lost: &[usize]) -> Self {
        let end =
            |host: usize| Manager::new(Config::new(ip(host), 7, [u8::try_from(host).expect("0 or 1"); 32]));
        Self {
            ends: [end(0), end(1)],
            now: SECOND,
            sent: Vec::new(),
            lost: lost.to_vec(),
            events: [Vec::new(), Vec::new()],
        }
    }

    fn look_up(&mut self, patience: Duration) -> CommId {
        let (to, until) = (SocketAddr::new(ip(1), PORT), self.now + patience);
        self.ends[0].look_up(self.now, to, 999, b"please", until).expect("begun")
    }

    /// Until nothing moves at this time.
    fn settle(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for from in 0..2 {
                while let Some(transmit) = self.ends[from].poll_transmit() {
                    moved = true;
                    let name = Mad::parse(&transmit.mad[..]).expect("a MAD").message.name();
                    self.sent.push((from, name));
                    if !self.lost.contains(&(self.sent.len() - 1)) {
                        self.ends[1 - from].handle_mad(self.now, ip(from), &transmit.mad[..]);
                    }
                }
                while let Some(event) = self.ends[from].poll_event() {
                    self.events[from].push(event);
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.ends.iter().filter_map(Manager::next_deadline).min()
            && next <= end
        {
            self.now = self.now.max(next);
            let now = self.now;
            self.ends.iter_mut().for_each(|manager| manager.handle_timeouts(now));
            self.settle();
        }
        self.now = end;
    }

    /// The question that the second host was asked.
    fn asked(&self) -> CommId {
        match self.events[1][..] {
            [Event::Asked { id, port: PORT }] => id,
            _ => panic!("{:?}", self.events[1]),
        }
    }
}

#[test]
fn a_service_is_found_by_its_port() {
    let mut net = Net::new(&[]);
    net.ends[1].listen_for_datagrams(PORT, 1).expect("free");
    assert_eq!(net.ends[1].listen_for_datagrams(PORT, 1), Err(CmError::PortInUse(PORT)));
    net.ends[1].listen(PORT, 1).expect("ports of connections are others");
    let id = net.look_up(SECOND);
    net.run(MS);
    let question = net.asked();
    let Question { peer, port, private_data } = net.ends[1].question(question).expect("it waits").clone();
    assert_eq!((peer, port, &private_data[..7]), (SocketAddr::new(ip(0), 999), PORT, &b"please\0"[..]));
    let now = net.now;
    net.ends[1].serve(now, question, SERVICE, b"here").expect("served");
    assert_eq!(net.ends[1].serve(now, question, SERVICE, b""), Err(CmError::State));
    net.run(MS);
    let [Event::Found { id: found, service, private_data }] = &net.events[0][..] else {
        panic!("{:?}", net.events[0]);
    };
    assert_eq!((*found, *service, &private_data[..5]), (id, SERVICE, &b"here\0"[..]));
    assert_eq!(net.sent, [(0, "SIDR_REQ"), (1, "SIDR_REP")]);
    assert_eq!((net.ends[0].connections(), net.ends[1].owes(net.now)), (0, 1));
    net.run(3 * SECOND);
    assert_eq!((net.ends[1].connections(), net.ends[1].owes(net.now)), (0, 0), "the answer is forgotten");
}

#[test]
fn what_is_lost_is_said_again_and_the_program_asked_once() {
    for lost in [&[0][..], &[1], &[0, 1, 2], &[1, 3, 5]] {
        let mut net = Net::new(lost);
        net.ends[1].listen_for_datagrams(PORT, 4).expect("free");
        let id = net.look_up(SECOND);
        while net.events[1].is_empty() {
            net.run(10 * MS);
        }
        let (question, now) = (net.asked(), net.now);
        net.ends[1].serve(now, question, SERVICE, b"").expect("served");
        net.run(2 * SECOND);
        assert!(matches!(net.events[0][..], [Event::Found { id: found, .. }] if found == id), "{lost:?}");
        assert_eq!(net.events[1].len(), 1, "{lost:?}: {:?}", net.events[1]);
    }
}

#[test]
fn a_service_that_comes_late_is_found_and_one_that_never_comes_is_not() {
    let mut net = Net::new(&[]);
    net.look_up(SECOND);
    net.run(100 * MS);
    assert!(net.events[0].is_empty(), "it is asked for again");
    net.ends[1].listen_for_datagrams(PORT, 1).expect("free");
    net.run(300 * MS);
    net.asked();

    let mut net = Net::new(&[]);
    let id = net.look_up(SECOND);
    net.run(20 * SECOND);
    let failure = Failure::NotServed { status: SidrStatus::UNSUPPORTED };
    assert_eq!(net.events[0], [Event::Failed { id, failure }]);
    assert_eq!(net.ends[0].connections() + net.ends[1].connections(), 0);
}

#[test]
fn who_does_not_answer_is_given_up() {
    let everything: Vec<usize> = (0..100).collect();
    let mut net = Net::new(&everything);
    let id = net.look_up(MS);
    net.run(60 * SECOND);
    assert_eq!(net.events[0], [Event::Failed { id, failure: Failure::TimedOut }]);
    assert_eq!(net.sent.len(), 16, "the first, and fifteen more");
    // Nobody has the address.
    let mut net = Net::new(&everything);
    let id = net.look_up(MS);
    net.run(10 * MS);
    net.ends[0].handle_unreachable(net.now, ip(1));
    net.settle();
    assert_eq!(net.events[0], [Event::Failed { id, failure: Failure::Unreachable }]);
}

#[test]
fn a_program_refuses_or_says_nothing() {
    let mut net = Net::new(&[]);
    net.ends[1].listen_for_datagrams(PORT, 1).expect("free");
    let id = net.look_up(MS);
    net.run(MS);
    let (question, now) = (net.asked(), net.now);
    net.ends[1].close(now, question);
    net.run(MS);
    let failure = Failure::NotServed { status: SidrStatus::REJECTED };
    assert_eq!(net.events[0], [Event::Failed { id, failure }]);

    let mut net = Net::new(&[]);
    net.ends[1].listen_for_datagrams(PORT, 1).expect("free");
    net.look_up(MS);
    net.run(MS);
    let question = net.asked();
    net.run(60 * SECOND);
    assert!(net.events[1].contains(&Event::Failed { id: question, failure: Failure::Expired }));
    assert_eq!(net.ends[1].connections(), 0);
}

#[test]
fn a_backlog_is_all_that_strangers_can_fill() {
    let mut net = Net::new(&[]);
    net.ends[1].listen_for_datagrams(PORT, 3).expect("free");
    for _ in 0..10 {
        net.look_up(MS);
    }
    net.settle();
    assert_eq!((net.ends[1].connections(), net.ends[1].stats().backlog_full), (3, 7));
    // The others come when there is room.
    let now = net.now;
    for event in net.events[1].clone() {
        let Event::Asked { id, .. } = event else { panic!("{event:?}") };
        net.ends[1].serve(now, id, SERVICE, b"").expect("it waits");
    }
    net.run(100 * MS);
    assert_eq!(net.events[1].len(), 6);
}

/// An answer of another host, of another transaction, or to no question is believed by nobody.
#[test]
fn forged_answers_are_counted() {
    let mut net = Net::new(&[0, 1, 2, 3]);
    let id = net.look_up(SECOND);
    let Some(asked) = net.ends[0].poll_transmit() else { panic!("a question") };
    let mad = Mad::parse(&asked.mad[..]).expect("a MAD");
    let Message::SidrReq(asked) = &mad.message else { panic!("{mad:?}") };
    let answer = wire::cm::SidrRep {
        request_id: asked.request_id,
        status: SidrStatus::VALID,
        qpn: 5,
        service_id: asked.service_id,
        qkey: 6,
        private_data: [0; wire::cm::SidrRep::PRIVATE_DATA],
    };
    let forged = |tid: u64, request_id: u32| {
        let answer = wire::cm::SidrRep { request_id, ..answer.clone() };
        Mad { tid, attr_mod: 0, message: Message::SidrRep(Box::new(answer)) }.emit()
    };
    let now = net.now;
    for (from, tid, number) in [(7, mad.tid, id.0), (2, mad.tid ^ 1, id.0), (2, mad.tid, id.0 ^ 1)] {
        net.ends[0].handle_mad(now, IpAddr::from([10, 0, 0, from]), &forged(tid, number));
    }
    assert_eq!((net.ends[0].poll_event(), net.ends[0].stats().strangers), (None, 3));
    net.ends[0].handle_mad(now, ip(1), &forged(mad.tid, id.0));
    assert!(matches!(net.ends[0].poll_event(), Some(Event::Found { .. })), "the true one is");
}
