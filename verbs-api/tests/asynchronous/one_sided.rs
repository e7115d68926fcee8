//! READs, WRITEs and atomics that are awaited.

use crate::ends::{ends, run};
use verbs_api::{Access, BufferPool, Error, WcStatus};

#[test]
fn reads_and_writes_are_awaited() {
    let ends = ends("async-rdma", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        let mut buffer = one.pool.take().expect("free");
        buffer.set(b"one-sided").expect("it fits");
        let done = one.pair.write(buffer, two.memory.remote().at(8)).await.expect("posted");
        assert_eq!(done.completion.status, WcStatus::Success);
        let mut buffer = done.buffer;
        buffer.set(&[0; 5]).expect("it fits");
        let done = one.pair.read(buffer, two.memory.remote().at(12)).await.expect("posted");
        assert_eq!(done.buffer.to_vec().expect("inside"), b"sided");
        // Outside of the peer's region: an end like others, and the buffer comes back.
        let done = one.pair.write(done.buffer, two.memory.remote().at(1 << 20)).await.expect("posted");
        assert_eq!((done.completion.status, done.buffer.len()), (WcStatus::RemAccessErr, 5));
    });
}

#[test]
fn atomics_are_awaited() {
    let ends = ends("async-atomics", "", 2);
    let [one, two] = &ends;
    run(&ends, async {
        two.memory.store_release_u64(16, 40).expect("aligned");
        let at = two.memory.remote().at(16);
        let done = one.pair.fetch_and_add(one.pool.take().expect("free"), at, 2).await.expect("posted");
        assert_eq!((done.completion.status, done.buffer.to_u64().expect("8 bytes")), (WcStatus::Success, 40));
        let done = one.pair.compare_and_swap(done.buffer, at, 41, 7).await.expect("posted");
        assert_eq!(done.buffer.to_u64().expect("8 bytes"), 42, "it was another");
        let done = one.pair.compare_and_swap(done.buffer, at, 42, 7).await.expect("posted");
        assert_eq!(done.buffer.to_u64().expect("8 bytes"), 42);
        assert_eq!(two.memory.load_acquire_u64(16).expect("aligned"), 7);
        let mut buffer = done.buffer;
        buffer.set(&[0; 7]).expect("it fits");
        assert!(matches!(buffer.to_u64(), Err(Error::OutOfBounds { end: 8, len: 7, .. })));

        let small = BufferPool::new(one.pd.register(7, Access::LOCAL_WRITE).expect("memory"), 7);
        let small = small.expect("one").take().expect("free");
        let refused = one.pair.fetch_and_add(small, at, 1).await;
        assert!(matches!(refused, Err(Error::OutOfBounds { end: 8, len: 7, .. })));
        assert_eq!(two.memory.load_acquire_u64(16).expect("aligned"), 7);
    });
}
