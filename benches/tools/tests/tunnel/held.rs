//! A reader that does not read holds its writer back, as far as the other side's program.

use crate::setup::{Tunnel, reset, told};
use crate::support::LIMIT;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::scope;
use std::time::{Duration, Instant};

/// Who writes nothing for so long is held back. On a busy machine it may only look so: then less
/// was written than may be.
const STILL: Duration = Duration::from_secs(1);
/// Bytes that are written at once.
const PIECE: usize = 64 << 10;

/// Bytes of a stream that its reader has not read at most: 32 blocks and 32 chunks; and a buffer
/// at either end, of which bytes go on to the next one.
const STREAM: u64 = (32 * 256 + 32 * 16 + 2 * 256) << 10;

/// Bytes that the sockets of a test's program have room for; the system doubles what it is told.
const OWN: usize = 256 << 10;

/// Bytes that sockets may have: one of the tunnel's that receives and one that sends, the two of
/// the programs, and a packet of each beyond what it was to have.
fn sockets() -> u64 {
    let most = |name: &str| -> u64 {
        let sizes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("Linux has it");
        sizes.split_whitespace().last().and_then(|most| most.parse().ok()).expect("three numbers")
    };
    most("tcp_rmem") + most("tcp_wmem") + 2 * 2 * OWN as u64 + ((4 * 64) << 10)
}

/// The programs of a tunnel, whose sockets have a size of their own.
fn programs(tunnel: &Tunnel) -> (TcpStream, TcpStream) {
    // The connections inherit it.
    set_socket_recv_buffer_size(&tunnel.server, OWN).expect("set");
    set_socket_send_buffer_size(&tunnel.server, OWN).expect("set");
    let (client, server) = tunnel.programs();
    set_socket_recv_buffer_size(&client, OWN).expect("set");
    set_socket_send_buffer_size(&client, OWN).expect("set");
    (client, server)
}

/// The bytes from `at` on.
fn piece(at: u64) -> Vec<u8> {
    let byte = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0];
    (at..at + PIECE as u64).map(byte).collect()
}

/// Writes the bytes from `at` on, until it is held back or has written `most`. Returns where it is.
fn write(program: &mut TcpStream, mut at: u64, most: u64) -> u64 {
    while at < most {
        let piece = piece(at);
        let left = usize::try_from(most - at).map_or(PIECE, |left| left.min(PIECE));
        match program.write(&piece[..left]) {
            Ok(len) => at += len as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    at
}

/// Writes until it is held back.
fn fill(program: &mut TcpStream, most: u64) -> u64 {
    program.set_write_timeout(Some(STILL)).expect("set");
    let written = write(program, 0, most);
    program.set_write_timeout(Some(LIMIT)).expect("set");
    written
}

#[test]
fn a_reader_that_does_not_read_holds_its_writer_back_and_then_reads_all() {
    let tunnel = Tunnel::new("tunnel-held");
    let (mut client, mut server) = programs(&tunnel);
    let bound = STREAM + sockets();
    let all = bound + (8 << 20);
    let written = fill(&mut client, all);
    assert!(written <= bound, "{written} bytes were written, and {bound} have a place");
    let came = scope(|threads| {
        let reads = threads.spawn(|| {
            let (mut at, mut part) = (0, vec![0; PIECE]);
            loop {
                let left = usize::try_from(all - at).map_or(PIECE, |left| left.min(PIECE));
                if left == 0 {
                    assert_eq!(server.read(&mut part).expect("the end"), 0);
                    return at;
                }
                server.read_exact(&mut part[..left]).expect("read");
                assert!(part[..left] == piece(at)[..left], "bytes from {at} on");
                at += left as u64;
            }
        });
        assert_eq!(write(&mut client, written, all), all);
        client.shutdown(Shutdown::Write).expect("half a close");
        reads.join().expect("no panic")
    });
    assert_eq!(came, all);
    drop((client, server));
    tunnel.end();
}

/// The tunnel at the server has ended in order, and the link with it, while the other one still
/// has bytes for a program that does not read.
#[test]
fn what_came_before_an_orderly_end_waits_for_its_reader() {
    let tunnel = Tunnel::new("tunnel-held-last");
    let (mut client, mut server) = programs(&tunnel);
    client.shutdown(Shutdown::Write).expect("half a close");
    let figure = |end, name: &str| told(&tunnel.place, end)[&format!("tunnel_{name}_bytes_total")];
    let mut all = 0;
    let end = Instant::now() + LIMIT;
    loop {
        server.write_all(&piece(all)).expect("written");
        all += PIECE as u64;
        while figure("there", "sent") < all as f64 {
            assert!(Instant::now() < end, "{all} bytes do not leave");
        }
        if figure("here", "received") + (512 << 10) as f64 <= all as f64 {
            break;
        }
    }
    drop(server);
    let Tunnel { mut here, there, .. } = tunnel;
    there.signal("-INT");
    there.end().assert_success();
    here.wait_for("waiting: the link did not come up again yet");
    let mut came = Vec::new();
    client.read_to_end(&mut came).expect("read to the end");
    assert_eq!(came.len() as u64, all);
    assert!((0..all).step_by(PIECE).zip(came.chunks(PIECE)).all(|(at, part)| part == piece(at)));
    drop(client);
    here.signal("-INT");
    here.end().assert_success();
}

/// Two programs that only write, and what the tunnel has for them is full both ways.
fn held_both_ways(name: &str, options: [&[&str]; 2]) -> (Tunnel, TcpStream, TcpStream) {
    let tunnel = Tunnel::with_each(name, options);
    let (mut client, mut server) = programs(&tunnel);
    let most = STREAM + sockets();
    for program in [&mut client, &mut server] {
        assert!(fill(program, most) < most);
    }
    (tunnel, client, server)
}

/// It is reset while it waits for room.
#[track_caller]
fn assert_reset_in_writing(program: &mut TcpStream) {
    let error = program.write_all(&[0; 64 << 20]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Neither program reads, so nothing moves by which either would hear of it.
#[test]
fn who_is_held_back_hears_of_an_end_that_is_killed() {
    let (tunnel, mut client, _server) = held_both_ways("tunnel-held-killed", [&[], &[]]);
    tunnel.there.signal("-KILL");
    assert_reset_in_writing(&mut client);
}

#[test]
fn who_is_held_back_hears_of_a_reset() {
    for resets_client in [true, false] {
        let (tunnel, client, server) = held_both_ways("tunnel-held-reset", [&[], &[]]);
        let (resets, mut other) = if resets_client { (client, server) } else { (server, client) };
        reset(resets);
        assert_reset_in_writing(&mut other);
        drop(other);
        tunnel.end();
    }
}

#[test]
fn who_is_held_back_when_the_time_is_over_is_reset() {
    let (tunnel, mut client, mut server) = held_both_ways("tunnel-held-drain", [&["--drain", "1"], &[]]);
    let Tunnel { here, there, .. } = tunnel;
    here.signal("-INT");
    here.end().assert_success();
    assert_reset_in_writing(&mut client);
    assert_reset_in_writing(&mut server);
    drop((client, server));
    there.signal("-INT");
    there.end().assert_success();
}
