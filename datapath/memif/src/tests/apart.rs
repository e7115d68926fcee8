//! Every reason for which there is no link is told, at each end that has it.

use super::{config, fresh_path};
use crate::endpoint::{Config, Endpoint, Role};
use crate::error::NoLink;
use crate::message::{Message, REASON_LEN};
use crate::name::Told;
use crate::probe::Probe;
use crate::socket::{self, Listener};
use std::path::Path;
use std::time::{Duration, Instant};

fn open(path: &Path, role: Role, max_frame: u16) -> Endpoint {
    Endpoint::open(&Config { max_frame, ..config(path.into(), role) }).expect("an end")
}

fn said(end: &Endpoint) -> String {
    end.no_link().map(|why| why.to_string()).unwrap_or_default()
}

/// Tends all of them until each says what it must; an end that has a link says nothing.
fn until_said<const N: usize>(mut ends: [&mut Endpoint; N], words: [&str; N]) {
    let start = Instant::now();
    while ends.iter().map(|end| said(end)).ne(words) {
        let last: Vec<_> = ends.iter().map(|end| said(end)).collect();
        assert!(start.elapsed() < Duration::from_secs(60), "{last:?} where {words:?} was expected");
        ends.iter_mut().for_each(|end| end.tend(Instant::now()));
        std::thread::yield_now();
    }
}

/// At either end, as no later attempt can succeed.
#[test]
fn a_path_that_is_too_long_for_a_socket_is_refused() {
    let path = |len: usize| Path::new("/tmp").join("x".repeat(len - "/tmp/".len()));
    for role in [Role::Server, Role::Client] {
        let refused = Endpoint::open(&config(path(108), role)).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| text.contains("longer than 107 bytes; use a shorter one")));
    }
    drop(open(&path(107), Role::Client, 256));
}

#[test]
fn an_end_that_nobody_has_come_to_says_which_end_it_is_and_where() {
    let path = fresh_path();
    let at = path.display();
    let alone = format!(
        "nobody listens at {at}: this end is the client, start the other one as the server (role=server)"
    );
    let mut client = open(&path, Role::Client, 256);
    assert_eq!(said(&client), alone, "before it has looked");
    // Two clients do not meet.
    let mut second = open(&path, Role::Client, 256);
    for _ in 0..3 {
        client.tend(Instant::now());
        second.tend(Instant::now());
    }
    assert_eq!([said(&client), said(&second)], [alone.clone(), alone.clone()]);
    let mut server = open(&path, Role::Server, 256);
    let awaits =
        format!("no client has come to {at}: this end is the server, start the other one with role=client");
    assert_eq!(said(&server), awaits);
    drop(second);
    until_said([&mut client, &mut server], ["", ""]);
    // Who was there and left is not somebody who never came.
    drop(server);
    until_said([&mut client], [&alone]);
    let mut server = open(&path, Role::Server, 256);
    until_said([&mut client, &mut server], ["", ""]);
    drop(client);
    until_said([&mut server], [&format!("the peer at {at} left (closed), and no other has come")]);
}

#[test]
fn another_longest_frame_or_number_of_queues_is_told_at_both_ends_and_stays_told() {
    let path = fresh_path();
    let at = path.display();
    let mut server = open(&path, Role::Server, 256);
    let mut client = open(&path, Role::Client, 512);
    let words = format!(
        "the last attempt at {at} was turned away: the server has mtu=238, the client mtu=494: both ends need the \
         same"
    );
    until_said([&mut server, &mut client], [&words, &words]);
    for _ in 0..1000 {
        server.tend(Instant::now());
        client.tend(Instant::now());
        assert_eq!([said(&server), said(&client)], [words.clone(), words.clone()]);
    }
    drop(client);
    let mut clients = Endpoint::open_queues(&config(path.clone(), Role::Client), 2).expect("an end");
    let words = format!(
        "the last attempt at {at} was turned away: the server has engines=1, the client engines=2: both ends need as many"
    );
    until_said([&mut server, &mut clients[0]], [&words, &words]);
    assert_eq!(said(&clients[1]), words, "its other queue");
    // A link ends all that.
    drop(clients);
    let mut client = open(&path, Role::Client, 256);
    until_said([&mut server, &mut client], ["", ""]);
}

