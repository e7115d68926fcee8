//! Messages and streams of them, through loss; and what a cancelled receive leaves.

use crate::ends::{LIMIT, ends, join, poll_once, run};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, AsyncQueuePair, BufferPool, Completions, Device, Driver, RecvRequest, SendData, SendRequest,
    WcStatus,
};

#[test]
fn messages_come_back_through_loss_and_all_buffers_with_them() {
    let ends = ends("async-echo", "fault:loss=5%,seed=3:", 16);
    let [one, two] = &ends;
    run(&ends, async {
        let mut questions = two.pair.receives(&two.pool, 8);
        let mut answers = one.pair.receives(&one.pool, 8);
        for number in 0_u32..200 {
            let mut question = one.pool.take().expect("half are free");
            question.set(&number.to_le_bytes().repeat(500)).expect("it fits");
            let sent = one.pair.send(question);
            let asked = questions.next().await.expect("a message").expect("posted");
            drop(two.pair.send(asked.buffer));
            let answer = answers.next().await.expect("a message").expect("posted").buffer;
            assert_eq!(answer.to_vec().expect("inside"), number.to_le_bytes().repeat(500));
            assert_eq!(sent.await.expect("posted").completion.status, WcStatus::Success);
        }
    });
    // What was dropped unfinished goes back when the engine has done with it.
    run(&ends, async {
        while two.pool.free() + one.pool.free() < 16 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_cancelled_receive_keeps_its_buffer_until_the_engine_has_done_with_it() {
    let ends = ends("async-cancel", "", 1);
    let [one, two] = &ends;
    assert!(poll_once(two.pair.recv(two.pool.take().expect("free"))).is_pending());
    // The future is gone, the receive is not: nobody else gets its buffer.
    assert!(two.pool.take().is_none());
    run(&ends, async {
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"for nobody").expect("it fits");
        one.pair.send(buffer).await.expect("posted");
        let again = loop {
            match two.pool.take() {
                Some(buffer) => break buffer,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let next = two.pair.recv(again);
        let mut buffer = one.pool.take().expect("it came back");
        buffer.set(b"for somebody").expect("it fits");
        one.pair.send(buffer).await.expect("posted");
        assert_eq!(next.await.expect("posted").buffer.to_vec().expect("inside"), b"for somebody");
    });
}

#[test]
fn a_stream_that_is_waited_for_in_vain_loses_nothing() {
    let ends = ends("async-stream", "", 4);
    let [one, two] = &ends;
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 2);
        for number in 0_u8..20 {
            // As `select!` does with the branch that is not ready.
            assert!(poll_once(messages.next()).is_pending());
            let mut buffer = one.pool.take().expect("free");
            buffer.set(&[number]).expect("it fits");
            one.pair.send(buffer).await.expect("posted");
            let message = messages.next().await.expect("a message").expect("posted");
            assert_eq!(message.buffer.to_vec().expect("inside"), [number]);
        }
    });
}

#[test]
fn a_stream_without_buffers_goes_on_when_one_comes_back() {
    let ends = ends("async-starved", "", 1);
    let [one, two] = &ends;
    let held = two.pool.take().expect("free");
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 1);
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"late").expect("it fits");
        let sent = one.pair.send(buffer);
        let give_back = async {
            tokio::task::yield_now().await;
            drop(held);
        };
        let receive = async { messages.next().await.expect("a message").expect("posted").buffer.to_vec() };
        let (received, ()) = join(receive, give_back).await;
        assert_eq!(received.expect("inside"), b"late");
        sent.await.expect("posted");
    });
}

#[test]
fn a_stream_has_one_receive_at_least() {
    let ends = ends("async-depth", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 0);
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"still").expect("it fits");
        let sent = one.pair.send(buffer);
        let received = messages.next().await.expect("a message").expect("posted").buffer.to_vec();
        assert_eq!(received.expect("inside"), b"still");
        sent.await.expect("posted");
    });
}

#[test]
fn immediate_data_arrive_with_messages_and_writes() {
    let ends = ends("async-imm", "", 3);
    let [one, two] = &ends;
    run(&ends, async {
        let mut messages = two.pair.receives(&two.pool, 3);
        let full = |text: &[u8]| {
            let mut buffer = one.pool.take().expect("free");
            buffer.set(text).expect("it fits");
            buffer
        };
        let to = two.memory.remote().at(0);
        drop(one.pair.send(full(b"plain")));
        drop(one.pair.send_with_imm(full(b"message"), 0));
        one.pair.write_with_imm(full(b"in memory"), to, 0xDEAD_BEEF).await.expect("posted");
        for (text, imm) in [(&b"plain"[..], None), (b"message", Some(0)), (b"", Some(0xDEAD_BEEF))] {
            let got = messages.next().await.expect("a message").expect("posted");
            assert_eq!((&got.buffer.to_vec().expect("inside")[..], got.imm()), (text, imm));
        }
        let mut written = [0; 9];
        two.memory.read(0, &mut written).expect("inside");
        assert_eq!(&written, b"in memory");
    });
}

/// A receive that the program posted itself, before the pair became asynchronous, is no
/// operation's.
#[test]
fn a_receive_posted_ahead_of_the_connection_ends_no_operation() {
    let open = || Device::builder().driver(Driver::THREAD).open("sim:async-ids").expect("a device");
    let (here, there) = (open(), open());
    let (pd, completions) = (here.alloc_pd(), Completions::new(&here, 64).expect("a queue"));
    let memory = pd.register(64, Access::LOCAL_WRITE).expect("memory");
    let pool = BufferPool::new(pd.register(64, Access::LOCAL_WRITE).expect("memory"), 64).expect("buffers");
    let mut prepared = completions.queue_pair(&pd).build().expect("a queue pair");
    let early = [memory.slice(..).expect("inside")];
    prepared.post_recv(&RecvRequest { wr_id: 0, scatter: &early }).expect("posted");

    let (its_pd, its_cq) = (there.alloc_pd(), there.create_cq(16).expect("a queue"));
    let its = its_pd.queue_pair(&its_cq, &its_cq).build().expect("a queue pair");
    let (to_here, to_there) = (prepared.endpoint(), its.endpoint());
    let mut its = its.connect(&to_here).expect("connected");
    let pair = AsyncQueuePair::new(&completions, prepared.connect(&to_there).expect("connected"));
    let pair = pair.expect("completes there");

    let mut operation = pin!(pair.recv(pool.take().expect("free")));
    its.post_send(&SendRequest::send(SendData::Inline(b"first"))).expect("posted");
    let deadline = Instant::now() + LIMIT;
    let mut text = [0; 5];
    while &text != b"first" {
        memory.read(0, &mut text).expect("inside");
        assert!(Instant::now() < deadline, "it arrives in the program's own receive");
    }
    std::thread::sleep(Duration::from_millis(50));
    completions.process().expect("armed");
    let polled = operation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "its receive is still the engine's");
}
