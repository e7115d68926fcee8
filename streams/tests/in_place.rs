//! Bytes that are written and read where they lie, in the memory of the pool.

mod support;

use srnic_streams::{Buffer, Config, Endpoint, Listener, Received, Stream, Transport, Way};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{scope, spawn};
use std::time::{Duration, Instant};
use support::{LIMIT, Numbers, Two, bytes, small, until};
use verbs_api::Driver;

/// Writes all of it, now in place and now by copying.
fn write(mut stream: &Stream, mut rest: &[u8], numbers: &mut Numbers) {
    while !rest.is_empty() {
        let part = rest.len().min(1 + numbers.below(9000));
        let done = if numbers.below(4) == 0 {
            stream.write(&rest[..part]).expect("written")
        } else {
            let mut buffer = stream.buffer(part).expect("memory");
            assert!(buffer.is_empty() && buffer.remaining() > 0);
            // In one go, or in two.
            let first = buffer.write(&rest[..numbers.below(part) + 1]).expect("room or not");
            let done = first + buffer.write(&rest[first..part]).expect("room or not");
            assert_eq!(*buffer, rest[..done]);
            stream.write_buffer(&mut buffer).expect("written");
            assert_eq!((buffer.len(), buffer.remaining()), (0, 0));
            done
        };
        rest = &rest[done..];
    }
}

/// Reads to the end, now in place and now by copying. It has up to three pieces in its hands at a
/// time, gives them back in any order, and looks at the last moment whether they are what came.
fn read(stream: &Stream, numbers: &mut Numbers) -> Vec<u8> {
    read_with(stream, numbers, 3, || {})
}

/// As [`read`], with up to `most` pieces in its hands; it rests before each call.
fn read_with(mut stream: &Stream, numbers: &mut Numbers, most: usize, mut rest: impl FnMut()) -> Vec<u8> {
    let (mut all, mut held) = (Vec::new(), Vec::<(usize, Received)>::new());
    let mut buffer = vec![0; 9000];
    loop {
        rest();
        while held.len() > numbers.below(most + 1) {
            let (at, received) = held.swap_remove(numbers.below(held.len()));
            assert!(*received == all[at..at + received.len()], "somebody wrote to what was borrowed");
        }
        if numbers.below(4) == 0 {
            let part = 1 + numbers.below(buffer.len() - 1);
            match stream.read(&mut buffer[..part]).expect("read") {
                0 => return all,
                done => all.extend_from_slice(&buffer[..done]),
            }
        } else {
            let mut received = stream.read_buffer().expect("read");
            if received.is_empty() {
                return all;
            }
            let at = all.len();
            all.extend_from_slice(&received);
            let passed = numbers.below(received.len());
            received.advance(passed);
            held.push((at + passed, received));
        }
    }
}

/// All bytes come, once and in order, and no message finds no receive. Returns both streams.
fn both_ways(two: &Two, len: usize, seed: u64) -> (Stream, Stream) {
    let (one, other) = two.streams();
    scope(|threads| {
        for (stream, number) in [(&one, 0), (&other, 1)] {
            threads.spawn(move || {
                write(stream, &bytes(number, len), &mut Numbers(seed + number));
                stream.shutdown_write().expect("shut");
            });
            threads.spawn(move || {
                let all = read(stream, &mut Numbers(seed + 10 + number));
                assert!(all == bytes(1 - number, len), "other bytes than were written");
            });
        }
    });
    for endpoint in &two.endpoints {
        assert_eq!(endpoint.device().counters().tx_rnr_naks, 0, "a message found no receive");
    }
    (one, other)
}

#[test]
fn each_way_carries_bytes_in_place_through_loss() {
    let never = usize::MAX;
    for (name, write_from, read_from, checked, used) in [
        ("send", never, never, true, vec![Way::Send]),
        ("write", 1, never, true, vec![Way::Send, Way::Write]),
        ("read", never, 1, false, vec![Way::Read]),
        ("all", 1500, 5000, false, vec![Way::Send, Way::Write]),
    ] {
        let faults = "fault:loss=1%,dup=1%,reorder=1%,seed=11:";
        let config = Config { write_from, read_from, checked, ..small() };
        let two = Two::new(&format!("in-place-{name}"), faults, Driver::THREAD, config);
        both_ways(&two, 100_000, 4);
        for stats in two.endpoints.each_ref().map(Endpoint::stats) {
            for way in used.iter().copied() {
                assert!(stats.sent(way) > 0, "{name}: {:?}", stats.sent);
            }
            assert!(stats.bytes_read_in_place > 30_000, "{name}: {}", stats.bytes_read_in_place);
            assert!(stats.bytes_read_in_place < stats.bytes_read);
            let written = stats.bytes_written_in_place;
            assert!(written > 5_000 && written < stats.bytes_written, "{name}: {written}");
        }
    }
}

