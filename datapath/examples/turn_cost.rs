//! Turns of the engine whose instructions `tests/turn_cost.rs` counts, under callgrind:
//!
//! `turn_cost idle <queue pairs> <turns>`: turns with nothing to do.
//! `turn_cost send|receive|ack <bytes> <packets>`: WRITEs of one packet each, in batches of four
//! with one acknowledgement; the turns that send, receive or take the acknowledgement are what is
//! counted. `turn_cost send-long|receive-long 256 <packets>`: WRITEs of sixteen packets, one at a
//! time; else the same. `turn_cost respond|take <bytes> <packets>`: READs with a response of one
//! packet each, in batches of four; the turns that execute them and send the responses, or those
//! that take the responses and send their acknowledgement. `turn_cost atomic|taken 8 <packets>`:
//! the same with FETCH_AND_ADD.
//! `turn_cost sampled-send|sampled-ack|.. ..`: the same WRITEs, of which one in 64 is sampled for
//! where its time goes. `turn_cost tenants-send|..`: the same WRITEs, by an engine with tenants.
//! `turn_cost pair-send <bytes> <packets>`: two queue pairs that send WRITEs of one packet in turns
//! of four. `turn_cost rivals-send <bytes> <packets>`: the same of two tenants.
//! `turn_cost destroy <queue pairs> <queues>`: completion queues and shared receive queues that no
//! queue pair uses are destroyed. `turn_cost unplaceable <window> <packets>`: turns that drop a
//! packet ahead of its turn.

#[path = "../tests/common/memory_port.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod memory_port;
#[path = "../tests/common/rig.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod rig;

use datapath::engine::{Engine, EngineConfig};
use datapath::latency::LatencyConfig;
use datapath::memory::{Access, HeapBacking, MemoryKey};
use datapath::queue::{QueueCaps, SendData, SendOpcode, SendRequest, SrqCaps};
use datapath::sched::TenantAttr;
use datapath::time::Time;
use memory_port::MemoryPort;
use rig::{Options, REGION, Rig, TURN_NS, write};
use std::sync::Arc;
use wire::Pmtu;

const BATCH: u32 = 4;

/// Which turns are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Send,
    Receive,
    Ack,
    Respond,
    Take,
}

/// One turn of an engine, counted if this is the phase to count.
fn turn(phase: Phase, counted: Phase, engine: &mut Engine<MemoryPort>, now: Time) {
    if phase == counted {
        counted_turns(engine, now, 1);
    } else {
        engine.turn(now);
    }
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

/// Completion queues and shared receive queues end one after the other while there are so many
/// queue pairs.
fn destroy(queue_pairs: u32, queues: u32) {
    let caps = QueueCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let options = Options { caps, ..Options::default() };
    let mut rig = Rig::new(queue_pairs, 64);
    let _handles: Vec<_> = (0..queue_pairs).map(|_| rig.connect(&options)).collect();
    let engine = &mut rig.sides[0].engine;
    let pd = engine.core_mut().allocate_pd();
    // The program's ends stay, and the memory with them: what `free` takes depends on all that was
    // freed before, and is not the engine's.
    let mut kept = Vec::new();
    for _ in 0..queues {
        let (cq, completions) = engine.core_mut().create_cq(1).expect("there is room");
        let (srq, receives) = engine.core_mut().create_srq(pd, SrqCaps::default()).expect("there is room");
        counted_ends(engine, cq, srq);
        kept.push((completions, receives));
    }
}

/// Callgrind collects inside this function, too.
#[inline(never)]
fn counted_ends(engine: &mut Engine<MemoryPort>, cq: u32, srq: u32) {
    assert!(engine.core_mut().destroy_cq(cq) && engine.core_mut().destroy_srq(srq), "nobody uses them");
}

/// What an engine does beside sending and receiving.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Nothing,
    /// Sampling where the time of operations goes.
    Samples,
    /// Sharing among tenants.
    Tenants,
}

/// WRITEs that go in one turn, and are answered by one acknowledgement.
struct Batch {
    messages: u32,
    /// Of each message.
    bytes: u32,
    pmtu: Pmtu,
}

impl Batch {
    /// Of one packet each.
    const fn short(bytes: u32) -> Self {
        Self { messages: BATCH, bytes, pmtu: Pmtu::B4096 }
    }

    /// One of several packets.
    const LONG: Self = Self { messages: 1, bytes: 16 * 256, pmtu: Pmtu::B256 };

