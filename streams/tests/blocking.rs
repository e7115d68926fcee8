//! Streams between two endpoints: bytes, ends, timeouts, through loss as well.

mod support;

use srnic_streams::{Config, Endpoint, Error, Transport, Way};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::thread::{scope, spawn};
use std::time::Duration;
use support::{LIMIT, Numbers, Two, bytes, small, until};
use verbs_api::{Device, Driver};

/// The error of streams inside of one of I/O.
fn inside(error: &std::io::Error) -> Option<Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).copied()
}

/// Each end writes and reads at its own pace; all arrives, once and in order.
fn both_ways(two: &Two, len: usize, seed: u64) {
    let (one, other) = two.streams();
    scope(|threads| {
        for (stream, number) in [(&one, 0), (&other, 1)] {
            threads.spawn(move || {
                let mut numbers = Numbers(seed + number);
                let all = bytes(number, len);
                let mut rest = &all[..];
                let mut stream = stream;
                while !rest.is_empty() {
                    let part = rest.len().min(1 + numbers.below(9000));
                    let cut = numbers.below(part + 1);
                    let parts = [IoSlice::new(&rest[..cut]), IoSlice::new(&rest[cut..part])];
                    let done = stream.write_vectored(&parts).expect("written");
                    rest = &rest[done..];
                }
                stream.shutdown_write().expect("shut");
            });
            threads.spawn(move || {
                let mut numbers = Numbers(seed + 10 + number);
                let mut all = Vec::new();
                let mut buffer = vec![0; 9000];
                let mut stream = stream;
                loop {
                    let part = 1 + numbers.below(buffer.len() - 1);
                    let done = stream.read(&mut buffer[..part]).expect("read");
                    if done == 0 {
                        break;
                    }
                    all.extend_from_slice(&buffer[..done]);
                }
                assert!(all == bytes(1 - number, len), "other bytes than were written");
            });
        }
    });
    drop((one, other));
    for endpoint in &two.endpoints {
        let counters = endpoint.device().counters();
        assert_eq!(counters.tx_rnr_naks, 0, "a message found no receive");
    }
}

#[test]
fn bytes_come_once_and_in_order() {
    both_ways(&Two::new("plain", "", Driver::THREAD, Config::default()), 1 << 20, 1);
}

#[test]
fn without_a_thread_of_the_device_too() {
    both_ways(&Two::new("inline", "", Driver::Inline, small()), 100_000, 2);
}

#[test]
fn through_loss_with_checksums() {
    let faults = "fault:loss=2%,dup=1%,reorder=1%,seed=7:";
    both_ways(&Two::new("loss", faults, Driver::THREAD, Config { checked: true, ..small() }), 200_000, 3);
}

/// Each way, and all of them, with blocks of another size than the peer's messages, through loss.
#[test]
fn each_way_carries_its_bytes_through_loss() {
    let never = usize::MAX;
    for (name, write_from, read_from, checked, used) in [
        ("send", never, never, true, vec![Way::Send]),
        ("write", 1, never, true, vec![Way::Send, Way::Write]),
        ("read", never, 1, false, vec![Way::Read]),
        ("all", 1500, 5000, false, vec![Way::Send, Way::Write, Way::Read]),
    ] {
        let faults = "fault:loss=1%,dup=1%,reorder=1%,seed=11:";
        let config = Config { write_from, read_from, checked, ..small() };
        let two = Two::new(&format!("ways-{name}"), faults, Driver::THREAD, config);
        both_ways(&two, 100_000, 4);
        let stats = two.endpoints[0].stats();
        for way in Way::ALL {
            assert_eq!(stats.sent(way) > 0, used.contains(&way), "{name}: {:?}", stats.sent);
        }
    }
}

/// Blocks that cannot be had are done without: what is offered is read in parts, the rest is sent.
#[test]
fn without_memory_for_blocks_bytes_come_all_the_same() {
    let two = Two::new("no-blocks", "", Driver::THREAD, Config { read_from: 1, ..small() });
    let none = Config { block_bytes: 1 << 24, ..small() };
    let poor = Endpoint::open("sim:streams-no-blocks", none).expect("an endpoint");
    let listener = poor.listen(0).expect("a port");
    let all = bytes(6, 100_000);
    scope(|threads| {
        let accepts = threads.spawn(|| listener.accept_within(LIMIT));
        let mut rich = two.endpoints[0].connect(listener.local_addr(), LIMIT).expect("connected");
        let mut poor = accepts.join().expect("no panic").expect("accepted").expect("in time");
        let len = all.len();
        threads.spawn(move || {
            let mut came = vec![0; len];
            poor.read_exact(&mut came).expect("read");
            poor.write_all(&came).expect("written");
        });
        rich.write_all(&all).expect("written");
        let mut back = vec![0; all.len()];
        rich.read_exact(&mut back).expect("read");
        assert!(back == all);
    });
    assert!(two.endpoints[0].stats().sent(Way::Read) > 0);
    assert_eq!(poor.stats().sent(Way::Send), poor.stats().sent.iter().sum::<u64>());
}

