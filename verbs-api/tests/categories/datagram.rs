//! Unreliable datagrams and address handles (protocol.md 1.2, 1.3, 1.11).

use crate::host::wait::until;
use crate::host::{Host, complete};
use crate::lan::Lan;
use crate::net::{bytes, usual, whole};
use verbs_api::{
    AddressHandle, AddressVector, Counters, Datagram, Endpoint, Error, Grh, PostError, QpState, RecvRequest,
    SendData, SendRequest, UdQueuePair, WcStatus,
};

const QKEY: u32 = 0x1357;

struct Post {
    hosts: [Host; 2],
    pairs: [UdQueuePair; 2],
}

impl Post {
    fn new(lan: Lan) -> Self {
        let hosts = lan.hosts();
        let pairs = hosts
            .each_ref()
            .map(|host| host.pd.ud_queue_pair(&host.cq, &host.cq).qkey(QKEY).build().expect("a queue pair"));
        Self { hosts, pairs }
    }

    /// A way from the first host to the second, with a hop limit and a code point.
    fn way(&self) -> AddressHandle {
        let [here, there] = self.hosts.each_ref().map(|host| &host.device);
        let av = AddressVector {
            src_ip: here.ip(),
            dst_ip: there.ip(),
            dst_mac: Some(there.mac()),
            hop_limit: 9,
            dscp: 11,
            ..AddressVector::default()
        };
        self.hosts[0].pd.create_ah(&av).expect("an address handle")
    }

    fn ended(&mut self, side: usize) -> (u64, WcStatus) {
        let [one, two] = &mut self.hosts;
        let done = if side == 0 { complete(one, two) } else { complete(two, one) };
        (done.wr_id, done.status)
    }

    fn sees(&self, what: &str, condition: impl Fn(&Counters) -> bool) {
        until(what, || {
            self.hosts.iter().for_each(|host| {
                host.device.progress();
            });
            condition(&self.hosts[1].device.counters()).then_some(())
        });
    }
}

