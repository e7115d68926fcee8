//! The receive queue: what was posted is what is read, and receives of a flushed queue pair ring.

use super::super::recv::recv_queue_from;
use super::shared_in;
use crate::qp_state::{PostVerdict, QpState};
use crate::queue::*;

const CAPS: QueueCaps =
    QueueCaps { max_send_wr: 1, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 5, max_inline: 0 };

fn sge(addr: u64, length: u32, lkey: u32) -> Sge {
    Sge { addr, length, lkey }
}

#[test]
fn every_field_comes_back() {
    let sges = [
        sge(u64::MAX, 1, u32::MAX),
        sge(1 << 63, 0, 0),
        sge(0x0123_4567_89AB_CDEF, 0x1234_5678, 1 << 31),
        sge(0, 2, 1),
        sge(8, 1 << 30, 7),
    ];
    for count in 0..=sges.len() {
        let (mut recv, reader) = recv_queue(&CAPS, &shared_in(QpState::Init).0);
        let wr_id = u64::MAX - count as u64;
        recv.post(&RecvRequest { wr_id, scatter: &sges[..count] }).unwrap();
        assert_eq!((reader.head(), reader.tail()), (0, 1));
        let wqe = reader.wqe(0);
        assert_eq!((wqe.wr_id, wqe.length), (wr_id, sges[..count].iter().map(|sge| sge.length).sum()));
        assert_eq!(wqe.sges().collect::<Vec<_>>(), sges[..count]);
    }
}

#[test]
fn a_full_queue_refuses_until_the_engine_gives_back_also_where_positions_wrap() {
    for start in [0, u32::MAX - 1, u32::MAX] {
        let (mut recv, reader) = recv_queue_from(start, &CAPS, &shared_in(QpState::Rtr).0);
        let mut head = start;
        for wr_id in 0..4 {
            recv.post(&RecvRequest { wr_id, scatter: &[] }).unwrap();
        }
        for wr_id in 4..40 {
            let next = RecvRequest { wr_id, scatter: &[] };
            assert_eq!(recv.post(&next), Err(PostError::QueueFull { capacity: 4 }));
            assert_eq!((reader.head(), reader.tail()), (head, head.wrapping_add(4)));
            for ahead in 0..4 {
                let wqe = reader.wqe(head.wrapping_add(ahead));
                assert_eq!(wqe.wr_id, wr_id - 4 + u64::from(ahead));
            }
            head = head.wrapping_add(1);
            reader.release(head);
            recv.post(&next).unwrap();
        }
    }
}

#[test]
fn too_many_elements_and_too_many_bytes_are_refused() {
    let (mut recv, reader) = recv_queue(&CAPS, &shared_in(QpState::Rts).0);
    let refused = recv.post(&RecvRequest { wr_id: 0, scatter: &[sge(0, 1, 1); 6] });
    assert_eq!(refused, Err(PostError::TooManySges { given: 6, max: 5 }));
    let refused = recv.post(&RecvRequest { wr_id: 0, scatter: &[sge(0, u32::MAX, 1); 5] });
    assert_eq!(refused, Err(PostError::TooLong { given: 5 * u64::from(u32::MAX) }), "no sum wraps");
    assert_eq!(reader.tail(), 0);
    recv.post(&RecvRequest { wr_id: 0, scatter: &[sge(0, 1 << 30, 1); 2] }).unwrap();
    assert_eq!(reader.wqe(0).length, 1 << 31);
}

#[test]
fn each_state_takes_or_refuses_receives_and_only_flushed_ones_ring() {
    for state in QpState::ALL {
        let (shared, doorbells) = shared_in(state);
        let (mut recv, reader) = recv_queue(&CAPS, &shared);
        let posted = recv.post(&RecvRequest { wr_id: 1, scatter: &[] });
        let rung = match state.post_recv() {
            PostVerdict::Refused => {
                assert_eq!(posted, Err(PostError::WrongState { state, what: "receive" }));
                None
            }
            PostVerdict::Queued => None,
            PostVerdict::Flushed => Some(7),
        };
        let taken = state.post_recv() != PostVerdict::Refused;
        assert_eq!((posted.is_ok(), reader.tail(), doorbells.pop()), (taken, u32::from(taken), rung));
    }
}
