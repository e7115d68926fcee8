//! The send queue: what was posted is what is read, and nothing that does not fit is posted.

use super::super::send::send_queue_from;
use super::shared_in;
use crate::qp_state::{PostVerdict, QpState};
use crate::queue::*;

const CAPS: QueueCaps =
    QueueCaps { max_send_wr: 4, max_recv_wr: 1, max_send_sge: 3, max_recv_sge: 1, max_inline: 45 };

fn queue(start: u32) -> (SendQueue, SendQueueReader) {
    send_queue_from(start, &CAPS, &shared_in(QpState::Rts).0)
}

fn request(data: SendData<'_>) -> SendRequest<'_> {
    SendRequest {
        wr_id: u64::MAX - 1,
        opcode: SendOpcode::Write,
        flags: SendFlags::SIGNALED,
        imm: 0xFEDC_BA98,
        remote_addr: 0x8000_0000_0000_0001,
        rkey: 0xF000_000F,
        data,
    }
}

#[test]
fn every_field_comes_back() {
    let opcodes = [SendOpcode::Send, SendOpcode::SendWithImm, SendOpcode::Write, SendOpcode::WriteWithImm];
    let sges = [
        Sge { addr: u64::MAX, length: 0x1000_0001, lkey: u32::MAX },
        Sge { addr: 1 << 63, length: 0x2000_0002, lkey: 1 << 31 },
        Sge { addr: 0x0123_4567_89AB_CDEF, length: 0, lkey: 0 },
    ];
    for opcode in opcodes {
        for flags in 0..=SendFlags::all().bits() {
            for count in 0..=sges.len() {
                let flags = SendFlags::from_bits_truncate(flags);
                let (mut send, reader) = queue(0);
                let posted = SendRequest { opcode, flags, ..request(SendData::Gather(&sges[..count])) };
                send.post(&posted).unwrap();
                assert_eq!(reader.tail(), 1);
                let wqe = reader.wqe(0);
                assert_eq!((wqe.wr_id, wqe.opcode, wqe.flags), (posted.wr_id, opcode, flags));
                assert_eq!(wqe.imm, posted.imm);
                if opcode.is_write() {
                    assert_eq!(wqe.remote(), (posted.remote_addr, posted.rkey));
                }
                assert_eq!(wqe.length, sges[..count].iter().map(|sge| sge.length).sum());
                assert!(!wqe.is_inline());
                assert_eq!(wqe.sges().collect::<Vec<_>>(), sges[..count]);
            }
        }
    }
}

#[test]
fn inline_data_of_every_length_are_copied_by_the_call_itself() {
    let (mut send, reader) = queue(0);
    for length in 0..=45u8 {
        let mut bytes: Vec<u8> = (1..=length).collect();
        send.post(&request(SendData::Inline(&bytes))).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = 0xEE);
        let wqe = reader.wqe(length.into());
        assert!(wqe.is_inline());
        assert_eq!((wqe.length, wqe.sges().count()), (length.into(), 0));
        for offset in 0..=usize::from(length) {
            let mut read = vec![0; usize::from(length) - offset];
            wqe.read_inline(offset, &mut read);
            assert_eq!(read, (1..=length).skip(offset).collect::<Vec<_>>());
        }
        reader.release(u32::from(length) + 1);
    }
    let refused = send.post(&request(SendData::Inline(&[0; 46])));
    assert_eq!(refused, Err(PostError::InlineTooLong { given: 46, max: 45 }));
}

#[test]
fn a_full_queue_refuses_until_the_engine_gives_back_also_where_positions_wrap() {
    for start in [0, u32::MAX - 1, u32::MAX] {
        let (mut send, reader) = queue(start);
        let full = Err(PostError::QueueFull { capacity: 4 });
        let mut head = start;
        for wr_id in 0..4 {
            send.post(&SendRequest { wr_id, ..request(SendData::Gather(&[])) }).unwrap();
        }
        for wr_id in 4..40 {
            let next = SendRequest { wr_id, ..request(SendData::Gather(&[])) };
            assert_eq!(send.outstanding(), 4);
            assert_eq!(send.post(&next), full);
            assert_eq!(reader.tail(), head.wrapping_add(4), "a refused request is not posted");
            for ahead in 0..4 {
                let wqe = reader.wqe(head.wrapping_add(ahead));
                assert_eq!(wqe.wr_id, wr_id - 4 + u64::from(ahead));
            }
            head = head.wrapping_add(1);
            reader.release(head);
            send.post(&next).unwrap();
        }
    }
}

