//! Two endpoints on a segment of this process, and bytes to send.

// Not every test needs all of it.
#![allow(dead_code)]

use srnic_streams::{Config, Endpoint, Stream};
use std::time::{Duration, Instant};
use verbs_api::{Device, Driver};

/// Longer than any machine stands still.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Waits until that is so; `why` says what is wrong if it never is.
pub fn until(mut is_so: impl FnMut() -> bool, why: &str) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "{why}");
        std::thread::yield_now();
    }
}

/// Few and small messages, so that credit matters.
pub fn small() -> Config {
    Config {
        receives: 4,
        chunk_bytes: 1000,
        sends: 4,
        memory_max: 4 << 20,
        block_bytes: 4000,
        ..Config::default()
    }
}

/// Who connects, and who listens.
pub struct Two {
    pub endpoints: [Endpoint; 2],
}

impl Two {
    pub fn new(name: &str, faults: &str, driver: Driver, config: Config) -> Self {
        let endpoints = [(); 2].map(|()| {
            let text = format!("{faults}sim:streams-{name}");
            let device = Device::builder().driver(driver).open(&text).expect("a device");
            Endpoint::new(&device, config).expect("an endpoint")
        });
        Self { endpoints }
    }

    /// Both ends of a new stream.
    pub fn streams(&self) -> (Stream, Stream) {
        let listener = self.endpoints[1].listen(0).expect("a port");
        let addr = listener.local_addr();
        std::thread::scope(|threads| {
            let accepts = threads.spawn(|| listener.accept_within(LIMIT));
            let one = self.endpoints[0].connect(addr, LIMIT).expect("connected");
            let other = accepts.join().expect("no panic").expect("accepted").expect("in time");
            (one, other)
        })
    }
}

/// Numbers from a seed (xorshift64*).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        // A seed of zero would stay zero.
        let mut x = self.0 ^ 0x9E37_79B9_7F4A_7C15;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x ^ 0x9E37_79B9_7F4A_7C15;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below")
    }
}

/// `len` bytes that tell direction and place.
pub fn bytes(number: u64, len: usize) -> Vec<u8> {
    let mut numbers = Numbers(number);
    (0..len).map(|_| numbers.next().to_le_bytes()[3]).collect()
}
