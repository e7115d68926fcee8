//! A thousand streams of one endpoint, and streams over memif.

mod support;

use srnic_streams::{Config, Endpoint, Stream};
use std::io::{Read, Write};
use std::thread::scope;
use support::{LIMIT, bytes};
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