/// Where all windows of the device are in use, bytes are sent that would be offered or written.
#[test]
fn without_windows_bytes_come_all_the_same() {
    for grants in [0, 4] {
        let endpoints = [0, 1].map(|_| {
            let device = Device::builder().driver(Driver::THREAD).max_mrs(4);
            let device = device.open(&format!("sim:streams-no-windows-{grants}")).expect("a device");
            Endpoint::new(&device, Config { read_from: 1, grants, ..small() }).expect("an endpoint")
        });
        let two = Two { endpoints };
        both_ways(&two, 100_000, 12);
        let stats = two.endpoints[0].stats();
        // Grants may have taken all windows before the first offer.
        let offers = grants > 0 || stats.sent(Way::Read) > 0;
        assert!(stats.sent(Way::Send) > 0 && offers, "{:?}", stats.sent);
    }
}

#[test]
fn who_shuts_can_still_read() {
    let two = Two::new("half", "", Driver::THREAD, small());
    let (mut one, mut other) = two.streams();
    one.write_all(b"question").expect("written");
    one.shutdown_write().expect("shut");
    let refused = one.write(b"more").expect_err("shut");
    assert_eq!((refused.kind(), inside(&refused)), (ErrorKind::BrokenPipe, Some(Error::Shut)));
    let mut text = String::new();
    other.read_to_string(&mut text).expect("read");
    assert_eq!(text, "question");
    other.write_all(b"answer").expect("written");
    drop(other);
    text.clear();
    one.read_to_string(&mut text).expect("read");
    assert_eq!(text, "answer");
}

#[test]
fn what_was_written_before_a_drop_arrives() {
    let two = Two::new("drop", "", Driver::THREAD, Config::default());
    let (mut one, mut other) = two.streams();
    let all = bytes(5, 300_000);
    one.write_all(&all).expect("written");
    drop(one);
    let mut came = Vec::new();
    other.read_to_end(&mut came).expect("read");
    assert!(came == all);
    let refused = loop {
        if let Err(error) = other.write(b"nobody reads this") {
            break error;
        }
    };
    assert_eq!((refused.kind(), inside(&refused)), (ErrorKind::BrokenPipe, Some(Error::PeerDropped)));
}

#[test]
fn a_reset_ends_both() {
    let two = Two::new("reset", "", Driver::THREAD, small());
    let (mut one, mut other) = two.streams();
    one.reset();
    let here = one.read(&mut [0]).expect_err("reset");
    assert_eq!((here.kind(), inside(&here)), (ErrorKind::ConnectionAborted, Some(Error::Aborted)));
    let there = other.read(&mut [0]).expect_err("reset");
    assert_eq!(inside(&there), Some(Error::PeerReset { code: 2 }));
    assert_eq!(there.kind(), ErrorKind::ConnectionReset);
}

/// Bytes that the peer reads just then are taken back when it knows of the reset.
#[test]
fn a_reset_is_no_broken_rule_while_the_peer_reads_what_was_offered() {
    let two = Two::new("reset-offers", "", Driver::THREAD, Config { read_from: 1, ..small() });
    let mut numbers = Numbers(1);
    for round in 0..200 {
        let (mut one, mut other) = two.streams();
        let pause = Duration::from_micros(numbers.next() % 300);
        let said = bytes(round, 40_000);
        scope(|threads| {
            let reads = threads.spawn(|| {
                let mut came = Vec::new();
                let error = other.read_to_end(&mut came).expect_err("reset");
                assert!(said.starts_with(&came), "round {round}");
                assert_eq!(inside(&error), Some(Error::PeerReset { code: 2 }), "round {round}");
            });
            one.set_write_timeout(Some(pause + Duration::from_micros(1))).expect("set");
            let _ = one.write_all(&said);
            one.reset();
            reads.join().expect("no panic");
        });
    }
    assert!(two.endpoints[0].stats().sent(Way::Read) > 200);
    for endpoint in &two.endpoints {
        assert_eq!(endpoint.stats().violations.iter().sum::<u64>(), 0);
    }
    until(|| two.endpoints.iter().all(|end| end.stats().streams == 0), "a stream stays");
}

/// What the peer has not told to have is nobody's after a reset, over TCP as well.
#[test]
fn a_reset_over_tcp_leaves_nothing() {
    let two = Two::new("reset-tcp", "", Driver::THREAD, small());
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = two.endpoints[1].listen_with_tcp(0, local).expect("ports");
    let to = Transport::Tcp(listener.tcp_addr().expect("it listens"));
    for _ in 0..20 {
        let (mut one, other) = scope(|threads| {
            let accepts = threads.spawn(|| listener.accept_within(LIMIT));
            let one = two.endpoints[0].connect_over(to, LIMIT).expect("connected");
            (one, accepts.join().expect("no panic").expect("accepted").expect("in time"))
        });
        one.write_all(&[7; 3000]).expect("written");
        one.reset();
        drop((one, other));
    }
    until(|| two.endpoints.iter().all(|end| end.stats().streams == 0), "a stream stays");
}

