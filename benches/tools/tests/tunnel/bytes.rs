//! Bytes come as they went, of as many connections at once as there may be.

use crate::setup::{Tunnel, assert_reset, tell, told};
use crate::support::{LIMIT, Place};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle, scope};
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 8;

const LEN: usize = 1 << 20;

fn bytes(number: u64) -> Vec<u8> {
    let word =
        |at: u64| ((at + number * 1_000_003).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0];
    (0..LEN as u64).map(word).collect()
}

/// Reads to the end, and only then writes back.
fn echo(mut stream: TcpStream) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("read to the end of one direction");
        stream.write_all(&all).expect("the other is open");
    })
}

#[test]
fn many_connections_carry_their_bytes_and_their_ends() {
    let tunnel = Tunnel::new("tunnel-many");
    scope(|threads| {
        for number in 0..CONNECTIONS {
            let tunnel = &tunnel;
            threads.spawn(move || {
                let mut stream = tunnel.connect();
                let all = bytes(number);
                stream.write_all(&all).expect("written");
                stream.shutdown(Shutdown::Write).expect("half a close");
                let mut back = Vec::new();
                stream.read_to_end(&mut back).expect("read");
                assert!(back == all, "connection {number}: {} bytes", back.len());
            });
        }
        let echoes: Vec<JoinHandle<()>> = (0..CONNECTIONS).map(|_| echo(tunnel.accept())).collect();
        echoes.into_iter().for_each(|echo| echo.join().expect("no panic"));
    });
    tunnel.end();
}

/// Connections at once, as many as a tunnel takes.
const MOST: u32 = 1000;

/// A thousand programs are connected before one of them says a word, and then each hears its own.
#[test]
fn a_thousand_connections_are_open_at_once() {
    // Each has a socket at either side.
    let limit = getrlimit(Resource::Nofile);
    let needed = 2 * u64::from(MOST) + 200;
    if limit.current.is_some_and(|now| now < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).expect("descriptors");
    }
    let tunnel = Tunnel::with("tunnel-most", &["--connections", &MOST.to_string()]);
    let (clients, servers): (Vec<TcpStream>, Vec<TcpStream>) = scope(|threads| {
        let accepts = threads.spawn(|| (0..MOST).map(|_| tunnel.accept()).collect());
        let clients = (0..MOST).map(|_| tunnel.connect()).collect();
        (clients, accepts.join().expect("no panic"))
    });
    for (number, mut client) in (0..MOST).zip(&clients) {
        client.write_all(&number.to_le_bytes()).expect("written");
    }
    let mut heard = BTreeSet::new();
    for mut server in &servers {
        let mut word = [0; 4];
        server.read_exact(&mut word).expect("read");
        assert!(heard.insert(u32::from_le_bytes(word)), "{word:?} came twice");
        server.write_all(&word).expect("written");
    }
    assert_eq!(heard, (0..MOST).collect());
    for (number, mut client) in (0..MOST).zip(&clients) {
        let mut word = [0; 4];
        client.read_exact(&mut word).expect("read");
        assert_eq!(u32::from_le_bytes(word), number);
    }
    drop((clients, servers));
    tunnel.end();
}

/// The third connection is made when one of two has ended. It may write before that.
#[test]
fn more_connections_than_there_may_be_wait() {
    let tunnel = Tunnel::with_each("tunnel-limit", [&["--connections", "2"], &[]]);
    let [(mut one, mut its_peer), (mut other, mut others_peer)] = [(); 2].map(|()| tunnel.programs());
    let mut third = tunnel.connect();
    third.write_all(b"here").expect("written");
    // The tunnel carries bytes meanwhile, and would have carried these.
    tunnel.server.set_nonblocking(true).expect("set");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        tell(&mut one, &mut its_peer);
        tell(&mut others_peer, &mut other);
        let come = tunnel.server.accept();
        assert_eq!(come.expect_err("it waits").kind(), ErrorKind::WouldBlock);
        let told = told(&tunnel.place, "here");
        assert_eq!(["open", "connections_total"].map(|name| told[&format!("tunnel_{name}")]), [2.0; 2]);
    }
    tunnel.server.set_nonblocking(false).expect("set");
    drop((one, its_peer));
    let mut thirds_peer = tunnel.accept();
    let mut word = [0; 4];
    thirds_peer.read_exact(&mut word).expect("read");
    assert_eq!(&word, b"here");
    tell(&mut thirds_peer, &mut third);
    tell(&mut other, &mut others_peer);
    drop((other, others_peer, third, thirds_peer));
    tunnel.end();
}

/// Where the end at the server may have fewer, its peer waits ten seconds for it.
#[test]
fn more_connections_than_the_server_may_have_are_reset() {
    let mut tunnel = Tunnel::with_each("tunnel-limit-there", [&[], &["--connections", "1"]]);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    assert_reset(&mut tunnel.connect());
    tunnel.here.wait_for(": not connected: ");
    assert_eq!(told(&tunnel.place, "here")["tunnel_refused_total"], 1.0);
    tell(&mut server, &mut client);
    drop((client, server));
    tunnel.end();
}

/// With an address of TCP somebody takes them in meanwhile, and they wait as long as they like, by
/// TCP those that the device there has no queue pair for.
#[test]
fn more_connections_than_the_server_may_have_wait_where_there_is_tcp() {
    let carriers = Place::new("tunnel-limit-carriers");
    let by_tcp = format!("127.0.0.1:{}", carriers.port);
    let options = ["--tcp", &by_tcp, "--connections", "1"];
    let tunnel = Tunnel::with_each("tunnel-limit-tcp", [&options[..2], &options]);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    let mut waiting: Vec<TcpStream> = (0..4).map(|_| tunnel.connect()).collect();
    for (number, client) in (0..).zip(&mut waiting) {
        client.write_all(&[number]).expect("written");
    }
    let end = Instant::now() + LIMIT;
    while told(&tunnel.place, "here")["tunnel_sent_bytes_total"] < 8.0 {
        assert!(Instant::now() < end, "nobody takes them in");
    }
    assert!(told(&tunnel.place, "there")["streams_rejected_total"] > 0.0);
    assert_eq!(told(&tunnel.place, "there")["tunnel_connections_total"], 1.0);
    drop((client, server));
    let mut heard = BTreeSet::new();
    for _ in 0..4 {
        let mut server = tunnel.accept();
        let mut number = [0];
        server.read_exact(&mut number).expect("read");
        assert!(heard.insert(number), "{number:?} came twice");
        tell(&mut server, &mut waiting[usize::from(number[0])]);
        // The next one is served when it has ended at both ends.
        server.shutdown(Shutdown::Both).expect("closed");
        waiting[usize::from(number[0])].shutdown(Shutdown::Both).expect("closed");
    }
    tunnel.end();
}
