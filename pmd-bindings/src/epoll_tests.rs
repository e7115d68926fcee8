use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::*;

fn epoll_over(sources: &[RawFd]) -> OwnedFd {
    // SAFETY: no pointers; the result is ours.
    let epoll = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
    for &source in sources {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: two live descriptors and one event.
        let ret = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, source, &raw mut event) };
        assert_eq!(ret, 0);
    }
    epoll
}

#[test]
fn finds_the_instance_by_what_it_watches() {
    let (ours, _a) = UnixStream::pair().expect("sockets");
    let (other, _b) = UnixStream::pair().expect("sockets");
    let decoy = epoll_over(&[other.as_raw_fd()]);
    let wanted = epoll_over(&[other.as_raw_fd(), ours.as_raw_fd()]);
    for hint in [NONE, decoy.as_raw_fd(), wanted.as_raw_fd(), ours.as_raw_fd()] {
        assert_eq!(Readiness::find(ours.as_raw_fd(), hint).descriptor(), wanted.as_raw_fd(), "hint {hint}");
    }
}

#[test]
fn is_ready_when_a_source_is() {
    let (ours, _a) = UnixStream::pair().expect("sockets");
    let (other, mut peer) = UnixStream::pair().expect("sockets");
    let _epoll = epoll_over(&[ours.as_raw_fd(), other.as_raw_fd()]);
    let ready = Readiness::find(ours.as_raw_fd(), NONE);
    assert!(!ready.now());
    let sender = std::thread::spawn(move || {
        peer.write_all(b"x").expect("a live socket");
        peer
    });
    ready.wait();
    assert!(ready.now());
    sender.join().expect("it only writes");
}

#[test]
fn without_an_instance_it_waits_a_moment() {
    let (lonely, _peer) = UnixStream::pair().expect("sockets");
    let ready = Readiness::find(lonely.as_raw_fd(), NONE);
    assert_eq!(ready.descriptor(), NONE);
    assert!(!ready.now());
    let start = time::Instant::now();
    ready.wait();
    assert!(start.elapsed() >= time::Duration::from_millis(BLIND_MS));
}
