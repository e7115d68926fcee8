//! A peer that keeps no rule: the stream is closed for a reason that is counted, and nothing else
//! suffers.

#[path = "support/fuzz.rs"]
mod fuzz;
#[path = "support/raw.rs"]
mod raw;
mod support;

use fuzz::Fuzz;
use raw::{Hostile, NOTHING_CAME, at, good_hello, header, message};
use srnic_streams::protocol::{Descriptor, Header, Hello, Kind, Violation};
use srnic_streams::{Config, Error};
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{scope, spawn};
use std::time::{Duration, Instant};
use support::{LIMIT, bytes, small, until};
use verbs_api::{Connector, RemoteAddr, SendData, SendRequest, WcStatus};

/// Connections of the fuzzer; some seconds.
const CONNECTIONS: u64 = 500;
/// No connection takes as long.
const HANG: Duration = Duration::from_secs(60);
const REPLAY: &str = "cargo xtask fuzz --streams --seed SEED --seconds 1 plays it again";

#[test]
fn each_broken_rule_closes_the_stream_and_is_counted() {
    let hostile = Hostile::new("rules");
    let data = header(Kind::Data, 3);
    let nowhere = Descriptor { addr: 0x1000, rkey: 0xDEAD_BEEF, len: 500 };
    let version = {
        let mut other = message(data, b"abc");
        other[0] = 7;
        other
    };
    for (violation, sent) in [
        (Violation::Short, vec![0; 31]),
        (Violation::Version, version),
        (Violation::Length, message(data, b"abcd")),
        (Violation::Length, message(header(Kind::Fin, 3), b"abc")),
        (Violation::Position, message(Header { position: 1, ..data }, b"abc")),
        (Violation::Taken, message(Header { taken: 1, ..data }, b"abc")),
        (Violation::Credit, message(Header { credit: 31, ..data }, b"abc")),
        (Violation::Credit, message(Header { credit: 40_000, ..data }, b"abc")),
        (Violation::Checksum, message(Header { checked: true, ..data }, b"abc")),
        (Violation::Descriptor, message(header(Kind::Grant, 16), &[0; 16])),
        (Violation::Descriptor, message(header(Kind::Offer, 16), &[0; 16])),
        (Violation::Offer, message(header(Kind::Offer, 16), &nowhere.to_bytes())),
    ] {
        let before = hostile.endpoint.stats().violations(violation);
        let (mut peer, mut stream) = hostile.peer();
        peer.send(&sent);
        let error = stream.read(&mut [0; 8]).expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        assert_eq!(inner, Some(&Error::Violation { rule: violation, position: 0 }));
        assert_eq!(hostile.endpoint.stats().violations(violation), before + 1);
    }
}

/// What a peer was granted it may write to, and to nothing else.
#[test]
fn a_peer_writes_to_what_was_granted_and_nothing_else() {
    for (way, expected) in [
        (Outside::Not, None),
        (Outside::Behind, Some(ErrorKind::ConnectionReset)),
        (Outside::Number, Some(ErrorKind::InvalidData)),
        (Outside::Header, Some(ErrorKind::InvalidData)),
    ] {
        let hostile = Hostile::new(&format!("grants-{way:?}"));
        let (mut peer, mut stream) = hostile.peer();
        let full = small().chunk_bytes - 32;
        assert!(peer.send(&message(header(Kind::Data, full), &vec![b'a'; full as usize])));
        stream.read_exact(&mut vec![0; full as usize]).expect("read");
        let granted = peer.grant();
        let mut next = Header { position: full.into(), ..header(Kind::Data, 3) };
        next.kind = if way == Outside::Header { Kind::Fin } else { Kind::Data };
        let past = if way == Outside::Behind { u64::from(granted.len) - 34 } else { 0 };
        let number = u32::from(way == Outside::Number);
        peer.write(&message(next, b"xyz"), at(granted, past), Some(number));
        let mut came = [0; 3];
        match (stream.read_exact(&mut came), expected) {
            (Ok(()), None) => assert_eq!(&came, b"xyz"),
            (Err(error), Some(kind)) => assert_eq!(error.kind(), kind, "{way:?}: {error}"),
            (result, _) => panic!("{way:?}: {result:?}"),
        }
    }
}

