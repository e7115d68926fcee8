//! A thousand streams of one endpoint, and streams over memif.

mod support;

use srnic_streams::{Config, Endpoint, Stream, Way};
use std::io::{Read, Write};
use std::thread::scope;
use support::{LIMIT, Two, bytes, until};
use verbs_api::{Device, Driver};

const STREAMS: usize = 1000;

#[test]
fn a_thousand_streams_share_a_pool_that_is_bounded() {
    let config = Config { receives: 2, sends: 8, chunk_bytes: 256, memory_max: 2 << 20, ..Config::default() };
    let [here, there] = [(); 2].map(|()| {
        let device = Device::builder().driver(Driver::THREAD).max_qps(2048).open("sim:streams-thousand");
        Endpoint::new(&device.expect("a device"), config).expect("an endpoint")
    });
    let listener = there.listen(0).expect("a port");
    let mut pairs: Vec<(Stream, Stream)> = scope(|threads| {
        let accepts = threads.spawn(|| -> Vec<Stream> {
            (0..STREAMS).map(|_| listener.accept_within(LIMIT).expect("accepted").expect("in time")).collect()
        });
        let to = listener.local_addr();
        let ones: Vec<Stream> = (0..STREAMS).map(|_| here.connect(to, LIMIT).expect("connected")).collect();
        ones.into_iter().zip(accepts.join().expect("no panic")).collect()
    });
    assert_eq!((here.stats().streams, there.stats().streams), (STREAMS, STREAMS));
    let mut registered = None;
    for round in 0..3 {
        // Credit of a stream is two messages of 224 bytes: no write waits for a reader.
        for (number, (one, _)) in pairs.iter_mut().enumerate() {
            one.write_all(&bytes(round + number as u64, 400)).expect("written");
        }
        for (number, (_, other)) in pairs.iter_mut().enumerate() {
            let mut came = [0; 400];
            other.read_exact(&mut came).expect("read");
            assert!(came[..] == bytes(round + number as u64, 400)[..], "stream {number}");
        }
        for endpoint in [&here, &there] {
            assert!(endpoint.stats().memory <= config.memory_max);
        }
        let count = here.stats().registrations + there.stats().registrations;
        assert_eq!(*registered.get_or_insert(count), count, "registrations are flat once it is warm");
    }
    drop(pairs);
}

/// Bytes that go by SEND, by WRITE and by READ.
const LENGTHS: [usize; 3] = [3000, 12_000, 40_000];
/// Regions and windows of a device: a fraction of the windows that are made in all.
const REGIONS: usize = 512;

/// Each length once by copying and once in place.
fn exchange(mut one: &Stream, mut other: &Stream, seed: u64) {
    for (number, len) in (seed..).zip(LENGTHS) {
        let said = bytes(number, len);
        scope(|threads| {
            threads.spawn(|| {
                one.write_all(&said).expect("written");
                let mut rest = &said[..];
                while !rest.is_empty() {
                    let mut buffer = one.buffer(rest.len()).expect("memory");
                    buffer.fill_with(|space| rest.read(space)).expect("memory");
                    one.write_buffer(&mut buffer).expect("written");
                }
            });
            let mut came = vec![0; len];
            other.read_exact(&mut came).expect("read");
            assert!(came == said);
            came.clear();
            while came.len() < len {
                came.extend_from_slice(&other.read_buffer().expect("read"));
            }
            assert!(came == said);
        });
    }
}

/// Whichever way bytes go, in place or copied, and while streams come and go. Some that stay have
/// most of the memory; what the others have is less than a slab, of which one is kept.
#[test]
fn registrations_are_flat_with_blocks_in_place_and_while_streams_come_and_go() {
    let config = Config {
        receives: 8,
        sends: 8,
        chunk_bytes: 4096,
        block_bytes: 32 << 10,
        write_from: 5000,
        read_from: 20_000,
        memory_max: 64 << 20,
        ..Config::default()
    };
    let endpoints = [(); 2].map(|()| {
        let device = Device::builder().driver(Driver::THREAD).max_mrs(REGIONS).open("sim:streams-flat");
        Endpoint::new(&device.expect("a device"), config).expect("an endpoint")
    });
    let two = Two { endpoints };
    let stay: Vec<(Stream, Stream)> = (0..16).map(|_| two.streams()).collect();
    let (mut warm, mut sent) = (None, [0; 3]);
    for round in 0..20 {
        for (one, other) in &stay {
            exchange(one, other, round);
            exchange(other, one, round);
        }
        for _ in 0..4 {
            let (one, other) = two.streams();
            exchange(&one, &other, round);
        }
        until(|| two.endpoints.iter().all(|end| end.stats().streams == 16), "a stream stays");
        let stats = two.endpoints.each_ref().map(Endpoint::stats);
        let registered = stats.map(|stats| stats.registrations);
        if round >= 4 {
            assert_eq!(*warm.get_or_insert(registered), registered, "round {round}");
            for way in Way::ALL {
                // A window that stays would be missed by a later round.
                assert!(stats[0].sent(way) >= sent[way as usize] + 32, "round {round}: no more by {way}");
            }
        }
        sent = stats[0].sent;
    }
    let [one, other] = two.endpoints.each_ref().map(Endpoint::stats);
    // More than one slab of each size.
    assert!(one.registrations >= 4, "{}", one.registrations);
    assert!(one.bytes_written_in_place > one.bytes_written / 4);
    assert!(other.bytes_read_in_place > other.bytes_read / 4);
}

#[test]
fn over_memif_and_loss() {
    let place = std::env::temp_dir().join(format!("srnic-streams-{}.sock", std::process::id()));
    let config = Config { checked: true, ..Config::default() };
    let [server, client] = ["server", "client"].map(|role| {
        let text = format!("fault:loss=1%,seed=3:memif:{},role={role}", place.display());
        Endpoint::open(&text, config).expect("an endpoint")
    });
    let listener = server.listen(7471).expect("a port");
    let to = listener.local_addr();
    let all = bytes(4, 4 << 20);
    scope(|threads| {
        threads.spawn(|| {
            let mut stream = listener.accept_within(LIMIT).expect("accepted").expect("in time");
            let mut came = Vec::new();
            stream.read_to_end(&mut came).expect("read");
            stream.write_all(&came).expect("written");
        });
        let stream = client.connect(to, LIMIT).expect("connected");
        let (mut reader, mut writer) = stream.split();
        writer.write_all(&all).expect("written");
        drop(writer);
        let mut back = Vec::new();
        reader.read_to_end(&mut back).expect("read");
        assert!(back == all);
    });
    for endpoint in [&server, &client] {
        assert!(endpoint.device().fault_stats().tx.lost > 0, "nothing was lost");
    }
}