#[test]
fn a_third_process_hears_that_the_pair_is_one() {
    let path = fresh_path();
    let (mut server, mut client) = (open(&path, Role::Server, 256), open(&path, Role::Client, 256));
    until_said([&mut server, &mut client], ["", ""]);
    let mut third = open(&path, Role::Client, 256);
    let words = format!(
        "the last attempt at {} was turned away: the server has a peer already: a memif joins two processes; srnic switch \
         takes one each",
        path.display()
    );
    until_said([&mut server, &mut client, &mut third], ["", "", &words]);
    // It is next when there is room.
    drop(client);
    until_said([&mut server, &mut third], ["", ""]);
}

#[test]
fn a_server_that_does_not_answer_is_told_from_none() {
    let path = fresh_path();
    let listener = Listener::bind(&path).expect("a socket");
    let mut client = open(&path, Role::Client, 256);
    let words = format!(
        "a server listens at {} and does not answer: does its program run, and drive its device?",
        path.display()
    );
    client.tend(Instant::now());
    assert_eq!(said(&client), words);
    client.tend(Instant::now() + Duration::from_secs(3));
    assert_eq!(said(&client), words, "its patience is over");
    // As many wait as may.
    let waiting: Vec<_> = (0..64).map_while(|_| socket::connect(&path).ok()).collect();
    assert!(waiting.len() < 64);
    client.tend(Instant::now() + Duration::from_secs(6));
    assert_eq!(said(&client), words);
    drop(listener);
}

#[test]
fn a_path_that_is_no_socket_of_memifs_is_told() {
    let path = fresh_path();
    let _other = std::os::unix::net::UnixListener::bind(&path).expect("a stream socket");
    let mut client = open(&path, Role::Client, 256);
    client.tend(Instant::now());
    let words = format!("this end is the client and cannot connect to {}: ", path.display());
    assert!(said(&client).starts_with(&words), "{}", said(&client));
    std::fs::remove_file(&path).expect("ours");
}

#[test]
fn a_probe_hears_what_a_client_would() {
    let path = fresh_path();
    let ours = Told { max_frame: 256, queues: 1 };
    assert!(matches!(Probe::begin(path.clone(), ours), Err(NoLink::NoServer { .. })));
    let mut server = open(&path, Role::Server, 256);
    let mut ask = |told| {
        let probe = Probe::begin(path.clone(), told).expect("it listens");
        assert!(probe.answer().is_none());
        assert!(probe.unanswered().to_string().contains("does not answer"));
        server.tend(Instant::now());
        let answer = probe.answer().expect("a server's greeting");
        drop(probe);
        server.tend(Instant::now());
        (answer.map_err(|why| why.to_string()), said(&server))
    };
    let (answer, at_server) = ask(ours);
    assert_eq!(answer, Ok(()));
    assert!(at_server.starts_with("no client has come to "), "{at_server}");
    let (answer, at_server) = ask(Told { max_frame: 9000, ..ours });
    let answer = answer.expect_err("another longest frame");
    assert!(answer.ends_with("has mtu=238, the client mtu=8982: both ends need the same"), "{answer}");
    assert_eq!(at_server, answer);
}

/// A reason that is cut off says too little.
#[test]
fn reasons_fit_into_their_message() {
    for refusal in [crate::Refusal::Taken, crate::Refusal::Mismatch(crate::OTHER_QUEUES)] {
        let text = refusal.to_string();
        assert!(text.len() < REASON_LEN, "{text}");
        let Message::Disconnect(reason) = Message::disconnect(&text) else { unreachable!() };
        assert_eq!(reason.bytes(), text.as_bytes());
    }
}