    fn packets(&self) -> u32 {
        self.messages * self.bytes.div_ceil(self.pmtu.bytes())
    }
}

fn writes(counted: Phase, batch: &Batch, packets: u32, extra: Extra) {
    let latency = (extra == Extra::Samples).then(LatencyConfig::default);
    let mut options = Options::default();
    options.attr.path_mtu = batch.pmtu;
    let mut rig = Rig::with_config(64, EngineConfig { max_qps: 1, latency, ..EngineConfig::default() });
    if extra == Extra::Tenants {
        for side in &mut rig.sides {
            side.engine.core_mut().create_tenant(TenantAttr::default()).expect("there is room");
        }
    }
    let probe = rig.sides[0].engine.core().probe();
    let mut handles = rig.connect(&options);
    let gather = [rig.sides[0].sge(0, batch.bytes)];
    let key = rig.sides[1].key;
    for _ in 0..packets / batch.packets() {
        for wr_id in 0..batch.messages {
            let request = write(wr_id.into(), &gather, 0, key);
            handles[0].send.stage(&request).expect("the batch before is complete");
            if let Some(probe) = &probe {
                probe.note_post(&handles[0].send, &request, || rig.now);
            }
            handles[0].send.submit();
        }
        turn(Phase::Send, counted, &mut rig.sides[0].engine, rig.now);
        assert_eq!(rig.carry(), batch.packets() as usize, "a batch goes in one turn");
        turn(Phase::Receive, counted, &mut rig.sides[1].engine, rig.now);
        assert_eq!(rig.carry(), 1, "one acknowledgement answers it");
        turn(Phase::Ack, counted, &mut rig.sides[0].engine, rig.now);
        assert_eq!(rig.sides[0].drain(), batch.messages as usize, "all are complete");
        rig.now = rig.now.after(TURN_NS);
    }
}

/// Two queue pairs with four WRITEs each at a time: without tenants, or of two.
fn pairs(bytes: u32, packets: u32, rivals: bool) {
    let options = Options::default();
    let mut rig = Rig::with_config(64, EngineConfig { max_qps: 2, ..EngineConfig::default() });
    let key = rig.sides[1].key;
    let mut senders = Vec::new();
    for _ in 0..2 {
        let side = &mut rig.sides[0];
        if rivals {
            let core = side.engine.core_mut();
            let tenant = core.create_tenant(TenantAttr::default()).expect("there is room");
            side.pd = core.allocate_pd_of(tenant).expect("there is room");
            let memory = Arc::new(HeapBacking::new(REGION));
            side.key =
                core.memory_mut().register(side.pd, memory, 0, Access::LOCAL_WRITE).expect("there is room");
        }
        let gather = [side.sge(0, bytes)];
        let [sender, _] = rig.connect(&options);
        senders.push((sender, gather));
    }
    for _ in 0..packets / (2 * BATCH) {
        for (sender, gather) in &mut senders {
            for wr_id in 0..BATCH {
                sender.send.stage(&write(wr_id.into(), gather, 0, key)).expect("all before are complete");
            }
            sender.send.submit();
        }
        counted_turns(&mut rig.sides[0].engine, rig.now, 1);
        assert_eq!(rig.carry(), 2 * BATCH as usize, "both have their turn");
        rig.sides[1].engine.turn(rig.now);
        rig.carry();
        rig.sides[0].engine.turn(rig.now);
        assert_eq!(rig.sides[0].drain(), 2 * BATCH as usize, "all are complete");
        rig.now = rig.now.after(TURN_NS);
    }
}

fn reads(counted: Phase, atomic: bool, bytes: u32, packets: u32) {
    let mut options = Options::default();
    options.attr.path_mtu = Pmtu::B4096;
    options.attr.access_flags |= Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    (options.attr.max_rd_atomic, options.attr.max_dest_rd_atomic) = (16, 16);
    let mut rig = Rig::new(1, 64);
    let mut handles = rig.connect(&options);
    let scatter = [rig.sides[0].sge(0, bytes)];
    let key = rig.sides[1].key;
    let (opcode, data) = if atomic {
        (SendOpcode::FetchAdd, SendData::Atomic { result: scatter[0], compare: 0, swap_or_add: 1 })
    } else {
        (SendOpcode::Read, SendData::Gather(&scatter))
    };
    for _ in 0..packets / BATCH {
        for wr_id in 0..BATCH {
            let request = SendRequest { opcode, data, ..write(wr_id.into(), &scatter, 0, key) };
            handles[0].send.post(&request).expect("the batch before is complete");
        }
        turn(Phase::Send, counted, &mut rig.sides[0].engine, rig.now);
        assert_eq!(rig.carry(), 4, "a batch goes in one turn");
        turn(Phase::Respond, counted, &mut rig.sides[1].engine, rig.now);
        assert_eq!(rig.carry(), 5, "four responses, and one acknowledgement of the requests");
        turn(Phase::Take, counted, &mut rig.sides[0].engine, rig.now);
        assert_eq!(rig.carry(), 1, "one acknowledgement of the responses");
        assert_eq!(rig.sides[0].drain(), 4, "all are complete");
        turn(Phase::Ack, counted, &mut rig.sides[1].engine, rig.now);
        rig.now = rig.now.after(TURN_NS);
    }
}

