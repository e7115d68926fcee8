//! The completion queue: what was written is what is polled, and overflow is seen.

use super::super::completion::{CqOverflow, completion_queue_from};
use crate::queue::*;

const STATUSES: [(WcStatus, u8); 15] = [
    (WcStatus::Success, 0),
    (WcStatus::LocLenErr, 1),
    (WcStatus::LocQpOpErr, 2),
    (WcStatus::LocProtErr, 4),
    (WcStatus::WrFlushErr, 5),
    (WcStatus::MwBindErr, 6),
    (WcStatus::BadRespErr, 7),
    (WcStatus::LocAccessErr, 8),
    (WcStatus::RemInvReqErr, 9),
    (WcStatus::RemAccessErr, 10),
    (WcStatus::RemOpErr, 11),
    (WcStatus::RetryExcErr, 12),
    (WcStatus::RnrRetryExcErr, 13),
    (WcStatus::FatalErr, 19),
    (WcStatus::GeneralErr, 21),
];
const OPCODES: [WcOpcode; 4] =
    [WcOpcode::Send, WcOpcode::RdmaWrite, WcOpcode::Recv, WcOpcode::RecvRdmaWithImm];

fn completion(wr_id: u64) -> Completion {
    Completion {
        wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        flags: WcFlags::WITH_IMM,
        byte_len: 0x8000_0001,
        imm: 0xFEDC_BA98,
        qpn: 0x00FF_FFFE,
        src_qp: 0x00AB_CDEF,
    }
}

#[test]
fn every_field_comes_back_and_statuses_have_the_values_of_verbs() {
    let (mut cq, mut writer) = completion_queue(1);
    for (status, code) in STATUSES {
        assert_eq!(status as u8, code);
        for opcode in OPCODES {
            for flags in [0, 2, 0x80, 0x82] {
                let flags = WcFlags::from_bits_retain(flags);
                let written = Completion { status, opcode, flags, ..completion(u64::MAX - 3) };
                writer.push(&written).unwrap();
                assert_eq!(cq.poll(), Some(written));
                assert_eq!(cq.poll(), None);
            }
        }
    }
}

#[test]
fn a_full_queue_refuses_what_it_has_no_room_for_and_keeps_what_it_has() {
    for start in [0, u32::MAX - 2, u32::MAX] {
        let (mut cq, mut writer) = completion_queue_from(start, 4);
        for round in 0..20 {
            assert!(cq.is_empty());
            for n in 0..4 {
                assert_eq!(cq.len(), n);
                writer.push(&completion(round + u64::from(n))).unwrap();
            }
            assert_eq!(writer.push(&completion(99)), Err(CqOverflow));
            assert_eq!(cq.poll(), Some(completion(round)));
            writer.push(&completion(round + 4)).unwrap();
            assert_eq!(writer.push(&completion(99)), Err(CqOverflow));
            let mut out = [None; 3];
            assert_eq!(cq.poll_into(&mut out), 3);
            assert_eq!(out, [1, 2, 3].map(|n| Some(completion(round + n))));
            assert_eq!(cq.poll_into(&mut out), 1, "as many as there are");
            assert_eq!(out[0], Some(completion(round + 4)));
            assert_eq!(cq.poll_into(&mut []), 0);
        }
    }
}

#[test]
fn the_room_is_at_least_what_was_asked_for() {
    for asked in [1, 2, 3, 5, 1000] {
        let (_cq, mut writer) = completion_queue(asked);
        let fits = (0..).take_while(|wr_id| writer.push(&completion(*wr_id)).is_ok()).count();
        assert_eq!(fits, asked.next_power_of_two() as usize);
    }
}

#[test]
fn a_wish_is_answered_once_by_what_it_was_for() {
    let solicited = Completion { flags: WcFlags::SOLICITED, ..completion(1) };
    let failed = Completion { status: WcStatus::WrFlushErr, ..completion(1) };
    // Which wish, what comes, whether it is told of.
    for (solicited_only, comes, told) in [
        (Some(false), completion(1), true),
        (Some(false), solicited, true),
        (Some(true), completion(1), false),
        (Some(true), solicited, true),
        (Some(true), failed, true),
        (None, solicited, false),
    ] {
        let (cq, mut writer) = completion_queue(4);
        writer.push(&comes).unwrap();
        assert!(!writer.note(&comes), "nobody listens");
        writer.listen();
        if let Some(solicited_only) = solicited_only {
            cq.arm(solicited_only);
        }
        assert!(!writer.take_event(), "what came before nobody is told of");
        writer.push(&comes).unwrap();
        assert!(writer.note(&comes));
        assert!(!writer.note(&comes), "the engine knows already");
        assert_eq!(writer.take_event(), told, "{solicited_only:?} {comes:?}");
        writer.push(&comes).unwrap();
        assert!(writer.note(&comes));
        assert!(!writer.take_event(), "the wish was for one");
    }
}

#[test]
fn a_new_size_keeps_what_waits_wherever_it_stands() {
    for start in [0, 3, u32::MAX - 1] {
        let (mut cq, mut writer) = completion_queue_from(start, 4);
        for wr_id in 0..3 {
            writer.push(&completion(wr_id)).unwrap();
        }
        assert_eq!(cq.poll(), Some(completion(0)));
        assert_eq!(writer.resize(&mut cq, 1), Err(ResizeError { waiting: 2 }));
        writer.resize(&mut cq, 2).unwrap();
        assert_eq!(writer.push(&completion(9)), Err(CqOverflow), "two fit, and two wait");
        writer.resize(&mut cq, 8).unwrap();
        for wr_id in 3..9 {
            writer.push(&completion(wr_id)).unwrap();
        }
        assert_eq!(writer.push(&completion(9)), Err(CqOverflow));
        for wr_id in 1..9 {
            assert_eq!(cq.poll(), Some(completion(wr_id)), "from {start}");
        }
        assert_eq!(cq.poll(), None);
    }
}