/// Runs of random sizes; some seconds.
const SEEDS: u64 = 30;
/// No run takes as long.
const HANG: Duration = Duration::from_secs(60);

/// Any sizes and thresholds, which are not the same at both ends.
fn any_config(numbers: &mut Numbers) -> Config {
    let never = usize::MAX;
    let number = |numbers: &mut Numbers, from: usize, below: usize| {
        u32::try_from(from + numbers.below(below - from)).expect("small")
    };
    Config {
        receives: number(numbers, 1, 9),
        chunk_bytes: number(numbers, 64, 2000),
        sends: number(numbers, 1, 9),
        memory_max: 4 << 20,
        block_bytes: number(numbers, 64, 8000),
        grants: number(numbers, 0, 6),
        write_from: [1, 700, 3000, never][numbers.below(4)],
        read_from: [1, 1500, 5000, never][numbers.below(4)],
        checked: numbers.below(3) == 0,
        ..Config::default()
    }
}

/// What one end of a stream does: it writes so many bytes, and shuts that direction, before it
/// reads, or meanwhile, or behind the end of the other one.
fn converse(stream: &Stream, [own, other]: [&[u8]; 2], receives: u32, seed: u64) {
    let mut numbers = Numbers(seed);
    let (order, slow) = (numbers.below(3), numbers.below(3) == 0);
    let mut numbers_of = [numbers.next(), numbers.next()].map(Numbers);
    let [writes, reads] = &mut numbers_of;
    let mut write_all = || {
        write(stream, own, writes);
        stream.shutdown_write().expect("shut");
    };
    let most = usize::try_from(receives).expect("small").min(4) - 1;
    let mut read_all = || {
        let mut rests = Numbers(seed + 1);
        let rest = || {
            if slow && rests.below(8) == 0 {
                std::thread::sleep(Duration::from_micros(rests.next() % 3000));
            }
        };
        let all = read_with(stream, reads, most, rest);
        assert!(all == other, "{} bytes came of {}", all.len(), other.len());
    };
    // Only one end waits for the other's end, or none would begin.
    if order == 0 && seed.is_multiple_of(2) {
        read_all();
        write_all();
    } else {
        scope(|threads| {
            threads.spawn(write_all);
            read_all();
        });
    }
}

/// A run of a seed: some streams at once between two endpoints of any sizes, through any loss.
fn any_run(seed: u64) {
    let mut numbers = Numbers(seed);
    let configs = [(); 2].map(|()| any_config(&mut numbers));
    let [loss, dup, reorder] = [(); 3].map(|()| numbers.below(3));
    let faults = format!("fault:loss={loss}%,dup={dup}%,reorder={reorder}%,seed={seed}:");
    let endpoints = configs.map(|config| {
        let device = format!("{faults}sim:streams-any-{seed}");
        Endpoint::open(&device, config).expect("an endpoint")
    });
    let two = Two { endpoints };
    let streams: Vec<_> = (0..1 + numbers.below(3)).map(|_| two.streams()).collect();
    scope(|threads| {
        for (one, other) in streams {
            let said = [(); 2].map(|()| {
                let len = [0, 1, 1000, 30_000][numbers.below(4)];
                bytes(numbers.next(), len + numbers.below(len + 1))
            });
            let seeds = [numbers.next() & !1, numbers.next() | 1];
            threads.spawn(move || {
                let [mine, yours] = &said;
                scope(|ends| {
                    ends.spawn(move || converse(&one, [mine, yours], configs[0].receives, seeds[0]));
                    ends.spawn(move || converse(&other, [yours, mine], configs[1].receives, seeds[1]));
                });
            });
        }
    });
    until(|| two.endpoints.iter().all(|end| end.stats().streams == 0), "a stream stays");
    for endpoint in &two.endpoints {
        assert_eq!(endpoint.device().counters().tx_rnr_naks, 0, "a message found no receive");
        assert_eq!(endpoint.stats().violations.iter().sum::<u64>(), 0);
    }
}

