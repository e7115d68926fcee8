use super::*;
use crate::port::test_frames;
use wire::{AckFlags, Ackx, Aeth, NakCode, Opcode, Repr, Syndrome};

/// A frame to queue pair `dest_qp`.
fn packet(dest_qp: u32, opcode: Opcode, psn: u32, change: impl FnOnce(&mut Repr)) -> Vec<u8> {
    test_frames::packet(&test_frames::flow(), dest_qp, opcode, psn, change)
}

fn data(psn: u32) -> Vec<u8> {
    packet(7, Opcode::RcWriteOnly, psn, |_| ())
}

fn answer(syndrome: Syndrome, flags: AckFlags) -> Vec<u8> {
    packet(7, Opcode::RcAck, 0, |repr| {
        repr.aeth = Some(Aeth { syndrome, msn: 0 });
        repr.ackx = Some(Ackx { flags, ..Ackx::default() });
    })
}

/// One frame of every class, and the class's name.
fn one_of_each() -> Vec<(&'static str, Vec<u8>)> {
    let plain = |opcode| packet(9, opcode, 1, |_| ());
    vec![
        ("data", plain(Opcode::RcSendOnly)),
        ("read_request", packet(9, Opcode::RcReadRequest, 2, |_| ())),
        ("atomic", packet(9, Opcode::RcFetchAdd, 3, |_| ())),
        ("response", plain(Opcode::RcReadResponseMiddle)),
        ("ack", answer(Syndrome::ACK, AckFlags::empty())),
        ("nack", answer(Syndrome::Nak(NakCode::PsnSequence), AckFlags::SACK_VALID)),
        ("rnr", answer(Syndrome::RnrNak { timer: 1 }, AckFlags::empty())),
        ("error_nak", answer(Syndrome::Nak(NakCode::RemoteAccess), AckFlags::empty())),
        ("read_ack", answer(Syndrome::ACK, AckFlags::RESPONSE_STREAM)),
        ("read_ack", answer(Syndrome::Nak(NakCode::PsnSequence), AckFlags::RESPONSE_STREAM)),
        ("any", frame(1)),
    ]
}

/// Which of these frames, by their place, reach the wire.
fn passed(port: &mut Fault<TestPort>, frames: &[Vec<u8>]) -> Vec<usize> {
    (0..frames.len())
        .filter(|index| {
            assert!(send(port, &frames[*index]));
            port.tx_flush();
            !std::mem::take(&mut port.inner_mut().wire).is_empty()
        })
        .collect()
}

#[test]
fn a_class_holds_its_frames_and_no_others() {
    let all = one_of_each();
    let frames: Vec<_> = all.iter().map(|(_, frame)| frame.clone()).collect();
    for (class, _) in &all {
        let expected: Vec<_> =
            (0..all.len()).filter(|index| *class != "any" && all[*index].0 != *class).collect();
        assert_eq!(passed(&mut faulty(&format!("drop={class}@1-")), &frames), expected, "{class}");
    }
}

#[test]
fn the_kth_of_a_class_is_dropped_whatever_comes_between() {
    let ack = || answer(Syndrome::ACK, AckFlags::empty());
    let frames = [ack(), data(1), ack(), data(2), frame(0), ack(), data(3), ack()];
    for (rules, lost) in [
        ("ack@1", vec![0]),
        ("ack@2-3", vec![2, 5]),
        ("ack@2-", vec![2, 5, 7]),
        ("any@5", vec![4]),
        ("ack@4/data@1/data@3/ack@9", vec![1, 6, 7]),
        ("ack@1/any@1/any@1-2", vec![0, 1]),
    ] {
        let mut port = faulty(&format!("drop={rules}"));
        let expected: Vec<_> = (0..frames.len()).filter(|index| !lost.contains(index)).collect();
        assert_eq!(passed(&mut port, &frames), expected, "{rules}");
        assert_eq!(port.fault_stats().tx.picked, lost.len() as u64, "{rules}");
        assert_eq!(port.stats().tx_dropped, lost.len() as u64, "{rules}");
    }
}

#[test]
fn directions_count_by_themselves() {
    let mut port = faulty("drop=any@2");
    assert_eq!(send_all(&mut port, 0, 3), [0, 2]);
    assert_eq!(receive_all(&mut port, 0, 3), [0, 2]);
    let mut port = faulty("drop=any@2,dir=rx");
    assert_eq!(send_all(&mut port, 0, 3), [0, 1, 2]);
    assert_eq!(receive_all(&mut port, 0, 3), [0, 2]);
}

#[test]
fn a_resend_is_a_psn_that_its_stream_has_sent() {
    let to = |qpn, opcode, psn| packet(qpn, opcode, psn, |_| ());
    let frames = [
        data(0xFF_FFFE),
        data(0xFF_FFFF),
        data(0),
        data(0xFF_FFFE), // again
        data(1),
        data(0),                                      // again
        to(8, Opcode::RcWriteOnly, 0),                // another queue pair
        to(7, Opcode::RcReadResponseOnly, 0xFF_FFFF), // another stream of the first
        to(7, Opcode::RcReadResponseOnly, 0xFF_FFFF), // again
        answer(Syndrome::ACK, AckFlags::empty()),     // no PSN of its own
        data(0x80_0000),                              // a new life
        data(0x80_0000),                              // again
    ];
    let passed = passed(&mut faulty("drop=resend@1-"), &frames);
    assert_eq!(passed, [0, 1, 2, 4, 6, 7, 9, 10]);
}

#[test]
fn a_black_hole_opens_and_heals_in_time() {
    let mut port = faulty("hole=10us-30us,dir=tx");
    // Before the first frame no time passes.
    for (number, (now_us, passes)) in
        [(100, true), (109, true), (110, false), (129, false), (130, true), (1000, true)]
            .into_iter()
            .enumerate()
    {
        port.set_now(Time(now_us * 1_000));
        let number = u32::try_from(number).unwrap();
        assert_eq!(!send_all(&mut port, number, number + 1).is_empty(), passes, "at {now_us} us");
    }
    assert_eq!((tx_stats(&port).hole_lost, tx_stats(&port).dropped()), (2, 2));
    let mut port = faulty("hole=0us-");
    port.set_now(Time(u64::MAX / 2));
    assert_eq!(send_all(&mut port, 0, 5), []);
}

#[test]
fn loss_by_direction() {
    let lost = |config: &str| {
        let mut port = faulty(config);
        send_all(&mut port, 0, 1000);
        receive_all(&mut port, 0, 1000);
        let FaultStats { tx, rx } = port.fault_stats();
        (tx.lost, rx.lost)
    };
    assert_eq!(lost("loss_tx=100%"), (1000, 0));
    assert_eq!(lost("loss_rx=100%"), (0, 1000));
    assert_eq!(lost("loss=100%,loss_tx=0"), (0, 1000));
    assert_eq!(lost("loss=10%,loss_rx=100%,seed=3"), (lost("loss=10%,seed=3").0, 1000));
}

#[test]
fn rules_change_no_random_fate() {
    let all = |config: &str| send_all(&mut faulty(config), 0, 1000);
    let mut expected = all("loss=5%,seed=4");
    expected.retain(|number| !(10..20).contains(number));
    assert_eq!(all("loss=5%,seed=4,drop=any@11-20"), expected);
}

fn tx_stats(port: &Fault<TestPort>) -> LaneStats {
    port.fault_stats().tx
}
