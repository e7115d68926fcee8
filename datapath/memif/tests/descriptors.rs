//! A process whose descriptors are used up: alone in its process, as it uses them up.

use memif::message::{Message, Text};
use memif::socket::{Listener, connect, receive, send};
use std::fs::File;
use std::os::fd::AsFd;

#[test]
fn who_has_no_descriptor_left_does_not_blame_the_peer() {
    let path = std::env::temp_dir().join(format!("srnic-memif-descriptors-{}", std::process::id()));
    let listener = Listener::bind(&path).expect("a socket");
    let client = connect(&path).expect("it listens");
    let server = listener.accept().expect("a client");
    let message = Message::Connect(Text::new("x"));
    send(&client, &message, Some(client.as_fd())).expect("said");
    let used_up: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let refused = receive(&server).expect_err("no room for the descriptor");
    drop(used_up);
    assert!(refused.to_string().contains("Too many open files"), "{refused}");
}
