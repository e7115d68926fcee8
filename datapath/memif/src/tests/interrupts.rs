//! Interrupts: who polls gets none, who asks for them gets one with whatever comes.

use super::{Meeting, add_ring, config, fresh_path};
use crate::endpoint::{Endpoint, Role};
use crate::interrupt::Interrupt;
use crate::message::Message;
use crate::region::Region;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

fn linked() -> [Endpoint; 2] {
    let path = fresh_path();
    let mut ends =
        [Role::Server, Role::Client].map(|role| Endpoint::open(&config(path.clone(), role)).expect("an end"));
    let start = Instant::now();
    while ends.iter().any(|end| end.linked().is_none()) {
        ends.iter_mut().for_each(|end| end.tend(Instant::now()));
        assert!(start.elapsed() < LONG, "no link");
    }
    ends
}

fn send(end: &mut Endpoint) {
    let link = end.link().expect("a link");
    link.tx.lend().expect("a free buffer").fill(1);
    link.tx.commit(60);
    assert_eq!(link.tx.flush(), 1);
}

fn receive(end: &mut Endpoint) -> usize {
    let rx = &mut end.link().expect("a link").rx;
    let (count, _) = rx.burst();
    rx.release();
    count
}

fn is_raised(interrupt: &Interrupt) -> bool {
    let mut polled = [PollFd::new(interrupt, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).expect("polled") > 0
}

fn raises_while_it_is_asked_to(from: &mut Endpoint, to: &mut Endpoint) {
    send(from);
    assert_eq!(receive(to), 1);
    let rx = &to.link().expect("a link").rx;
    let interrupt = rx.enable_interrupt().expect("both ends have them");
    assert!(!is_raised(&interrupt), "by what came before");
    send(from);
    assert!(is_raised(&interrupt));
    Interrupt::wait_any(&[&interrupt], LONG);
    assert!(!is_raised(&interrupt), "whoever waited has cleared it");
    to.link().expect("a link").rx.disable_interrupt();
    send(from);
    assert!(!is_raised(&interrupt), "who polls needs none");
    assert_eq!(receive(to), 2);
}

#[test]
fn a_peer_raises_an_interrupt_while_it_is_asked_to() {
    let [mut server, mut client] = linked();
    for _ in 0..3 {
        raises_while_it_is_asked_to(&mut server, &mut client);
        raises_while_it_is_asked_to(&mut client, &mut server);
    }
}

#[test]
fn a_wait_ends_with_any_of_several_interrupts_or_in_time() {
    let [one, two] = [(); 2].map(|()| Interrupt::new().expect("a descriptor"));
    Interrupt::wait_any(&[&one, &two], Duration::from_millis(1));
    let raiser = {
        let two = two.clone();
        thread::spawn(move || two.raise())
    };
    Interrupt::wait_any(&[&one, &two], LONG);
    raiser.join().expect("raised");
    assert!(!is_raised(&two));
}

/// Writing to it must not hold the server up, however often it was raised.
#[test]
fn a_descriptor_to_which_writing_would_wait() {
    let descriptor = eventfd(0, EventfdFlags::empty()).expect("a descriptor");
    let mut meeting = Meeting::new();
    meeting.bring(&Region::create(4096).expect("memory"));
    assert_eq!(meeting.ask(&add_ring(0, 0, 2), Some(descriptor.as_fd())), Message::Ack);
    assert!(fcntl_getfl(&descriptor).expect("known").contains(OFlags::NONBLOCK));
}
