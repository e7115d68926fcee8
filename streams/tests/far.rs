//! Streams over a path that takes long.

mod support;

use srnic_streams::{Config, Endpoint, Way};
use std::io::{Read, Write};
use std::thread::scope;
use std::time::Duration;
use support::{LIMIT, Two, bytes};
use verbs_api::Driver;

/// Bytes of the receiver's memory after so much was written over a path of two milliseconds.
fn memory_after(name: &str, config: Config) -> usize {
    const PARTS: u64 = 200;
    let server = Endpoint::open(&format!("sim:far-{name}"), config).expect("an endpoint");
    let client = Endpoint::open(&format!("fault:delay=2ms:sim:far-{name}"), config).expect("an endpoint");
    let listener = server.listen(0).expect("a port");
    scope(|threads| {
        let reads = threads.spawn(|| {
            let mut stream = listener.accept_within(LIMIT).expect("accepted").expect("in time");
            let mut part = vec![0; config.block_bytes as usize - 32];
            for number in 0..PARTS {
                stream.read_exact(&mut part).expect("read");
                assert!(part == bytes(number, part.len()), "part {number}");
            }
            server.stats().memory
        });
        let mut stream = client.connect(listener.local_addr(), LIMIT).expect("connected");
        for number in 0..PARTS {
            stream.write_all(&bytes(number, config.block_bytes as usize - 32)).expect("written");
        }
        assert!(client.stats().sent(Way::Write) > PARTS / 2, "{:?}", client.stats());
        reads.join().expect("no panic")
    })
}

/// Who waits for grants while nothing waits to be read is granted more of them, up to what the
/// configuration allows.
#[test]
fn a_far_peer_is_granted_more_memory() {
    let config = Config { grants: 2, ..Config::default() };
    let few = memory_after("few", Config { grants_max: 2, ..config });
    let more = memory_after("more", Config { grants_max: 16, ..config });
    let blocks = (more - few) / config.block_bytes as usize;
    assert!((4..=14).contains(&blocks), "{blocks} more blocks: {few} and {more} bytes");
}

/// A peer that waits because the program here does not read is granted no more.
#[test]
fn who_waits_for_a_slow_reader_is_granted_no_more() {
    let memory = |grants_max: u32| {
        let config = Config { grants_max, ..Config::default() };
        let two = Two::new(&format!("slow-{grants_max}"), "fault:delay=1ms:", Driver::THREAD, config);
        let (mut one, mut other) = two.streams();
        one.set_write_timeout(Some(Duration::from_millis(20))).expect("set");
        let block = vec![7; config.block_bytes as usize - 32];
        let mut part = vec![0; block.len()];
        for _ in 0..40 {
            // As much as there is room for, and longer than a peer waits that is to be told of.
            while let Ok(1..) = one.write(&block) {}
            other.read_exact(&mut part).expect("read");
        }
        let written = two.endpoints[0].stats().sent(Way::Write);
        assert!(written >= 10, "{written}");
        two.endpoints[1].stats().memory
    };
    assert_eq!(memory(32), memory(4));
}
