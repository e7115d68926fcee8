//! The shared receive queue: taken in the order of posting, given back in any.

use super::super::shared_recv::shared_recv_queue_from;
use crate::queue::*;
use std::collections::VecDeque;

const CAPS: SrqCaps = SrqCaps { max_wr: 3, max_sge: 2 };

#[test]
fn every_field_comes_back() {
    let (mut queue, mut reader) = shared_recv_queue(&CAPS);
    let sges = [Sge { addr: u64::MAX, length: 7, lkey: u32::MAX }, Sge { addr: 1, length: 1 << 30, lkey: 0 }];
    queue.post(&RecvRequest { wr_id: u64::MAX, scatter: &sges }).unwrap();
    queue.post(&RecvRequest { wr_id: 1, scatter: &[] }).unwrap();
    assert_eq!(reader.available(), 2);
    let number = reader.take().unwrap();
    let wqe = reader.wqe(number);
    assert_eq!((wqe.wr_id, wqe.length), (u64::MAX, 7 + (1 << 30)));
    assert_eq!(wqe.sges().collect::<Vec<_>>(), sges);
    let number = reader.take().unwrap();
    assert_eq!((reader.wqe(number).wr_id, reader.wqe(number).sges().count()), (1, 0));
    assert_eq!((reader.available(), reader.take()), (0, None));
}

#[test]
fn entries_come_back_in_any_order_also_where_positions_wrap() {
    for start in [0, u32::MAX - 2, u32::MAX] {
        let (mut queue, mut reader) = shared_recv_queue_from(start, &CAPS);
        let mut taken = VecDeque::new();
        for wr_id in 0..3 {
            queue.post(&RecvRequest { wr_id, scatter: &[] }).unwrap();
        }
        for wr_id in 3..60 {
            let next = RecvRequest { wr_id, scatter: &[] };
            assert_eq!(queue.post(&next), Err(PostError::QueueFull { capacity: 3 }));
            taken.extend(core::iter::from_fn(|| reader.take()));
            assert_eq!(taken.len(), 3, "no entry is handed out twice");
            let which = usize::try_from(wr_id * 7 % 3).unwrap();
            reader.give_back(taken.remove(which).unwrap());
            queue.post(&next).unwrap();
            let newest = reader.take().unwrap();
            assert_eq!(reader.wqe(newest).wr_id, wr_id);
            taken.push_back(newest);
        }
    }
}
