//! Random operations against a plain deque, with positions that wrap at 2^32.

use super::super::completion::completion_queue_from;
use super::super::recv::recv_queue_from;
use super::super::send::send_queue_from;
use super::shared_in;
use crate::qp_state::QpState;
use crate::queue::*;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    /// Posts this many at once.
    Post(u32),
    /// The reader looks at all of them, and gives this many back.
    Release(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![(0..6u32).prop_map(Step::Post), (0..6u32).prop_map(Step::Release)];
    prop::collection::vec(step, 0..60)
}

/// First positions: zero, around the wrap, anywhere.
fn start() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), (u32::MAX - 20)..=u32::MAX, any::<u32>()]
}

/// What a request of number `wr_id` holds, so that each entry differs from the one before in the
/// same place.
fn body(wr_id: u64) -> Vec<u8> {
    (0..length_of(wr_id)).map(|at| (wr_id.wrapping_mul(31) + u64::from(at)).to_le_bytes()[0]).collect()
}

fn length_of(wr_id: u64) -> u32 {
    u32::from(wr_id.wrapping_mul(0x9E37_79B9).to_le_bytes()[1]) % 33
}

fn sges(wr_id: u64) -> Vec<Sge> {
    (0..wr_id % 3).map(|n| Sge { addr: !wr_id + n, length: length_of(wr_id), lkey: 5 }).collect()
}

proptest! {
    #[test]
    fn send_queue(start in start(), max_send_wr in 1..10u32, steps in steps()) {
        let caps = QueueCaps { max_send_wr, ..QueueCaps::default() };
        let (mut send, reader) = send_queue_from(start, &caps, &shared_in(QpState::Rts).0);
        let (mut oracle, mut head, mut number) = (VecDeque::new(), start, 0);
        for step in steps {
            match step {
                Step::Post(count) => {
                    let ids: Vec<u64> = (number..).take(count as usize).collect();
                    let bodies: Vec<_> = ids.iter().map(|wr_id| (body(*wr_id), sges(*wr_id))).collect();
                    let requests: Vec<_> = ids.iter().zip(&bodies).map(|(wr_id, (bytes, sges))| SendRequest {
                        wr_id: *wr_id,
                        opcode: SendOpcode::WriteWithImm,
                        flags: SendFlags::SOLICITED,
                        imm: !0,
                        remote_addr: *wr_id,
                        rkey: 1,
                        data: if wr_id % 2 == 0 { SendData::Gather(sges) } else { SendData::Inline(bytes) },
                    }).collect();
                    let (posted, result) = send.post_batch(&requests);
                    let room = max_send_wr - u32::try_from(oracle.len()).unwrap();
                    prop_assert_eq!((posted, result.is_ok()), (count.min(room) as usize, count <= room));
                    oracle.extend(number..number + posted as u64);
                    number += posted as u64;
                }
                Step::Release(count) => {
                    let count = count.min(send.outstanding());
                    oracle.drain(..count as usize);
                    head = head.wrapping_add(count);
                    reader.release(head);
                }
            }
            prop_assert_eq!(reader.tail().wrapping_sub(head) as usize, oracle.len());
            prop_assert_eq!(send.outstanding() as usize, oracle.len());
            for (ahead, wr_id) in (0..).zip(&oracle) {
                let wqe = reader.wqe(head.wrapping_add(ahead));
                prop_assert_eq!((wqe.wr_id, wqe.remote()), (*wr_id, (*wr_id, 1)));
                if wqe.is_inline() {
                    let mut bytes = vec![0; wqe.length as usize];
                    wqe.read_inline(0, &mut bytes);
                    prop_assert_eq!(bytes, body(*wr_id));
                } else {
                    prop_assert_eq!(wqe.sges().collect::<Vec<_>>(), sges(*wr_id));
                }
            }
        }
    }

    #[test]
    fn recv_queue(start in start(), max_recv_wr in 1..10u32, max_recv_sge in 1..=3u32, steps in steps()) {
        let caps = QueueCaps { max_recv_wr, max_recv_sge, ..QueueCaps::default() };
        let sges = |number| sges(number).into_iter().take(max_recv_sge as usize).collect::<Vec<_>>();
        let (mut recv, reader) = recv_queue_from(start, &caps, &shared_in(QpState::Rts).0);
        let (mut oracle, mut number) = (VecDeque::new(), 0);
        for step in steps {
            match step {
                Step::Post(count) => for _ in 0..count {
                    let posted = recv.post(&RecvRequest { wr_id: number, scatter: &sges(number) });
                    prop_assert_eq!(posted.is_ok(), oracle.len() < max_recv_wr as usize);
                    if posted.is_ok() {
                        oracle.push_back(number);
                        number += 1;
                    }
                },
                Step::Release(count) => {
                    let count = count.min(reader.tail().wrapping_sub(reader.head()));
                    oracle.drain(..count as usize);
                    reader.release(reader.head().wrapping_add(count));
                }
            }
            prop_assert_eq!(reader.tail().wrapping_sub(reader.head()) as usize, oracle.len());
            for (ahead, wr_id) in (0..).zip(&oracle) {
                let wqe = reader.wqe(reader.head().wrapping_add(ahead));
                prop_assert_eq!(wqe.wr_id, *wr_id);
                prop_assert_eq!(wqe.sges().collect::<Vec<_>>(), sges(*wr_id));
            }
        }
    }

    #[test]
    fn completions(start in start(), capacity in 1..10u32, steps in steps()) {
        let (mut cq, mut writer) = completion_queue_from(start, capacity);
        let capacity = capacity.next_power_of_two() as usize;
        let (mut oracle, mut number) = (VecDeque::new(), 0);
        for step in steps {
            match step {
                Step::Post(count) => for _ in 0..count {
                    let completion = Completion {
                        wr_id: number,
                        status: WcStatus::Success,
                        opcode: WcOpcode::RdmaWrite,
                        flags: WcFlags::empty(),
                        byte_len: length_of(number),
                        imm: !0,
                        qpn: 3,
                        src_qp: 0,
                    };
                    let pushed = writer.push(&completion);
                    prop_assert_eq!(pushed.is_ok(), oracle.len() < capacity);
                    if pushed.is_ok() {
                        oracle.push_back(Some(completion));
                        number += 1;
                    }
                },
                Step::Release(count) => {
                    let mut out = vec![None; count as usize];
                    let polled = cq.poll_into(&mut out);
                    prop_assert_eq!(polled, oracle.len().min(count as usize));
                    prop_assert_eq!(&out[..polled], oracle.drain(..polled).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(cq.len() as usize, oracle.len());
        }
    }
}