#[test]
fn the_limit_is_what_was_asked_for_not_the_rings_power_of_two() {
    let caps = QueueCaps { max_send_wr: 5, ..CAPS };
    let (mut send, _reader) = send_queue(&caps, &shared_in(QpState::Rts).0);
    for _ in 0..5 {
        send.post(&request(SendData::Gather(&[]))).unwrap();
    }
    assert_eq!(send.post(&request(SendData::Gather(&[]))), Err(PostError::QueueFull { capacity: 5 }));
}

#[test]
fn too_many_elements_and_too_many_bytes_are_refused() {
    let (mut send, reader) = queue(0);
    let sge = |length| Sge { addr: 0, length, lkey: 1 };
    let refused = send.post(&request(SendData::Gather(&[sge(1); 4])));
    assert_eq!(refused, Err(PostError::TooManySges { given: 4, max: 3 }));
    let limit = 1 << 31;
    assert_eq!(WORK_REQUEST_BYTES_MAX, limit);
    let refused = send.post(&request(SendData::Gather(&[sge(1 << 31), sge(1)])));
    assert_eq!(refused, Err(PostError::TooLong { given: limit + 1 }));
    let refused = send.post(&request(SendData::Gather(&[sge(u32::MAX); 3])));
    assert_eq!(refused, Err(PostError::TooLong { given: 3 * u64::from(u32::MAX) }), "no sum wraps");
    assert_eq!(reader.tail(), 0);
    send.post(&request(SendData::Gather(&[sge(1 << 30), sge(1 << 30)]))).unwrap();
    assert_eq!(reader.wqe(0).length, 1 << 31);
}

#[test]
fn a_batch_is_posted_up_to_the_first_refusal_with_one_doorbell() {
    let (shared, doorbells) = shared_in(QpState::Rts);
    let (mut send, reader) = send_queue(&CAPS, &shared);
    let inline = [0; 46];
    let good = request(SendData::Gather(&[]));
    let bad = request(SendData::Inline(&inline));
    assert_eq!(send.post_batch(&[]), (0, Ok(())));
    let (posted, result) = send.post_batch(&[bad, good]);
    assert_eq!((posted, result.is_err(), reader.tail()), (0, true, 0));
    assert!(doorbells.is_empty(), "nothing was posted, so nothing rings");
    let refused = Err(PostError::InlineTooLong { given: 46, max: 45 });
    assert_eq!(send.post_batch(&[good, good, bad, good]), (2, refused));
    assert_eq!((reader.tail(), doorbells.pop(), doorbells.pop()), (2, Some(7), None));
    assert_eq!(send.post_batch(&[good; 3]), (2, Err(PostError::QueueFull { capacity: 4 })));
    assert_eq!((reader.tail(), doorbells.pop()), (4, None));
}

#[test]
fn each_state_takes_or_refuses_requests_as_the_state_machine_says() {
    for state in QpState::ALL {
        let (shared, doorbells) = shared_in(state);
        let (mut send, reader) = send_queue(&CAPS, &shared);
        let posted = send.post(&request(SendData::Gather(&[])));
        if state.post_send() == PostVerdict::Refused {
            assert_eq!(posted, Err(PostError::WrongState { state, what: "send" }));
            assert_eq!((reader.tail(), doorbells.pop()), (0, None));
        } else {
            assert_eq!(posted, Ok(()));
            assert_eq!((reader.tail(), doorbells.pop()), (1, Some(7)));
        }
    }
}

/// Whatever a request names is nothing to look at before its turn.
#[test]
fn hints_of_requests_may_point_anywhere() {
    let (mut send, reader) = queue(u32::MAX - 1);
    let sge = |addr| [Sge { addr, length: 1 << 31, lkey: 0 }];
    let (nowhere, everywhere) = (sge(0), sge(u64::MAX));
    let all = [&nowhere, &everywhere].map(|sge| SendData::Gather(sge));
    for data in all.into_iter().chain([SendData::Inline(&[7; 45]), SendData::Inline(&[])]) {
        send.post(&request(data)).unwrap();
    }
    for ahead in 0..=4 {
        let position = (u32::MAX - 1).wrapping_add(ahead);
        assert_eq!(reader.prefetch_wqes(position), 4 - ahead);
        reader.prefetch_data(position);
    }
}
