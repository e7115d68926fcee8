//! Ends: a queue pair that is dropped, a peer that disconnects, and failures.

use crate::ends::{End, LIMIT, ends, join, meet, poll_once, run, runtime};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use verbs_api::{Error, WcStatus};

#[test]
fn what_a_dropped_queue_pair_had_ends() {
    let [one, two] = ends("async-gone", "", 2);
    let awaited = two.pair.recv(two.pool.take().expect("free"));
    drop(two.pair.recv(two.pool.take().expect("free")));
    assert_eq!(two.pool.free(), 0);
    drop(two.pair);
    assert_eq!(two.pool.free(), 1, "nobody awaited the other");
    let Poll::Ready(Err(error)) = poll_once(awaited) else { panic!("it has ended") };
    assert!(matches!(error, Error::QueuePairGone), "{error}");
    assert_eq!(two.pool.free(), 2);
    drop(one);
}

/// The driver, its device and its descriptors go with the last who completes there.
#[test]
fn a_driver_ends_with_what_it_drives() {
    runtime().block_on(async {
        let [one, two] = ends("async-drive", "", 1);
        let mut driver = tokio::spawn(one.completions.drive());
        let End { completions, pair, pool, device: _device, .. } = one;
        drop(completions);
        let waits = pair.recv(pool.take().expect("free"));
        drop(pair);
        assert!(timeout(Duration::from_millis(50), &mut driver).await.is_err(), "an operation is left");
        drop(waits);
        timeout(LIMIT, driver).await.expect("it ends").expect("no panic").expect("no failure");
        // Not even polled: it keeps nothing.
        drop(two.completions.drive());
    });
}

/// Who disconnects and whose peer does find that out, and no failure.
#[test]
fn an_orderly_end_is_an_outcome_of_its_own() {
    let ends = ends("async-end", "", 8);
    let [one, two] = &ends;
    run(&ends, async {
        let [ours, its] = meet(&ends).await;
        let mut messages = its.receives(&two.pool, 3);
        let mut waits = pin!(ours.recv(one.pool.take().expect("free")));
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"the last").expect("it fits");
        ours.send(buffer).await.expect("posted");
        assert!(!ours.is_disconnected() && !its.is_disconnected());
        assert!(poll_once(its.disconnected()).is_pending() && poll_once(waits.as_mut()).is_pending());

        let (ended, ()) = join(ours.disconnect(), its.disconnected()).await;
        ended.expect("it was connected");
        assert!(ours.is_disconnected() && its.is_disconnected());
        assert!(matches!(waits.await, Err(Error::Disconnected)), "ours was never used");
        let last = messages.next().await.expect("it came before").expect("a message");
        assert_eq!(last.buffer.to_vec().expect("inside"), b"the last");
        let Some(Err(end)) = messages.next().await else { panic!("there are no more") };
        assert!(matches!(end, Error::Disconnected), "{end}");
        assert!(messages.next().await.is_none());
        // What comes too late ends so as well, and who was second is answered at once.
        assert!(matches!(its.send(last.buffer).await, Err(Error::Disconnected)));
        let Poll::Ready(Ok(())) = poll_once(its.disconnect()) else { panic!("the peer was first") };
    });
}

/// Nothing that fails is taken for an orderly end, whether it was connected by address or not.
#[test]
fn a_failure_is_no_orderly_end() {
    let ends = ends("async-failure", "", 4);
    let [one, two] = &ends;
    run(&ends, async {
        let by_address = meet(&ends).await;
        for [ours, its] in [[&one.pair, &two.pair], [&by_address[0], &by_address[1]]] {
            let waits =
                [(ours, one), (its, two)].map(|(pair, end)| pair.recv(end.pool.take().expect("free")));
            let mut buffer = one.pool.take().expect("free");
            buffer.set(&[0; 8]).expect("it fits");
            let refused = ours.write(buffer, two.memory.remote().at(1 << 20)).await.expect("posted");
            assert_eq!(refused.completion.status, WcStatus::RemAccessErr);
            for wait in waits {
                assert_eq!(wait.await.expect("posted").completion.status, WcStatus::WrFlushErr);
            }
        }
        // Without a connection by address it ends at this side.
        one.pair.disconnect().await.expect("it is in ERR already");
        assert!(!one.pair.is_disconnected());
    });
}

/// What is known of the end counts as of when it came, not as of when a task gets to look.
#[test]
fn a_failure_stays_one_when_a_disconnect_follows() {
    let ends = ends("async-failure-first", "", 4);
    let [one, two] = &ends;
    // Nobody drives the completions: this looks at them when it says so.
    runtime().block_on(async {
        let [ours, its] = timeout(LIMIT, meet(&ends)).await.expect("in time");
        let waits = its.recv(two.pool.take().expect("free"));
        let mut buffer = one.pool.take().expect("free");
        buffer.set(&[0; 8]).expect("it fits");
        let mut refused = pin!(ours.write(buffer, two.memory.remote().at(1 << 20)));
        let began = Instant::now();
        let refused = loop {
            one.completions.process().expect("a channel");
            if let Poll::Ready(refused) = poll_once(refused.as_mut()) {
                break refused.expect("posted");
            }
            assert!(began.elapsed() < LIMIT, "it is refused");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(refused.completion.status, WcStatus::RemAccessErr);
        let late = ours.recv(refused.buffer);
        timeout(LIMIT, ours.disconnect()).await.expect("in time").expect("it is in ERR already");
        timeout(LIMIT, its.disconnected()).await.expect("its peer has disconnected");
        for (end, wait) in [(one, late), (two, waits)] {
            end.completions.process().expect("a channel");
            let Poll::Ready(end) = poll_once(wait) else { panic!("it was flushed") };
            assert_eq!(end.expect("a failure is no orderly end").completion.status, WcStatus::WrFlushErr);
        }
    });
}
