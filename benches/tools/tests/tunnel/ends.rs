//! Connections end as their programs end them, and are reset where there is no program.

use crate::setup::{Tunnel, assert_reset, start, tell};
use crate::support::Place;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;

#[test]
fn a_reset_of_either_side_is_passed_on() {
    let mut tunnel = Tunnel::new("tunnel-ends");
    for resets_client in [true, false] {
        let (client, server) = tunnel.programs();
        let (mut resets, mut other) = if resets_client { (client, server) } else { (server, client) };
        tell(&mut resets, &mut other);
        // Closed with a byte that was not read: the system resets the connection.
        resets.write_all(b"y").expect("written");
        other.write_all(b"unread").expect("written");
        resets.peek(&mut [0]).expect("a byte came");
        drop(resets);
        let error = other.read_to_end(&mut Vec::new()).expect_err("reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let end = if resets_client { &mut tunnel.here } else { &mut tunnel.there };
        end.wait_for("5 bytes out, 6 bytes in, Connection reset by peer");
    }
    tunnel.end();
}

#[test]
fn a_server_that_is_not_there_is_a_reset() {
    let mut tunnel = Tunnel::new("tunnel-nobody");
    let gone = tunnel.server.local_addr().expect("its address");
    // Its port is free again.
    tunnel.server = TcpListener::bind(("127.0.0.1", 0)).expect("another");
    let mut stream = tunnel.connect();
    assert_reset(&mut stream);
    tunnel.there.wait_for(&format!(" to {gone}: not connected: Connection refused"));
    tunnel.end();
}

#[test]
fn what_cannot_be_listened_at_or_found_is_named() {
    let place = Place::new("tunnel-names");
    let device = format!("memif:{}", place.path("memif").display());
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
    let taken = taken.local_addr().expect("its address").to_string();
    for (rest, said) in [
        (
            ["--listen", &taken, "--peer", "10.77.0.1:5"],
            format!("cannot listen at {taken}: Address already in use"),
        ),
        (
            ["--accept", "5", "--to", "no-such-host.invalid:80"],
            "cannot find host no-such-host.invalid: ".to_owned(),
        ),
    ] {
        start(&device, &rest).end().assert_failed(1, &said);
    }
    start(&device, &["--accept", "5", "--to", "6379"])
        .end()
        .assert_failed(2, "give HOST:PORT, as in 127.0.0.1:6379");
}
