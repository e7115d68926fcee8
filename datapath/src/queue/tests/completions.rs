//! The completion queue: what was written is what is polled, and overflow is seen.

use super::super::completion::{CqOverflow, completion_queue_from};
use crate::queue::*;

const STATUSES: [(WcStatus, u8); 14] = [
    (WcStatus::Success, 0),
    (WcStatus::LocLenErr, 1),
    (WcStatus::LocQpOpErr, 2),
    (WcStatus::LocProtErr, 4),
    (WcStatus::WrFlushErr, 5),
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
