//! Messages of more packets than PSN_OFFSET can count.

use crate::common::rig::{Options, Rig, write};
use datapath::memory::{Access, HeapBacking};
use datapath::qp::attr::QpAttr;
use datapath::queue::*;
use std::sync::Arc;
use wire::Pmtu;

/// Packets that the 16 bits of PSN_OFFSET tell apart.
const OFFSETS: u32 = 1 << 16;

#[test]
fn the_offset_wraps_within_a_write_and_its_immediate_arrives() {
    let attr = QpAttr { path_mtu: Pmtu::B256, ..Options::default().attr };
    let options = Options { attr, ..Options::default() };
    let mut rig = Rig::new(1, 1024);
    let mut handles = rig.connect(&options);
    let length = 256 * OFFSETS + 1000;
    let mut key = |side: usize| {
        let (access, side) = (Access::LOCAL_WRITE | Access::REMOTE_WRITE, &mut rig.sides[side]);
        side.engine
            .core_mut()
            .memory_mut()
            .register(side.pd, Arc::new(HeapBacking::new(length as usize)), 0, access)
            .unwrap()
    };
    let (local, remote) = (key(0), key(1));
    handles[1].recv.post(&RecvRequest { wr_id: 1, scatter: &[] }).unwrap();
    let sge = [Sge { addr: 0, length, lkey: local.0 }];
    let request = write(2, &sge, 0, remote);
    handles[0].send.post(&SendRequest { opcode: SendOpcode::WriteWithImm, imm: 7, ..request }).unwrap();
    assert!(rig.run(50_000, |rig| !rig.sides[0].cq.is_empty()));
    let received = rig.sides[1].cq.poll().expect("complete here before there");
    assert_eq!((received.status, received.imm, received.byte_len), (WcStatus::Success, 7, length));
    assert_eq!(rig.sides[0].cq.poll().map(|done| done.status), Some(WcStatus::Success));
}
