//! Counters that wrap: MSN after 65,536 messages, the packet index after 65,536 packets of one
//! message.

use simnet::{Faults, Message, Op, QpOptions, Rig, RigOptions, Transfer};
use wire::Pmtu;

const LIMIT_NS: u64 = 10_000_000_000;

#[test]
fn more_messages_than_an_msn_can_number() {
    let mut options = QpOptions { sq_psn: 0xFF_0000, ..QpOptions::default() };
    options.caps.max_send_wr = 4096;
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(1), options);
    rig.net.set_faults(rig.up(a), Faults { reorder_ppm: 5000, reorder_ns_max: 3000, ..Faults::loss(2000) });
    let messages: Vec<Message> = (0..70_000)
        .map(|index| Message {
            op: if index % 3 == 0 { Op::Send } else { Op::Write },
            len: index % 5,
            signaled: index % 16 == 0,
        })
        .collect();
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    assert!(rig.counters(b).rx_out_of_order > 1000);
}

#[test]
fn messages_of_more_packets_than_an_offset_can_number() {
    for op in [Op::Write, Op::SendImm] {
        let options = QpOptions { pmtu: Pmtu::B256, window: 256, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::seeded(2), options);
        rig.net.set_faults(rig.up(a), Faults::loss(1000));
        let long = Message::new(op, 66_000 * 256 + 1);
        let messages = vec![long, Message::new(Op::Send, 1000)];
        Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
        assert!(rig.counters(b).rx_out_of_order > 1000, "{op:?}");
    }
}
