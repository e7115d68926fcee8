//! Turns of the engine whose instructions `tests/turn_cost.rs` counts, under callgrind:
//!
//! `turn_cost idle <queue pairs> <turns>`: turns with nothing to do.
//! `turn_cost send|receive|ack <bytes> <packets>`: WRITEs of one packet each, in batches of four with one
//! acknowledgement; the turns that send, receive or take the acknowledgement are what is counted.

#[path = "../tests/common/memory_port.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod memory_port;
#[path = "../tests/common/rig.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod rig;

use datapath::engine::Engine;
use datapath::queue::QueueCaps;
use datapath::time::Time;
use memory_port::MemoryPort;
use rig::{Options, Rig, TURN_NS, write};
use wire::Pmtu;

const BATCH: u32 = 4;

/// Which turns are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Send,
    Receive,
    Ack,
}

/// Callgrind collects inside this function only.
#[inline(never)]
fn counted_turns(engine: &mut Engine<MemoryPort>, now: Time, turns: u32) {
    for turn in 0..turns {
        engine.turn(now.after(u64::from(turn) * TURN_NS));
    }
}

fn idle(queue_pairs: u32, turns: u32) {
    let caps = QueueCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let options = Options { caps, ..Options::default() };
    let mut rig = Rig::new(queue_pairs, 64);
    let _handles: Vec<_> = (0..queue_pairs).map(|_| rig.connect(&options)).collect();
    rig.step();
    let now = rig.now;
    counted_turns(&mut rig.sides[0].engine, now, turns);
}

fn writes(counted: Phase, bytes: u32, packets: u32) {
    let mut options = Options::default();
    options.attr.path_mtu = Pmtu::B4096;
    let mut rig = Rig::new(1, 64);
    let mut handles = rig.connect(&options);
    let gather = [rig.sides[0].sge(0, bytes)];
    let key = rig.sides[1].key;
    let turn = |phase, engine: &mut Engine<MemoryPort>, now| {
        if phase == counted {
            counted_turns(engine, now, 1);
        } else {
            engine.turn(now);
        }
    };
    for _ in 0..packets / BATCH {
        for wr_id in 0..BATCH {
            let posted = handles[0].send.post(&write(wr_id.into(), &gather, 0, key));
            posted.expect("the batch before is complete");
        }
        turn(Phase::Send, &mut rig.sides[0].engine, rig.now);
        assert_eq!(rig.carry(), 4, "a batch goes in one turn");
        turn(Phase::Receive, &mut rig.sides[1].engine, rig.now);
        assert_eq!(rig.carry(), 1, "one acknowledgement answers it");
        turn(Phase::Ack, &mut rig.sides[0].engine, rig.now);
        assert_eq!(rig.sides[0].drain(), 4, "all are complete");
        rig.now = rig.now.after(TURN_NS);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|text| text.parse::<u32>().ok());
    match (args.first().map(String::as_str), number(1), number(2)) {
        (Some("idle"), Some(queue_pairs), Some(turns)) => idle(queue_pairs, turns),
        (Some("send"), Some(bytes), Some(packets)) => writes(Phase::Send, bytes, packets),
        (Some("receive"), Some(bytes), Some(packets)) => writes(Phase::Receive, bytes, packets),
        (Some("ack"), Some(bytes), Some(packets)) => writes(Phase::Ack, bytes, packets),
        _ => {
            eprintln!("usage: turn_cost idle <queue pairs> <turns> | send|receive|ack <bytes> <packets>");
            std::process::exit(2);
        }
    }
}
