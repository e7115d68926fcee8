//! The first packets: what is sent arrives, and both sides are told.

use datapath::queue::{WcOpcode, WcStatus};
use simnet::{QpOptions, Rig, RigOptions};

const LIMIT_NS: u64 = 10_000_000;

#[test]
fn a_write_arrives() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), 3000), rig.region(b.node(), 4000));
    rig.fill(source.all(), 1);
    let wr_id = rig.write(a, source.all(), target.at(500, 3000));
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    let done = rig.sends(a)[0];
    assert_eq!((done.wr_id, done.status, done.opcode), (wr_id, WcStatus::Success, WcOpcode::RdmaWrite));
    rig.verify(target.at(500, 3000), 1);
    rig.verify_untouched(target.at(0, 500));
    rig.verify_untouched(target.at(3500, 500));
    rig.verify_guards();
    assert!(rig.recvs(b).is_empty(), "a plain WRITE tells the responder nothing");
}

#[test]
fn a_send_arrives() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), 3000), rig.region(b.node(), 4000));
    rig.fill(source.all(), 2);
    let recv_id = rig.post_recv(b, target.all());
    rig.send(a, source.all());
    rig.run_until(|rig| rig.sends(a).len() == 1 && rig.recvs(b).len() == 1, LIMIT_NS).unwrap();
    let got = rig.recvs(b)[0];
    assert_eq!((got.wr_id, got.status, got.opcode), (recv_id, WcStatus::Success, WcOpcode::Recv));
    assert_eq!((got.byte_len, got.qpn), (3000, rig.qpn(b)));
    rig.verify(target.at(0, 3000), 2);
    rig.verify_untouched(target.at(3000, 1000));
    rig.verify_guards();
}