/// How a WRITE is out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outside {
    Not,
    /// It ends behind the block.
    Behind,
    /// Its immediate is not that of the next grant.
    Number,
    /// What it brings may not be written.
    Header,
}

/// What a program reads in place no peer can change: the block that it was written to is not shown
/// to the peer any more. Until the program reads it, it is: the negative control.
#[test]
fn what_a_program_has_in_its_hands_the_peer_does_not_reach() {
    for borrows in [false, true] {
        let hostile = Hostile::new(&format!("in-hand-{borrows}"));
        let (mut peer, mut stream) = hostile.peer();
        let full = small().chunk_bytes - 32;
        assert!(peer.send(&message(header(Kind::Data, full), &vec![b'a'; full as usize])));
        stream.read_exact(&mut vec![0; full as usize]).expect("read");
        let granted = peer.grant();
        let next = Header { position: full.into(), ..header(Kind::Data, 3) };
        peer.write(&message(next, b"xyz"), at(granted, 0), Some(0));
        let received = borrows.then(|| stream.read_buffer().expect("read"));
        let again = peer.write(b"ABC", at(granted, 32), None);
        match received {
            Some(received) => {
                assert_eq!((again, &*received), (WcStatus::RemAccessErr, &b"xyz"[..]));
            }
            None => {
                let mut came = [0; 3];
                assert_eq!(again, WcStatus::Success);
                stream.read_exact(&mut came).expect("read");
                assert_eq!(&came, b"ABC");
            }
        }
    }
}

/// The negative control of credit: who sends more than there is credit for.
#[test]
fn more_messages_than_credit_close_the_stream() {
    let hostile = Hostile::new("overrun");
    let (mut peer, mut stream) = hostile.peer();
    for number in 0..=u64::from(small().receives) {
        peer.send(&message(Header { position: number, ..header(Kind::Data, 1) }, b"x"));
    }
    // Who reads gives credit, and the last message may not have been looked at yet.
    until(|| hostile.violations() > 0, "it had credit");
    let mut came = Vec::new();
    let error = stream.read_to_end(&mut came).expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(came.len(), small().receives as usize);
    assert_eq!(hostile.endpoint.stats().violations(Violation::Overrun), 1);
}

#[test]
fn a_peer_that_writes_to_our_memory_is_cut_off() {
    let hostile = Hostile::new("writes");
    let (mut peer, mut stream) = hostile.peer();
    // The peer knows the key of its own region only; a guess is as good.
    let guess = RemoteAddr { addr: peer.memory.own.addr(), rkey: peer.memory.own.rkey() };
    let gift = SendRequest::write(SendData::Inline(b"gift"), guess);
    assert_ne!(peer.post(&gift), WcStatus::Success);
    drop(peer);
    assert!(stream.read(&mut [0; 8]).is_err());
}

#[test]
fn who_is_no_end_of_a_stream_is_rejected_and_counted() {
    let hostile = Hostile::new("strangers");
    for said in [&b""[..], b"GET / HTTP/1.1", b"SRNS\x02", b"SRNS\x01"] {
        let (pd, cq) = (hostile.device.alloc_pd(), hostile.device.create_cq(16).expect("a queue"));
        let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
        let to = hostile.listener.local_addr();
        let connecting = Connector::new().private_data(said).connect(pair, to).expect("begun");
        let refused = scope(|threads| {
            let refused = threads.spawn(|| connecting.wait(LIMIT));
            while !refused.is_finished() {
                let nobody = hostile.listener.accept_within(Duration::from_millis(5)).expect("no error");
                assert!(nobody.is_none());
            }
            refused.join().expect("no panic")
        });
        assert!(refused.is_err(), "{said:?}");
    }
    assert_eq!(hostile.endpoint.stats().rejected, 4);
    assert_eq!(hostile.endpoint.stats().streams, 0);
}