/// Bytes that an end which leaves early has to say.
const SAID: usize = 200_000;

/// How an end leaves a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaves {
    /// When it has read the end of the stream, or an error.
    Late,
    Drops,
    Resets,
}

/// Writes and reads in turn, a little each time, until it leaves. Returns how many bytes it has
/// written and read, and whether the last read found the end of the stream.
fn play(mut stream: Stream, [own, other]: [&[u8]; 2], leaves: Leaves, seed: u64) -> (usize, usize, bool) {
    let mut numbers = Numbers(seed);
    let patience = Some(Duration::from_millis(1));
    stream.set_read_timeout(patience).expect("set");
    stream.set_write_timeout(patience).expect("set");
    let mut steps = if leaves == Leaves::Late { usize::MAX } else { numbers.below(40) };
    let (mut written, mut came, mut held) = (0, 0, None);
    while steps > 0 {
        steps -= 1;
        let rest = &own[written..own.len().min(written + 1 + numbers.below(9000))];
        if numbers.below(2) == 0 {
            written += stream.write(rest).unwrap_or(0);
        } else if let Ok(mut buffer) = stream.buffer(rest.len()) {
            let taken = buffer.write(rest).expect("room");
            let _ = stream.write_buffer(&mut buffer);
            written += taken - buffer.len();
        }
        let mut part = vec![0; 1 + numbers.below(9000)];
        let read = if numbers.below(2) == 0 {
            drop(held.take());
            stream.read(&mut part)
        } else {
            drop(held.take());
            stream.read_buffer().map(|received| {
                part = received.to_vec();
                held = Some(received);
                part.len()
            })
        };
        match read {
            Ok(0) => return (written, came, true),
            Ok(len) => {
                assert!(part[..len] == other[came..came + len], "other bytes at {came}");
                came += len;
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(_) => break,
        }
    }
    if leaves == Leaves::Resets {
        stream.reset();
    }
    (written, came, false)
}

/// A run of a seed in which one end, or both, leave before their time.
fn any_end(seed: u64) {
    let mut numbers = Numbers(seed);
    let configs = [(); 2].map(|()| any_config(&mut numbers)).map(|any| match seed % 2 {
        // Offers outlive their messages.
        0 => Config { read_from: 1, checked: false, ..any },
        _ => any,
    });
    let faults = format!("fault:loss={}%,seed={seed}:", numbers.below(3));
    let endpoints = configs.map(|config| {
        let device = format!("{faults}sim:streams-end-{seed}");
        Endpoint::open(&device, config).expect("an endpoint")
    });
    let two = Two { endpoints };
    for _ in 0..3 {
        let early = [Leaves::Drops, Leaves::Resets][numbers.below(2)];
        let leaves = [early, [Leaves::Late, Leaves::Late, Leaves::Drops, Leaves::Resets][numbers.below(4)]];
        let said = [(); 2].map(|()| bytes(numbers.next(), SAID));
        let seeds = [numbers.next(), numbers.next()];
        let (one, other) = two.streams();
        let [mine, yours] = &said;
        let [first, second] = scope(|ends| {
            let first = ends.spawn(move || play(one, [mine, yours], leaves[0], seeds[0]));
            let second = ends.spawn(move || play(other, [yours, mine], leaves[1], seeds[1]));
            [first, second].map(|end| end.join().expect("no panic"))
        });
        assert!(second.1 <= first.0 && first.1 <= second.0);
        if leaves == [Leaves::Drops, Leaves::Late] {
            assert_eq!((second.1, second.2), (first.0, true), "what was written before a drop arrives");
        }
        until(|| two.endpoints.iter().all(|end| end.stats().streams == 0), "a stream stays");
    }
    for endpoint in &two.endpoints {
        assert_eq!(endpoint.device().counters().tx_rnr_naks, 0, "a message found no receive");
        assert_eq!(endpoint.stats().violations.iter().sum::<u64>(), 0);
    }
}

/// Plays a run of each seed. `SRNIC_STREAMS_SEED=n` plays that one alone.
fn of_all_seeds(run: fn(u64)) {
    let seed = std::env::var("SRNIC_STREAMS_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seed.map_or(0..SEEDS, |seed: u64| seed..seed + 1) {
        let (tells, told) = channel();
        let run = spawn(move || {
            run(seed);
            tells.send(()).expect("somebody listens");
        });
        let hangs = told.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout);
        assert!(!hangs, "it hangs: SRNIC_STREAMS_SEED={seed} plays it again");
        assert!(run.join().is_ok(), "SRNIC_STREAMS_SEED={seed} plays it again");
    }
}

