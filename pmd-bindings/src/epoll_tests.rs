use std::os::fd::FromRawFd;

use super::*;

fn eventfd() -> OwnedFd {
    unix::eventfd().expect("a descriptor")
}

fn epoll_over(sources: &[&OwnedFd]) -> OwnedFd {
    // SAFETY: no pointers; the result is ours.
    let epoll = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
    for source in sources {
        let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: 0 };
        // SAFETY: two live descriptors and one event.
        let ret = unsafe {
            libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, source.as_raw_fd(), &raw mut event)
        };
        assert_eq!(ret, 0);
    }
    epoll
}

#[test]
fn finds_the_instance_by_what_it_watches() {
    let (ours, other) = (eventfd(), eventfd());
    let decoy = epoll_over(&[&other]);
    let wanted = epoll_over(&[&other, &ours]);
    for hint in [NONE, decoy.as_raw_fd(), wanted.as_raw_fd(), ours.as_raw_fd()] {
        assert_eq!(Readiness::find(&ours, hint).descriptor(), wanted.as_raw_fd(), "hint {hint}");
    }
}

#[test]
fn is_not_fooled_by_an_instance_where_the_number_meant_another_file() {
    let (ours, other) = (eventfd(), eventfd());
    let number = ours.as_raw_fd();
    let before = epoll_over(&[&ours]);
    let _kept = ours.try_clone().expect("a copy");
    // SAFETY: both are live descriptors of this test; the number now means the other file.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
    assert_eq!(sources(before.as_raw_fd()), [number], "it lists the number all the same");
    assert_eq!(Readiness::find(&ours, NONE).descriptor(), NONE);
    let wanted = epoll_over(&[&ours]);
    assert_eq!(Readiness::find(&ours, NONE).descriptor(), wanted.as_raw_fd());
}

#[test]
fn keeps_the_instance_and_its_sources_to_this_process() {
    let (ours, other) = (eventfd(), eventfd());
    let epoll = epoll_over(&[&ours, &other]);
    for fd in [&epoll, &other] {
        // SAFETY: no pointers.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
    }
    Readiness::find(&ours, NONE).close_on_exec();
    for fd in [&epoll, &other] {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) }, libc::FD_CLOEXEC);
    }
}

#[test]
fn is_ready_when_a_source_is() {
    let (ours, other) = (eventfd(), eventfd());
    let _epoll = epoll_over(&[&ours, &other]);
    let ready = Readiness::find(&ours, NONE);
    assert!(!ready.now());
    thread::scope(|scope| {
        scope.spawn(|| unix::raise(&other));
        ready.wait();
        assert!(ready.now());
    });
}

#[test]
fn without_an_instance_it_waits_a_moment() {
    let ready = Readiness::find(&eventfd(), NONE);
    assert_eq!(ready.descriptor(), NONE);
    assert!(!ready.now());
    let start = time::Instant::now();
    ready.wait();
    assert!(start.elapsed() >= time::Duration::from_millis(BLIND_MS));
}