/// A packet ahead of its turn that cannot be placed, again and again, where windows have so many
/// packets.
fn unplaceable(window: u16, packets: u32) {
    let config =
        EngineConfig { max_qps: 1, window_max: window, recovery_contexts: 1, ..EngineConfig::default() };
    let mut rig = Rig::with_config(64, config);
    let mut handles = rig.connect(&Options { window: 64, ..Options::default() });
    let gather = [rig.sides[0].sge(0, 64)];
    let no_key = MemoryKey(0);
    for key in [rig.sides[1].key, no_key] {
        handles[0].send.post(&write(0, &gather, 0, key)).expect("there is room");
    }
    rig.sides[0].engine.turn(rig.now);
    let early = rig.sides[0].engine.port().sent().nth(1).expect("two were sent").to_vec();
    for _ in 0..packets {
        rig.sides[1].engine.port_mut().inject(&early);
        counted_turns(&mut rig.sides[1].engine, rig.now, 1);
    }
    assert_eq!(rig.sides[1].engine.core().counters().drop_unplaceable, packets.into());
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|text| text.parse::<u32>().ok());
    let what = args.first().map(String::as_str);
    let with = |prefix, extra| what.and_then(|what| Some((what.strip_prefix(prefix)?, extra)));
    let (what, extra) = with("sampled-", Extra::Samples)
        .or_else(|| with("tenants-", Extra::Tenants))
        .map_or((what, Extra::Nothing), |(what, extra)| (Some(what), extra));
    match (what, number(1), number(2)) {
        (Some("idle"), Some(queue_pairs), Some(turns)) => idle(queue_pairs, turns),
        (Some("destroy"), Some(queue_pairs), Some(queues)) => destroy(queue_pairs, queues),
        (Some("send"), Some(bytes), Some(packets)) => {
            writes(Phase::Send, &Batch::short(bytes), packets, extra)
        }
        (Some("receive"), Some(bytes), Some(packets)) => {
            writes(Phase::Receive, &Batch::short(bytes), packets, extra);
        }
        (Some("ack"), Some(bytes), Some(packets)) => writes(Phase::Ack, &Batch::short(bytes), packets, extra),
        (Some("send-long"), Some(256), Some(packets)) => writes(Phase::Send, &Batch::LONG, packets, extra),
        (Some("receive-long"), Some(256), Some(packets)) => {
            writes(Phase::Receive, &Batch::LONG, packets, extra)
        }
        (Some("pair-send"), Some(bytes), Some(packets)) => pairs(bytes, packets, false),
        (Some("rivals-send"), Some(bytes), Some(packets)) => pairs(bytes, packets, true),
        (Some("unplaceable"), Some(window), Some(packets)) => {
            unplaceable(window.try_into().expect("a window"), packets);
        }
        (Some("respond"), Some(bytes), Some(packets)) => reads(Phase::Respond, false, bytes, packets),
        (Some("take"), Some(bytes), Some(packets)) => reads(Phase::Take, false, bytes, packets),
        (Some("atomic"), Some(8), Some(packets)) => reads(Phase::Respond, true, 8, packets),
        (Some("taken"), Some(8), Some(packets)) => reads(Phase::Take, true, 8, packets),
        _ => {
            eprintln!(
                "usage: turn_cost idle <queue pairs> <turns> | destroy <queue pairs> <queues> | \
                  send|receive|ack|respond|take <bytes> <packets> | \
                 send-long|receive-long 256 <packets> | sampled-.. | tenants-.. | \
                 pair-send|rivals-send <bytes> <packets> | atomic|taken 8 <packets> | \
                 unplaceable <window> <packets>"
            );
            std::process::exit(2);
        }
    }
}
