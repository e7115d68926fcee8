//! Unreliable connections (protocol.md 1.3): SEND and WRITE in standard packets that nobody
//! acknowledges.

use crate::net::{ALL, Net, bytes, nothing, pattern, usual, whole};
use verbs_api::{Error, PostError, QpState, QpType, RemoteAddr, SendData, SendRequest, WcOpcode, WcStatus};

fn unreliable(lan: crate::lan::Lan) -> Net {
    Net::with(lan, |_, builder| builder.unreliable())
}

on_every_lan! {

/// Messages of many packets arrive whole; each request completes by itself.
fn sends_and_writes_arrive(lan: Lan) {
    let mut net = unreliable(lan);
    const LEN: usize = 30_000;
    let (source, target) = (net.hosts[0].region(LEN), net.hosts[1].region(2 * LEN));
    source.write(0, &pattern(LEN)).expect("inside");
    let (gather, into) = (whole(&source), [target.slice(..LEN).expect("inside")]);
    for round in 0..5 {
        net.receive(1, 1, &into);
        net.post(0, &SendRequest::send(SendData::Gather(&gather)).with_imm(round).id(2).signaled());
        let received = net.done(1);
        assert_eq!((received.wr_id, received.status, received.opcode), (1, WcStatus::Success, WcOpcode::Recv));
        assert_eq!((received.byte_len as usize, received.imm), (LEN, round));
        assert_eq!(net.ended(0), (2, WcStatus::Success));
        net.receive(1, 3, &[]);
        let there = target.remote().at(LEN as u64);
        net.post(0, &SendRequest::write(SendData::Gather(&gather), there).with_imm(7).id(4).signaled());
        let received = net.done(1);
        assert_eq!((received.wr_id, received.opcode, received.imm), (3, WcOpcode::RecvRdmaWithImm, 7));
        assert_eq!(net.ended(0), (4, WcStatus::Success));
    }
    assert!(bytes(&target) == [pattern(LEN), pattern(LEN)].concat(), "the bytes differ");
}

/// What finds no receive is lost and counted; the sender does not learn of it, and the next message
/// arrives.
fn what_finds_no_receive_is_lost(lan: Lan) {
    let mut net = unreliable(lan);
    net.post(0, &nothing().id(1));
    assert_eq!(net.ended(0), (1, WcStatus::Success));
    net.sees(1, "a loss", |counters| counters.drop_no_receive > 0);
    net.receive(1, 2, &[]);
    net.post(0, &nothing().id(3));
    assert_eq!([net.ended(1), net.ended(0)], [(2, WcStatus::Success), (3, WcStatus::Success)]);
}

/// A WRITE with a bad key writes nothing and ends nothing.
fn a_bad_key_is_dropped_and_counted(lan: Lan) {
    let mut net = unreliable(lan);
    let target = net.hosts[1].region(64);
    let RemoteAddr { addr, rkey } = target.remote().at(0);
    for to in [RemoteAddr { addr, rkey: rkey ^ 1 }, RemoteAddr { addr: addr + 60, rkey }] {
        net.post(0, &SendRequest::write(SendData::Inline(&[1; 8]), to).signaled());
        assert_eq!(net.ended(0).1, WcStatus::Success);
    }
    net.sees(1, "both refused", |counters| counters.drop_uc_access == 2);
    assert_eq!(bytes(&target), [0; 64]);
    assert!(net.pairs.iter().all(|pair| pair.state() == QpState::Rts));
}

/// READs, atomics and SEND with invalidate are not carried.
fn what_needs_an_answer_cannot_be_posted(lan: Lan) {
    let mut net = unreliable(lan);
    let (local, remote) = (net.hosts[0].region(8), net.hosts[1].pd.register(8, ALL).expect("memory"));
    let (into, at) = (whole(&local), remote.remote().at(0));
    for request in [
        SendRequest::read(&into, at),
        SendRequest::fetch_and_add(into[0], at, 1),
        SendRequest::compare_and_swap(into[0], at, 0, 1),
    ] {
        let refused = net.pairs[0].post_send(&request).expect_err("refused");
        let by_service =
            matches!(refused, Error::Post(PostError::WrongService { qp_type: QpType::Uc, .. }));
        assert!(by_service, "{refused}");
    }
}

/// A fence waits for READs and atomics, of which there are none.
fn a_fence_has_no_effect(lan: Lan) {
    let mut net = unreliable(lan);
    let target = net.hosts[1].region(8);
    net.post(0, &SendRequest::write(SendData::Inline(&[1; 8]), target.remote().at(0)).fenced().id(1).signaled());
    assert_eq!(net.ended(0), (1, WcStatus::Success));
    net.wait_until("it arrives", || bytes(&target) == [1; 8]);
}

/// Both ends must be of the same service.
fn a_reliable_end_does_not_connect_to_an_unreliable_one(lan: Lan) {
    let [one, two] = lan.hosts();
    let (reliable, unreliable) =
        (usual(&one).build().expect("RC"), usual(&two).unreliable().build().expect("UC"));
    let endpoints = [reliable.endpoint(), unreliable.endpoint()];
    assert_eq!(endpoints.map(|endpoint| endpoint.unreliable), [false, true]);
    let error = reliable.connect(&endpoints[1]).err().expect("refused");
    assert!(matches!(error, Error::Service { reliable: true }), "{error}");
    let error = unreliable.connect(&endpoints[0]).err().expect("refused");
    assert!(error.to_string().contains("build both with `unreliable()`, or none"), "{error}");
}

}