#[test]
fn any_sizes_carry_bytes_once_and_in_order() {
    of_all_seeds(any_run);
}

#[test]
fn any_end_before_its_time_changes_no_byte_and_leaves_nothing() {
    of_all_seeds(any_end);
}

#[test]
fn long_messages_are_not_copied_at_either_end() {
    let two = Two::new("in-place-long", "", Driver::THREAD, Config::default());
    let (one, other) = two.streams();
    let all = bytes(3, 4 << 20);
    scope(|threads| {
        threads.spawn(|| {
            let mut rest = &all[..];
            while !rest.is_empty() {
                let mut buffer = one.buffer(rest.len()).expect("memory");
                buffer.fill_with(|space| rest.read(space)).expect("memory");
                one.write_buffer(&mut buffer).expect("written");
            }
            one.shutdown_write().expect("shut");
        });
        let mut came = Vec::new();
        loop {
            let received = other.read_buffer().expect("read");
            if received.is_empty() {
                break;
            }
            came.extend_from_slice(&received);
        }
        assert!(came == all);
    });
    let [sent, came] = two.endpoints.each_ref().map(Endpoint::stats);
    assert_eq!(came.bytes_read_in_place, all.len() as u64);
    // The peer grants blocks once it has seen a long message.
    assert!(sent.bytes_written_in_place > (3 << 20), "{}", sent.bytes_written_in_place);
    assert!(sent.sent(Way::Write) > 8, "{:?}", sent.sent);
}

/// Blocks that the peer does not have, and memory that is too short for the whole message: bytes
/// are copied, and come all the same.
#[test]
fn what_cannot_go_in_place_is_copied() {
    let two = Two::new("in-place-poor", "", Driver::THREAD, Config { read_from: 1, ..small() });
    let none = Config { block_bytes: 1 << 24, ..small() };
    let poor = Endpoint::open("sim:streams-in-place-poor", none).expect("an endpoint");
    let listener = poor.listen(0).expect("a port");
    let all = bytes(6, 100_000);
    scope(|threads| {
        let accepts = threads.spawn(|| listener.accept_within(LIMIT));
        let rich = two.endpoints[0].connect(listener.local_addr(), LIMIT).expect("connected");
        let poor = accepts.join().expect("no panic").expect("accepted").expect("in time");
        threads.spawn(move || {
            let came = read(&poor, &mut Numbers(1));
            // It has no blocks of its own, so its buffers are as long as a message.
            assert_eq!(poor.buffer(1 << 20).expect("memory").remaining(), 1000 - 32);
            write(&poor, &came, &mut Numbers(2));
        });
        write(&rich, &all, &mut Numbers(3));
        rich.shutdown_write().expect("shut");
        assert!(read(&rich, &mut Numbers(4)) == all);
    });
    assert!(two.endpoints[0].stats().sent(Way::Read) > 0);
    let stats = poor.stats();
    assert!(stats.bytes_read_in_place < stats.bytes_read / 2, "{stats:?}");
}

