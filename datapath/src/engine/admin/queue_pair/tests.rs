use super::*;
use crate::engine::Engine;
use crate::engine::EngineConfig;
use crate::port::sim::{Segment, SimPort};

/// An engine with room for one queue pair.
fn engine() -> Engine<SimPort> {
    engine_for(1)
}

fn engine_for(max_qps: u32) -> Engine<SimPort> {
    let port = Arc::new(Segment::new(2048)).attach(None).expect("a port");
    Engine::new(port, EngineConfig { max_qps, ..EngineConfig::default() }).expect("an engine")
}

fn create(engine: &mut Engine<SimPort>) -> Result<QpHandles, CreateError> {
    create_as(engine, QpType::Rc, false)
}

fn create_as(engine: &mut Engine<SimPort>, qp_type: QpType, gsi: bool) -> Result<QpHandles, CreateError> {
    let (cq, _) = engine.core_mut().create_cq(1)?;
    create_on(engine, cq, qp_type, gsi)
}

fn create_on(
    engine: &mut Engine<SimPort>,
    cq: u32,
    qp_type: QpType,
    gsi: bool,
) -> Result<QpHandles, CreateError> {
    engine.core_mut().create_qp(&QpConfig {
        qp_type,
        gsi,
        pd: ProtectionDomainId(1),
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        caps: QueueCaps::default(),
        window: 16,
    })
}

#[test]
fn a_doorbell_on_its_way_when_its_queue_pair_is_destroyed_holds_the_slot_until_it_comes() {
    let mut engine = engine();
    let first = create(&mut engine).expect("room");
    // A thread inside of post: it took the step to active, and has not rung yet.
    assert!(first.shared.reactivate());
    assert!(engine.core_mut().destroy_qp(first.qpn));
    assert!(matches!(create(&mut engine), Err(CreateError::Exhausted { .. })));
    engine.core().doorbells().push(0);
    engine.turn(Time(1));
    let second = create(&mut engine).expect("the slot is free");
    assert_ne!(second.qpn, first.qpn);
    first.shared.ring();
    assert!(engine.core().doorbells().is_empty(), "the first one never rings again");
    second.shared.ring();
    assert_eq!(engine.core().doorbells().pop(), Some(0));
}

#[test]
fn a_completion_queue_ends_when_the_last_queue_pair_that_uses_it_is_gone() {
    let mut engine = engine_for(2);
    let (cq, _) = engine.core_mut().create_cq(1).expect("room");
    // Of sends and receives of both.
    let pairs = [(); 2].map(|()| create_on(&mut engine, cq, QpType::Rc, false).expect("room"));
    assert!(create_on(&mut engine, cq, QpType::Rc, false).is_err(), "this one counts for nothing");
    for pair in pairs {
        assert!(!engine.core_mut().destroy_cq(cq), "a queue pair uses it");
        assert!(engine.core_mut().destroy_qp(pair.qpn));
    }
    assert!(engine.core_mut().destroy_cq(cq));
    assert!(!engine.core_mut().destroy_cq(cq), "it ends once");
}

#[test]
fn a_doorbell_that_waits_or_was_taken_holds_nothing() {
    let mut engine = engine();
    for turns in 0..2 {
        let pair = create(&mut engine).expect("room");
        pair.shared.ring();
        for _ in 0..turns {
            engine.turn(Time(1));
        }
        assert!(engine.core_mut().destroy_qp(pair.qpn));
        assert!(engine.core().doorbells().is_empty());
    }
    create(&mut engine).expect("room");
}

/// The general services queue pair is found where it is, not where one was whose number names the
/// slot.
#[test]
fn a_queue_pair_that_is_gone_is_not_found_by_its_number() {
    let mut engine = engine_for(4);
    create(&mut engine).expect("room");
    for _ in 0..3 {
        let pair = create_as(&mut engine, QpType::Ud, true).expect("room");
        assert!(engine.core().query_qp(pair.qpn).is_some());
        assert!(engine.core_mut().destroy_qp(pair.qpn));
        assert!(engine.core().query_qp(pair.qpn).is_none());
        assert!(!engine.core_mut().destroy_qp(pair.qpn));
    }
    assert!(!engine.core_mut().destroy_qp(0));
}