/// Nobody reads what both have offered, and both know.
#[test]
fn two_that_drop_what_they_have_offered_are_done() {
    let two = Two::new("drop-offers", "", Driver::THREAD, Config { read_from: 1, ..small() });
    for round in 0..50 {
        let (mut one, mut other) = two.streams();
        for stream in [&mut one, &mut other] {
            stream.write_all(&bytes(round, 2000)).expect("written");
        }
        scope(|threads| {
            threads.spawn(|| drop(one));
            drop(other);
        });
    }
    until(|| two.endpoints.iter().all(|end| end.stats().streams == 0), "a stream stays");
    for endpoint in &two.endpoints {
        assert_eq!(endpoint.stats().violations.iter().sum::<u64>(), 0);
    }
}

#[test]
fn a_slow_reader_holds_its_writer_back_and_times_out() {
    let two = Two::new("slow", "", Driver::THREAD, small());
    let (mut one, mut other) = two.streams();
    one.set_write_timeout(Some(Duration::from_millis(50))).expect("set");
    other.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    assert_eq!(other.read(&mut [0]).expect_err("nothing").kind(), ErrorKind::TimedOut);
    assert!(one.set_read_timeout(Some(Duration::ZERO)).is_err());
    let all = bytes(3, 1 << 20);
    let mut written = 0;
    let late = loop {
        match one.write(&all[written..]) {
            Ok(done) => written += done,
            Err(error) => break error,
        }
    };
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    let config = small();
    assert!(written <= (config.receives * config.chunk_bytes) as usize, "{written} bytes wait");
    assert!(two.endpoints.iter().all(|endpoint| endpoint.device().counters().tx_rnr_naks == 0));
    // What waits can still be read, and makes room.
    other.set_read_timeout(None).expect("set");
    one.shutdown_write().expect("shut");
    let mut came = Vec::new();
    other.read_to_end(&mut came).expect("read");
    assert!(came == all[..written]);
}

#[test]
fn halves_go_to_threads_of_their_own() {
    let two = Two::new("split", "", Driver::THREAD, small());
    let (one, mut other) = two.streams();
    let (mut reader, mut writer) = one.split();
    let writes = spawn(move || writer.write_all(b"to the end"));
    let mut text = String::new();
    other.read_to_string(&mut text).expect("read: the half that writes was dropped");
    assert_eq!(text, "to the end");
    writes.join().expect("no panic").expect("written");
    other.write_all(b"and back").expect("written");
    drop(other);
    text.clear();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text, "and back");
}

#[test]
fn nobody_listens_and_a_port_is_taken() {
    let two = Two::new("ports", "", Driver::THREAD, small());
    let listener = two.endpoints[1].listen(0).expect("a free port");
    let taken = two.endpoints[1].listen(listener.local_addr().port());
    assert_eq!(taken.err().map(|error| error.kind()), Some(ErrorKind::AddrInUse));
    let mut nobody = listener.local_addr();
    nobody.set_port(1);
    let refused = two.endpoints[0].connect(nobody, Duration::from_secs(2));
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
    assert_eq!(two.endpoints[0].stats().streams, 0, "its memory is free again");
    assert!(listener.accept_within(Duration::from_millis(1)).expect("no error").is_none());
}

#[test]
fn sizes_out_of_bounds_are_refused() {
    for config in [
        Config { receives: 0, ..Config::default() },
        Config { sends: 40_000, ..Config::default() },
        Config { chunk_bytes: 32, ..Config::default() },
    ] {
        let refused = srnic_streams::Endpoint::open("sim:sizes", config).err().expect("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    }
}

/// Whoever has said that it writes no more, and drops its stream while it READs what was offered,
/// tells the peer.
#[test]
fn a_drop_while_an_offer_is_read_is_told() {
    let config = Config { write_from: usize::MAX, read_from: 1, ..Config::default() };
    let two = Two::new("drop-reads", "fault:delay=20ms:", Driver::THREAD, config);
    let (mut one, other) = two.streams();
    other.shutdown_write().expect("shut");
    assert_eq!(one.read(&mut [0]).expect("the end"), 0);
    one.write_all(&[1; 4000]).expect("written");
    until(|| two.endpoints[0].device().counters().rx_reads > 0, "nobody reads the offer");
    drop(other);
    let error = loop {
        if let Err(error) = one.write(&[1; 4000]) {
            break error;
        }
    };
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>()).copied();
    assert_eq!(inner, Some(Error::PeerDropped));
}