/// A peer that does anything, on a connection of each seed, beside a friend whose bytes go on. A
/// seed that hangs is a failure, and no test that hangs.
fn anything(name: &'static str, seeds: impl Iterator<Item = u64> + Send + 'static) {
    let (tells, told) = channel();
    let plays = spawn(move || {
        let mut fuzz = Fuzz::new(name);
        for seed in seeds {
            tells.send(seed).expect("somebody listens");
            fuzz.round(seed);
        }
        drop(tells);
        fuzz.finish();
    });
    let mut last = None;
    loop {
        match told.recv_timeout(HANG) {
            Ok(seed) => last = Some(seed),
            Err(RecvTimeoutError::Timeout) => panic!("seed {last:?} hangs: {REPLAY}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    assert!(plays.join().is_ok(), "at seed {last:?}: {REPLAY}");
}

#[test]
fn whatever_comes_nothing_hangs_and_nobody_else_suffers() {
    anything("fuzz", 0..CONNECTIONS);
}

/// For as long, and from the seed on, as `cargo xtask fuzz --streams` says.
#[test]
#[ignore = "it takes as long as it is told to: cargo xtask fuzz --streams"]
fn anything_for_a_while() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seconds = number("SRNIC_FUZZ_SECONDS").unwrap_or(60);
    let from = number("SRNIC_FUZZ_SEED").unwrap_or(1000);
    let end = Instant::now() + Duration::from_secs(seconds);
    anything("fuzz-long", (from..).take_while(move |_| Instant::now() < end));
}

/// A victim that offers what it writes, and its peer.
fn offering(name: &str) -> Hostile {
    Hostile::with(name, Config { read_from: 1, ..small() })
}

/// What a peer is offered it may read, and nothing beside it.
#[test]
fn a_peer_reads_what_was_offered_and_nothing_else() {
    for (number, (past, len, key)) in [
        (0, 900, 0),
        (1, 900, 0),
        (900, 1, 0),
        (u64::MAX, 2, 0),
        (u64::MAX, 1, 0),
        (1 << 20, 8, 0),
        (0, 900, 0x40),
    ]
    .into_iter()
    .enumerate()
    {
        let hostile = offering(&format!("offers-{number}"));
        let (mut peer, mut stream) = hostile.peer();
        // Before and behind it lies what the program has written as well, and is not offered here.
        let (mut other, mut others) = hostile.peer();
        let said = bytes(7, 900);
        for _ in 0..2 {
            others.write_all(&said).expect("written");
        }
        stream.write_all(&said).expect("written");
        others.write_all(&said).expect("written");
        peer.until("nothing is offered", |heard| !heard.offered.is_empty());
        let (offered, position) = peer.heard.offered[0];
        assert_eq!((offered.len, position), (900, 0));
        let from = at(Descriptor { rkey: offered.rkey ^ key, ..offered }, past);
        if number == 0 {
            assert!(peer.read(from, len) == (WcStatus::Success, said));
            assert_eq!(hostile.refused(), 0);
            continue;
        }
        assert_eq!(
            (peer.read_in_vain(from, len), hostile.refused()),
            (WcStatus::RemAccessErr, 1),
            "{past} {len}"
        );
        let error = stream.read(&mut [0; 8]).expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        // It is the peer of the other stream that may read what that one offers.
        other.until("nothing is offered", |heard| heard.offered.len() == 3);
        assert!(other.read(at(other.heard.offered[0].0, 0), 900) == (WcStatus::Success, said));
    }
}

/// The key of an offer is the peer's alone.
#[test]
fn what_is_offered_to_one_peer_no_other_reads() {
    let hostile = offering("offers-foreign");
    let (mut peer, mut stream) = hostile.peer();
    let (mut other, _others) = hostile.peer();
    stream.write_all(&bytes(7, 900)).expect("written");
    peer.until("nothing is offered", |heard| !heard.offered.is_empty());
    let offered = peer.heard.offered[0].0;
    assert_eq!(other.read_in_vain(at(offered, 0), 900), WcStatus::RemAccessErr);
    assert_eq!(hostile.refused(), 1);
    assert!(peer.read(at(offered, 0), 900) == (WcStatus::Success, bytes(7, 900)));
}

/// An offer ends when the peer has said that it holds the bytes, and when the stream ends.
#[test]
fn what_was_offered_and_has_ended_nobody_reads() {
    for resets in [false, true] {
        let hostile = offering(&format!("offers-ended-{resets}"));
        let (mut peer, mut stream) = hostile.peer();
        let said = bytes(7, 900);
        stream.write_all(&said).expect("written");
        peer.until("nothing is offered", |heard| !heard.offered.is_empty());
        let offered = peer.heard.offered[0].0;
        if resets {
            stream.reset();
        }
        let end = Instant::now() + LIMIT;
        loop {
            let (status, came) = peer.read(at(offered, 0), 900);
            if status != WcStatus::Success {
                assert!(came.iter().all(|byte| *byte == NOTHING_CAME));
                break;
            }
            // It has not ended yet, so nobody else has the memory.
            assert!(came == said);
            assert!(Instant::now() < end, "the offer never ends");
            let taken = if resets { 0 } else { 900 };
            peer.send(&message(Header { taken, credit: 33, ..header(Kind::Credit, 0) }, b""));
            let answers = peer.heard.answers;
            if !resets {
                peer.until("no answer", |heard| heard.answers > answers);
            }
        }
        assert_eq!(hostile.refused(), 1, "resets: {resets}");
        assert_eq!(hostile.violations(), 0);
        assert!(stream.read(&mut [0; 8]).is_err());
    }
}

/// A real negative control of credit: a peer that has fewer receives than it says.
#[test]
fn without_credit_messages_find_no_receive() {
    for (lies, receives) in [(false, 60), (true, 1000)] {
        let hostile = Hostile::new(&format!("rnr-{lies}"));
        let hello = Hello { receives, ..good_hello() };
        // It posts 64, four of them for messages that are not counted, and none again.
        let (peer, mut stream) = hostile.connect(&hello.to_bytes()).expect("accepted");
        stream.set_write_timeout(Some(Duration::from_millis(50))).expect("set");
        let mut written = 0;
        let late = loop {
            match stream.write_all(b"message") {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let naks = hostile.device.counters().tx_rnr_naks;
        assert_eq!((naks > 0, written > 60), (lies, lies), "{naks} RNR NAKs, {written} messages");
        drop((peer, stream));
    }
}

/// A peer that stays and says nothing: who waits for it is late, and not for ever.
#[test]
fn a_peer_that_says_nothing_hangs_nobody_who_has_a_limit() {
    let hostile = Hostile::new("mute");
    let (peer, mut stream) = hostile.peer();
    let (tells, told) = channel();
    let program = spawn(move || {
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let copied = stream.read(&mut [0; 8]).map(drop);
        let lent = stream.read_buffer().map(drop);
        tells.send([copied, lent]).expect("somebody listens");
    });
    let found = told.recv_timeout(HANG).expect("a program hangs");
    assert!(found.iter().all(|found| found.as_ref().is_err_and(|e| e.kind() == ErrorKind::TimedOut)));
    program.join().expect("no panic");
    drop(peer);
}

#[test]
fn who_leaves_without_a_word_is_an_error_and_not_an_end() {
    let hostile = Hostile::new("silent");
    let (mut peer, mut stream) = hostile.peer();
    assert!(peer.send(&message(header(Kind::Data, 3), b"abc")));
    drop(peer);
    let mut came = Vec::new();
    let error = stream.read_to_end(&mut came).expect_err("no Fin came");
    assert_eq!((error.kind(), &came[..]), (ErrorKind::ConnectionReset, &b"abc"[..]));
}
