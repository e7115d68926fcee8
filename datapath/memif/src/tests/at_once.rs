//! Several that want to be the server of a pair: one is.

use super::fresh_path;
use crate::error::Error;
use crate::socket::{self, Listener};
use rustix::fs::{FlockOperation, flock};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

const COMERS: usize = 4;

/// What as many become who come to a path at once.
fn come_at_once(path: &Path) -> Vec<Result<Listener, Error>> {
    let start = Barrier::new(COMERS);
    let come = || {
        start.wait();
        Listener::bind(path)
    };
    thread::scope(|scope| {
        let comers: Vec<_> = (0..COMERS).map(|_| scope.spawn(come)).collect();
        comers.into_iter().map(|comer| comer.join().expect("no panic")).collect()
    })
}

#[test]
fn of_those_who_come_at_once_one_is_the_server() {
    for _ in 0..200 {
        let path = fresh_path();
        // What is left of one that was killed.
        drop(UnixListener::bind(&path).expect("a socket"));
        let (servers, others): (Vec<_>, Vec<_>) = come_at_once(&path).into_iter().partition(Result::is_ok);
        assert_eq!(servers.len(), 1, "{others:?}");
        for other in others {
            let error = other.expect_err("there is one").to_string();
            assert!(error.contains("another server is listening"), "{error}");
        }
        socket::connect(&path).expect("it listens");
    }
}

#[test]
fn a_directory_that_somebody_keeps_locked_is_told() {
    let dir = fresh_path();
    std::fs::create_dir(&dir).expect("a directory");
    let keeper = std::fs::File::open(&dir).expect("it is there");
    flock(&keeper, FlockOperation::LockExclusive).expect("nobody else has it");
    let error = Listener::bind(&dir.join("a.sock")).expect_err("it is locked").to_string();
    assert!(error.contains("keeps its directory locked"), "{error}");
    drop(keeper);
    drop(Listener::bind(&dir.join("a.sock")).expect("it is free"));
    std::fs::remove_dir(&dir).expect("nothing is left in it");
}
