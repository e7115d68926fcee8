//! Streams in tasks: bytes both ways, and futures that are dropped at any await.

mod support;

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Waker};
use srnic_streams::{AsyncListener, AsyncStream, Buffer, Config, Endpoint, Transport};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};
use support::{LIMIT, Numbers, Two, bytes, small};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use verbs_api::Driver;

async fn streams(two: &Two) -> (AsyncStream, AsyncStream) {
    let listener = AsyncListener::from(two.endpoints[1].listen(0).expect("a port"));
    let connect = two.endpoints[0].connect_async(listener.local_addr(), LIMIT);
    let (one, other) = tokio::join!(connect, listener.accept());
    (one.expect("connected"), other.expect("accepted"))
}

/// Polls a future once, and drops it unless it was ready.
fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        core::task::Poll::Ready(result) => Some(result),
        core::task::Poll::Pending => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_carry_their_bytes() {
    let two = Two::new("tasks", "fault:loss=1%,seed=2:", Driver::THREAD, small());
    let mut tasks = Vec::new();
    for number in 0..8 {
        let (one, other) = streams(&two).await;
        let (mut reader, mut writer) = tokio::io::split(one);
        tasks.push(tokio::spawn(async move {
            writer.write_all(&bytes(number, 50_000)).await.expect("written");
            writer.shutdown().await.expect("shut");
        }));
        let (mut its_reader, mut its_writer) = tokio::io::split(other);
        tasks.push(tokio::spawn(async move {
            tokio::io::copy(&mut its_reader, &mut its_writer).await.expect("copied");
            its_writer.shutdown().await.expect("shut");
        }));
        tasks.push(tokio::spawn(async move {
            let mut back = Vec::new();
            reader.read_to_end(&mut back).await.expect("read");
            assert!(back == bytes(number, 50_000), "stream {number}");
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}

#[tokio::test]
async fn a_read_or_write_that_is_dropped_loses_and_doubles_nothing() {
    let two = Two::new("cancel", "", Driver::THREAD, small());
    let (mut one, mut other) = streams(&two).await;
    let all = bytes(1, 60_000);
    let (mut written, mut came, mut dropped) = (0, Vec::new(), 0);
    let mut numbers = Numbers(8);
    let end = Instant::now() + LIMIT;
    while came.len() < all.len() {
        assert!(Instant::now() < end, "{} bytes came", came.len());
        let part = (all.len() - written).min(1 + numbers.below(3000));
        match once(one.write(&all[written..written + part])) {
            Some(done) => written += done.expect("written"),
            None => dropped += 1,
        }
        let mut buffer = vec![0; 1 + numbers.below(3000)];
        match once(other.read(&mut buffer)) {
            Some(done) => came.extend_from_slice(&buffer[..done.expect("read")]),
            None => dropped += 1,
        }
    }
    assert!(came == all);
    assert!(dropped > 10, "{dropped} futures were dropped");
}

#[tokio::test]
async fn a_buffer_whose_future_is_dropped_keeps_what_was_not_written() {
    let two = Two::new("cancel-in-place", "", Driver::THREAD, small());
    let (mut one, other) = streams(&two).await;
    let all = bytes(2, 60_000);
    let (mut rest, mut came, mut dropped) = (&all[..], Vec::new(), 0);
    let mut numbers = Numbers(9);
    let mut buffer = None::<Buffer>;
    let end = Instant::now() + LIMIT;
    while came.len() < all.len() {
        assert!(Instant::now() < end, "{} bytes came", came.len());
        if buffer.is_none() && !rest.is_empty() {
            match once(one.buffer(1 + numbers.below(3999))) {
                Some(made) => {
                    let mut made = made.expect("memory");
                    made.fill_with(|space| Read::read(&mut rest, space)).expect("memory");
                    buffer = Some(made);
                }
                None => dropped += 1,
            }
        }
        if let Some(filled) = &mut buffer {
            match once(one.write_buffer(filled)) {
                Some(done) => {
                    done.expect("written");
                    assert!(filled.is_empty());
                    buffer = None;
                }
                None => dropped += 1,
            }
        }
        match once(other.read_buffer()) {
            Some(received) => came.extend_from_slice(&received.expect("read")),
            None => dropped += 1,
        }
    }
    assert!(came == all);
    assert!(dropped > 10, "{dropped} futures were dropped");
    // Who waits is woken.
    one.shutdown().await.expect("shut");
    assert!(other.read_buffer().await.expect("the end").is_empty());
}

/// Any number of tasks may wait for one stream.
#[tokio::test]
async fn tasks_that_wait_for_one_stream_are_all_woken() {
    let two = Two::new("tasks-in-place", "", Driver::THREAD, small());
    let (mut one, other) = streams(&two).await;
    let other = std::sync::Arc::new(other);
    let reads = [(); 3].map(|()| {
        let other = std::sync::Arc::clone(&other);
        tokio::spawn(async move { other.read_buffer().await.expect("read").len() })
    });
    // They wait before anything comes, or do not: both must do.
    tokio::task::yield_now().await;
    for _ in 0..3 {
        one.write_all(b"word").await.expect("written");
        tokio::task::yield_now().await;
    }
    one.shutdown().await.expect("shut");
    for read in reads {
        let read = tokio::time::timeout(LIMIT, read).await.expect("a task was not woken");
        assert!(read.expect("no panic") <= 12);
    }
}

#[tokio::test]
async fn an_accept_or_connect_that_is_dropped_leaves_nothing_behind() {
    let two = Two::new("cancel-accept", "", Driver::THREAD, Config::default());
    let listener = AsyncListener::from(two.endpoints[1].listen(0).expect("a port"));
    let to = listener.local_addr();
    assert!(once(listener.accept()).is_none(), "nobody came");
    // At some of its awaits a connection is under way, which the next accept must have.
    let connects = tokio::spawn({
        let endpoint = two.endpoints[0].clone();
        async move { endpoint.connect_async(to, LIMIT).await }
    });
    let mut accepted = None;
    let end = Instant::now() + LIMIT;
    while accepted.is_none() && Instant::now() < end {
        accepted = once(listener.accept());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut one = connects.await.expect("no panic").expect("connected");
    let mut other = accepted.expect("in time").expect("accepted");
    one.write_all(b"here").await.expect("written");
    let mut word = [0; 4];
    other.read_exact(&mut word).await.expect("read");
    assert_eq!(&word, b"here");
    // A connect that is dropped at its first await.
    assert!(once(two.endpoints[0].connect_async(to, LIMIT)).is_none());
    assert_eq!(two.endpoints[0].stats().streams, 1, "its memory is free again");
}

#[tokio::test]
async fn a_reset_wakes_who_waits() {
    let two = Two::new("wake", "", Driver::THREAD, small());
    let (one, mut other) = streams(&two).await;
    let reads = tokio::spawn(async move { other.read(&mut [0]).await });
    tokio::task::yield_now().await;
    one.reset();
    let error = reads.await.expect("no panic").expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

async fn tell(from: &mut AsyncStream, to: &mut AsyncStream, number: u32) {
    from.write_all(&number.to_le_bytes()).await.expect("written");
    let mut came = [0; 4];
    to.read_exact(&mut came).await.expect("read");
    assert_eq!(u32::from_le_bytes(came), number);
}

/// Says a number and hears it at the other end, both ways.
async fn talk(one: &mut AsyncStream, other: &mut AsyncStream, number: u32) {
    tell(one, other, number).await;
    tell(other, one, number).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_go_on_over_tcp_and_come_back() {
    let server = Endpoint::open("sim:tasks-hole", small()).expect("an endpoint");
    let client = Endpoint::open("fault:hole=1s-3s:sim:tasks-hole", small()).expect("an endpoint");
    let listener = server.listen_with_tcp(0, ([127, 0, 0, 1], 0).into()).expect("ports");
    let (rdma, tcp) = (listener.local_addr(), listener.tcp_addr().expect("it listens"));
    let listener = AsyncListener::from(listener);
    let over = Transport::Auto { rdma, tcp };
    let (one, other) = tokio::join!(client.connect_over_async(over, LIMIT), listener.accept());
    let (mut one, mut other) = (one.expect("connected"), other.expect("accepted"));
    let end = Instant::now() + LIMIT;
    let mut number = 0;
    while client.stats().returned_to_rdma == 0 {
        assert!(Instant::now() < end, "{:?}", client.stats());
        talk(&mut one, &mut other, number).await;
        number += 1;
    }
    assert!(client.stats().moved_to_tcp > 0);
    talk(&mut one, &mut other, number).await;
}

#[tokio::test]
async fn a_task_connects_by_tcp_where_rdma_does_not_reach_the_peer() {
    let server = Endpoint::open("sim:tasks-absent", small()).expect("an endpoint");
    let client = Endpoint::open("sim:tasks-absent", small()).expect("an endpoint");
    let listener = server.listen_with_tcp(0, ([127, 0, 0, 1], 0).into()).expect("ports");
    let (mut nobody, tcp) = (listener.local_addr(), listener.tcp_addr().expect("it listens"));
    nobody.set_port(1);
    let listener = AsyncListener::from(listener);
    for over in [Transport::Auto { rdma: nobody, tcp }, Transport::Tcp(tcp)] {
        let (one, other) = tokio::join!(client.connect_over_async(over, LIMIT), listener.accept());
        let (mut one, mut other) = (one.expect("connected"), other.expect("accepted"));
        assert!(one.is_over_tcp() && other.is_over_tcp());
        talk(&mut one, &mut other, 7).await;
    }
    let refused = client.connect_over_async(Transport::Rdma(nobody), Duration::from_secs(1)).await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
}