on_every_lan! {

/// 1.11: a receive begins with the IP header, which has the sender, the code point and the hop
/// limit; behind it every byte.
fn a_datagram_says_where_it_came_from(lan: Lan) {
    let mut post = Post::new(lan);
    let (way, buffer) = (post.way(), post.hosts[1].region(Grh::LEN + 64));
    post.pairs[1].post_recv(&RecvRequest { wr_id: 1, scatter: &whole(&buffer) }).expect("posted");
    let datagram = Datagram::new(SendData::Inline(&[0xAB; 20]), &way, post.pairs[1].qpn(), QKEY);
    post.pairs[0].post_send(&datagram.with_imm(3).id(2).signaled()).expect("posted");
    let [one, two] = &mut post.hosts;
    let done = complete(two, one);
    assert_eq!((done.wr_id, done.byte_len, done.imm, done.src_qp), (1, 60, 3, post.pairs[0].qpn()));
    let found = bytes(&buffer);
    let area = found[..Grh::LEN].try_into().expect("40 bytes");
    assert_eq!(Grh::parse(&area).map(|grh| (grh.src, grh.dst)), Some((one.device.ip(), two.device.ip())));
    // Of the IPv4 header: type of service and time to live.
    assert_eq!((found[21] >> 2, found[28]), (11, 9));
    assert_eq!((&found[Grh::LEN..60], &found[60..]), (&[0xAB; 20][..], &[0; 44][..]));
    assert_eq!(post.ended(0), (2, WcStatus::Success));
}

/// 1.2: another Q_Key, no receive, or one that is too short: dropped, counted, and nothing else.
fn what_is_not_wanted_is_dropped_and_counted(lan: Lan) {
    let mut post = Post::new(lan);
    let (way, buffer) = (post.way(), post.hosts[1].region(Grh::LEN + 8));
    let qpn = post.pairs[1].qpn();
    let send = |post: &mut Post, len: usize, qkey: u32| {
        let datagram = Datagram::new(SendData::Inline(&[1; 16][..len]), &way, qpn, qkey);
        post.pairs[0].post_send(&datagram.signaled()).expect("posted");
        assert_eq!(post.ended(0).1, WcStatus::Success, "the sender does not learn of it");
    };
    send(&mut post, 8, QKEY);
    post.sees("no receive", |counters| counters.drop_no_receive == 1);
    post.pairs[1].post_recv(&RecvRequest { wr_id: 1, scatter: &whole(&buffer) }).expect("posted");
    send(&mut post, 8, QKEY + 1);
    post.sees("another Q_Key", |counters| counters.drop_qkey == 1);
    send(&mut post, 9, QKEY);
    post.sees("too short", |counters| counters.drop_receive_too_short == 1);
    assert_eq!(bytes(&buffer), [0; Grh::LEN + 8]);
    send(&mut post, 8, QKEY);
    assert_eq!(post.ended(1), (1, WcStatus::Success), "the receive was still there");
}

/// 1.11: a message is one packet at most.
fn a_datagram_is_one_packet(lan: Lan) {
    let mut post = Post::new(lan);
    let longest = post.pairs[0].max_message() as usize;
    let (way, source) = (post.way(), post.hosts[0].region(longest + 1));
    let buffer = post.hosts[1].region(Grh::LEN + longest);
    post.pairs[1].post_recv(&RecvRequest { wr_id: 1, scatter: &whole(&buffer) }).expect("posted");
    let (qpn, all) = (post.pairs[1].qpn(), whole(&source));
    let refused = post.pairs[0].post_send(&Datagram::new(SendData::Gather(&all), &way, qpn, QKEY));
    assert!(matches!(refused, Err(Error::Post(PostError::DatagramTooLong { .. }))));
    let most = [source.slice(..longest).expect("inside")];
    post.pairs[0].post_send(&Datagram::new(SendData::Gather(&most), &way, qpn, QKEY)).expect("posted");
    assert_eq!(post.ended(1), (1, WcStatus::Success));
}

/// 1.2: datagrams for no queue pair, or for one of another service, are dropped and counted; and so
/// are a connection's packets for a datagram queue pair, so that the sender gives up.
fn services_do_not_meet(lan: Lan) {
    let mut post = Post::new(lan);
    let way = post.way();
    let [one, two] = &post.hosts;
    let built = [one, two].map(|host| usual(host).timeout(10).retry_cnt(1).build().expect("a queue pair"));
    let endpoints = built.each_ref().map(|pair| pair.endpoint());
    let [lost, its] = built;
    let its = its.connect(&endpoints[0]).expect("connected");
    let [ud, rc] = [post.pairs[1].qpn(), its.qpn()];
    let nobody = (2..).find(|qpn| ![ud, rc].contains(qpn)).expect("there are many numbers");
    for (qpn, counter) in [(nobody, "drop_unknown_qp"), (rc, "drop_wire_mode")] {
        let datagram = Datagram::new(SendData::Inline(&[1; 8]), &way, qpn, QKEY);
        post.pairs[0].post_send(&datagram.signaled()).expect("posted");
        assert_eq!(post.ended(0).1, WcStatus::Success, "the sender does not learn of it");
        post.sees(counter, |counters| counters.iter().any(|(name, count)| name == counter && count == 1));
    }
    assert_eq!(its.state(), QpState::Rts);
    let to = Endpoint { qpn: ud, ..endpoints[1] };
    let mut lost = lost.connect(&to).expect("as if it were one");
    lost.post_send(&SendRequest::send(SendData::Inline(&[])).id(6)).expect("posted");
    assert_eq!(post.ended(0), (6, WcStatus::RetryExcErr));
    assert_eq!(post.pairs[1].state(), QpState::Rts);
}

/// A handle is of its device, and ends when it is dropped.
fn an_address_handle_is_of_its_device(lan: Lan) {
    let mut post = Post::new(lan);
    let there = post.hosts[1].pd.create_ah_to(post.hosts[1].device.ip()).expect("itself");
    let refused = post.pairs[0].post_send(&Datagram::new(SendData::Inline(&[]), &there, 5, QKEY));
    assert!(matches!(refused, Err(Error::OtherDevice { .. })));
    let broadcast = "255.255.255.255".parse().expect("an address");
    assert!(post.hosts[0].pd.create_ah_to(broadcast).is_err());
}

}
