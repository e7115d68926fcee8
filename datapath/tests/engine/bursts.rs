//! A turn takes as much from a port whose bursts are short as from any other, or a little more.

use crate::common::rig::{Options, Rig, write};

#[test]
fn a_turn_takes_short_bursts_until_they_are_one_long_one() {
    const WRITES: u32 = 40;
    for (limit, turns) in [(1, [32, 8]), (4, [32, 8]), (5, [35, 5]), (20, [40, 0]), (32, [32, 8])] {
        let mut rig = Rig::new(1, 256);
        let mut handles = rig.connect(&Options::default());
        let key = rig.sides[1].key;
        for wr_id in 0..WRITES {
            let gather = [rig.sides[0].sge(0, 64)];
            handles[0].send.post(&write(wr_id.into(), &gather, 0, key)).expect("room");
        }
        while rig.sides[0].engine.turn(rig.now).sent > 0 {}
        assert_eq!(rig.carry(), WRITES as usize);
        let receiver = &mut rig.sides[1].engine;
        receiver.port_mut().limit = limit;
        let taken = turns.map(|_| receiver.turn(rig.now).received);
        assert_eq!(
            (taken, receiver.core().counters().rx_in_order),
            (turns, WRITES.into()),
            "bursts of {limit}"
        );
        assert!(rig.run(10, |rig| rig.sides[0].cq.len() == WRITES), "all are acknowledged");
    }
}