/// What a program has in its hands outlives the stream, and its memory comes back then.
#[test]
fn what_was_received_outlives_its_stream_and_gives_its_memory_back() {
    let config = Config { write_from: 1, ..small() };
    let two = Two::new("in-place-after", "", Driver::THREAD, config);
    let all = bytes(8, 8_000);
    let mut memory = Vec::new();
    for _ in 0..50 {
        let (one, other) = two.streams();
        let mut held = Vec::new();
        scope(|threads| {
            let writes = threads.spawn(|| (&one).write_all(&all).expect("written"));
            let mut len = 0;
            while len < all.len() {
                // As long as all receives are in our hands, nothing more comes.
                if held.len() == 4 {
                    let received: Received = held.remove(0);
                    drop(received);
                }
                let received = other.read_buffer().expect("read");
                len += received.len();
                held.push(received);
            }
            writes.join().expect("no panic");
        });
        let mut unsent = one.buffer(4000).expect("memory");
        unsent.write_all(&[7; 900]).expect("room");
        one.reset();
        drop((one, other));
        until(|| two.endpoints.iter().all(|end| end.stats().streams == 0), "a stream stays");
        // They may be used once more by others meanwhile, if the pool takes them for free.
        let (mut next, mut last) = two.streams();
        next.write_all(&bytes(9, 3_000)).expect("written");
        last.read_exact(&mut [0; 3_000]).expect("read");
        let mut at = all.len();
        for received in held.iter().rev() {
            at -= received.len();
            assert!(**received == all[at..at + received.len()], "somebody wrote to what was borrowed");
        }
        assert_eq!(*unsent, [7; 900]);
        drop((held, unsent));
        memory.push(two.endpoints.each_ref().map(|end| end.stats().memory));
    }
    assert_eq!(memory[10], memory[49], "memory is lost");
}

#[test]
fn a_program_that_has_all_the_memory_waits_and_goes_on_with_what_it_gives_back() {
    let config = Config { memory_max: 1 << 20, ..small() };
    let two = Two::new("in-place-full", "", Driver::THREAD, config);
    let (one, other) = two.streams();
    one.set_write_timeout(Some(Duration::from_millis(1))).expect("set");
    let mut held: Vec<Buffer> = Vec::new();
    let refused = loop {
        match one.buffer(4000) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
        assert!(held.len() < 2000, "the pool has no bound");
    };
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert!(held.len() > 100);
    let mut last = held.pop().expect("many");
    last.write_all(b"all").expect("room");
    one.write_buffer(&mut last).expect("written");
    assert_eq!(*other.read_buffer().expect("read"), *b"all");
    one.set_write_timeout(Some(LIMIT)).expect("set");
    scope(|threads| {
        let waits = threads.spawn(|| one.buffer(10).map(|buffer| buffer.remaining()));
        drop(held);
        assert!(waits.join().expect("no panic").expect("memory") >= 10);
    });
}

#[test]
fn a_write_that_times_out_leaves_what_it_did_not_write_in_the_buffer() {
    let two = Two::new("in-place-late", "", Driver::THREAD, Config { write_from: usize::MAX, ..small() });
    let (one, other) = two.streams();
    one.set_write_timeout(Some(Duration::from_millis(5))).expect("set");
    // On a busy machine what would make room may be on its way, and nothing be there.
    other.set_read_timeout(Some(Duration::from_millis(5))).expect("set");
    let all = bytes(10, 40_000);
    let (mut rest, mut late) = (&all[..], 0);
    let mut came = Vec::new();
    while !rest.is_empty() {
        let mut buffer = one.buffer(4000).expect("memory");
        buffer.fill_with(|space| rest.read(space)).expect("memory");
        let end = Instant::now() + LIMIT;
        while let Err(error) = one.write_buffer(&mut buffer) {
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(!buffer.is_empty() && Instant::now() < end);
            late += 1;
            match other.read_buffer() {
                Ok(received) => came.extend_from_slice(&received),
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            }
        }
    }
    one.shutdown_write().expect("shut");
    other.set_read_timeout(None).expect("set");
    came.extend(read(&other, &mut Numbers(1)));
    assert!(came == all && late > 0, "{late} calls were late");
}

#[test]
fn a_buffer_is_of_its_endpoint() {
    let two = Two::new("in-place-foreign", "", Driver::THREAD, small());
    let (one, other) = two.streams();
    let mut buffer = one.buffer(100).expect("memory");
    buffer.write_all(b"mine").expect("room");
    let refused = other.write_buffer(&mut buffer).expect_err("another endpoint");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    buffer[..2].copy_from_slice(b"ni");
    one.write_buffer(&mut buffer).expect("written");
    assert_eq!(*other.read_buffer().expect("read"), *b"nine");
    // One that was written has no memory any more, and nothing to write.
    one.write_buffer(&mut buffer).expect("nothing to do");
    assert_eq!(buffer.write(b"more").expect("no room"), 0);
    drop(one);
    assert!(other.read_buffer().expect("the end").is_empty());
}

/// The peer hears of credit when it may have no other, also if that is only as the program has the
/// other receives in its hands.
#[test]
fn who_has_most_messages_in_its_hands_gets_the_next_one() {
    let two = Two::new("in-place-credit", "", Driver::THREAD, small());
    let (one, mut other) = two.streams();
    other.set_read_timeout(Some(LIMIT)).expect("set");
    scope(|threads| {
        threads.spawn(|| (0..5).for_each(|_| (&one).write_all(b"message").expect("written")));
        other.read_exact(&mut [0; 7]).expect("read");
        let held = [(); 4].map(|()| other.read_buffer().expect("read"));
        assert!(held.iter().all(|received| **received == *b"message"));
    });
}

/// The receives of what is borrowed are not posted to the next carrier.
#[test]
fn what_is_borrowed_is_nobodys_when_rdma_has_come_back() {
    let config = Config { return_after: Duration::from_millis(100), write_from: usize::MAX, ..small() };
    let path = Path::new("in-place-back", config);
    let Path { client, one, other, .. } = &path;
    let mut one = one;
    let message = |number: u8| [number; 900];
    let held = [1, 2, 3].map(|number| {
        one.write_all(&message(number)).expect("written");
        other.read_buffer().expect("read")
    });
    until(|| client.stats().returned_to_rdma > 0, "RDMA does not come back");
    until(|| !one.is_over_tcp() && !other.is_over_tcp(), "TCP still carries one end");
    one.write_all(&message(4)).expect("written");
    assert_eq!(*other.read_buffer().expect("read"), message(4));
    for (number, received) in (1..).zip(&held) {
        assert!(**received == message(number), "somebody wrote to what was borrowed");
    }
    drop(held);
    (5..50).for_each(|number| {
        one.write_all(&message(number)).expect("written");
        assert_eq!(*other.read_buffer().expect("read"), message(number));
    });
}

/// Two ends of a stream that may go on over TCP; from half a second on RDMA fails for a second.
struct Path {
    client: Endpoint,
    server: Endpoint,
    one: Stream,
    other: Stream,
    /// Later carriers come through it.
    _listener: Listener,
}

impl Path {
    fn new(name: &str, config: Config) -> Self {
        let device = format!("sim:{name}");
        let server = Endpoint::open(&device, config).expect("an endpoint");
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = server.listen_with_tcp(0, local).expect("ports");
        let client =
            Endpoint::open(&format!("fault:hole=500ms-1500ms:{device}"), config).expect("an endpoint");
        let (one, other) = scope(|threads| {
            let accepts = threads.spawn(|| listener.accept_within(LIMIT));
            let tcp = listener.tcp_addr().expect("it listens");
            let over = Transport::Auto { rdma: listener.local_addr(), tcp };
            let one = client.connect_over(over, LIMIT).expect("connected");
            (one, accepts.join().expect("no panic").expect("accepted").expect("in time"))
        });
        Self { client, server, one, other, _listener: listener }
    }
}

/// RDMA fails and comes back, again and again, while programs have memory in their hands.
#[test]
fn what_is_borrowed_stays_when_the_carrier_changes() {
    let never = usize::MAX;
    for (name, write_from, read_from) in [("write", 1, never), ("read", never, 1)] {
        let config = Config { write_from, read_from, return_after: Duration::from_millis(100), ..small() };
        let path = Path::new(&format!("in-place-moving-{name}"), config);
        let Path { server, one, other, .. } = &path;
        scope(|threads| {
            let reads = threads.spawn(|| read(other, &mut Numbers(5)));
            let (mut all, mut numbers, mut moved) = (Vec::new(), Numbers(6), 0);
            let (mut was_tcp, end) = (one.is_over_tcp(), Instant::now() + LIMIT);
            while moved < 2 {
                assert!(Instant::now() < end, "{name}: {moved} changes of the carrier");
                let part = bytes(all.len() as u64, 5000);
                write(one, &part, &mut numbers);
                all.extend_from_slice(&part);
                let is_tcp = one.is_over_tcp();
                moved += usize::from(is_tcp != was_tcp);
                was_tcp = is_tcp;
            }
            one.shutdown_write().expect("shut");
            assert!(reads.join().expect("no panic") == all, "{name}: other bytes than were written");
        });
        assert!(server.stats().bytes_read_in_place > 0);
    }
}
