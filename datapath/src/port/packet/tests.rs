//! Two ports on the two interfaces of a veth pair, in a network namespace of the test's own. It
//! takes root: without it each test says that it was skipped.

use super::*;
use crate::port::test_pair::{self, assert_intact, deliver, queue, receive, within};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

type Pair = test_pair::Pair<PacketPort, PacketPort>;

/// An MTU for which a frame is as long as in the tests of other ports.
const MTU: u16 = 4590;
/// That of the interfaces: a frame of a port's longest without a tag fits, too.
const INTERFACE_MTU: u16 = 5000;

/// Runs `test` in a network namespace with two interfaces, `left` and `right`, that are each
/// other's cable end, and on which the kernel says nothing by itself. False: it did not run.
fn with_veth(test: impl FnOnce() + Send + 'static) -> bool {
    let thread = std::thread::spawn(|| {
        // SAFETY: the thread is of this test alone, and leaves nothing but its network behind.
        if let Err(why) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
            println!("skipped: no network namespace can be made (it takes root): {why}");
            return false;
        }
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("root may");
        ip(&format!("link add left mtu {INTERFACE_MTU} type veth peer name right mtu {INTERFACE_MTU}"));
        ip("link set left up");
        ip("link set right up");
        test();
        true
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn ip(line: &str) {
    let status = Command::new("ip").args(line.split_whitespace()).status().expect("iproute2 is there");
    assert!(status.success(), "ip {line}");
}

fn open_for(name: &str, mtu: u16, frames: Frames) -> PacketPort {
    open_as(None, name, mtu, frames)
}

/// As the port of the host with this address.
fn open_as(host: Option<Host>, name: &str, mtu: u16, frames: Frames) -> PacketPort {
    let interface = Interface::find(name).expect("it was made");
    let mac = interface.mac().expect("Ethernet");
    let promiscuous = frames == Frames::All;
    let config = Config { max_frame: mtu + FRAME_OVERHEAD, frames, promiscuous, host };
    PacketPort::open(interface, &config, mac).expect("root may")
}

fn open(name: &str) -> PacketPort {
    open_for(name, MTU, Frames::All)
}

/// Both ends, which have seen that the link is up.
fn ends() -> (PacketPort, PacketPort) {
    let (mut left, mut right) = (open("left"), open("right"));
    for port in [&mut left, &mut right] {
        within("link", || {
            port.look();
            port.link_up()
        });
    }
    (left, right)
}

fn with_ends(test: impl FnOnce(PacketPort, PacketPort) + Send + 'static) -> bool {
    with_veth(|| {
        let (left, right) = ends();
        test(left, right);
    })
}

/// Commits a frame with these bytes, and hands it over.
fn send(port: &mut PacketPort, frame: &[u8]) {
    port.tx_slot().expect("a slot")[..frame.len()].copy_from_slice(frame);
    port.tx_commit(frame.len());
    port.tx_flush();
}

fn is_readable(port: &mut PacketPort) -> bool {
    let interrupt = port.rest().interrupt.expect("it has one");
    poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
}

#[test]
fn a_port_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<PacketPort>();
}

#[test]
fn frames_pass_as_over_any_port() {
    let tests: [fn(&mut Pair); 3] =
        [Pair::passes_every_length, Pair::lends_whole_slots, Pair::forgets_what_is_cancelled];
    for test in tests {
        with_veth(move || {
            drop(ends());
            test(&mut Pair::connected(|_| open("left"), |_| open("right")));
        });
    }
}

#[test]
fn many_frames_come_in_order_and_none_comes_back() {
    with_ends(|mut left, mut right| {
        let (mut sent, mut received) = (0, 0);
        while received < 20_000 {
            while sent < 20_000 && sent - received < 300 && queue(&mut left, 14 + sent % 1000) {
                sent += 1;
            }
            for frame in deliver(&mut left, &mut right) {
                assert_eq!(frame.len(), 14 + received % 1000, "order");
                assert_intact(&frame);
                received += 1;
            }
        }
        assert_eq!((left.stats().tx_frames, right.stats().rx_frames), (20_000, 20_000));
        assert_eq!(receive(&mut left), Vec::<Vec<u8>>::new(), "its own");
        assert_eq!(right.stats().rx_missed, 0);
    });
}

#[test]
fn a_full_ring_lends_nothing_until_it_is_flushed() {
    with_ends(|mut left, right| {
        let mut queued = 0;
        // Short ones: long ones are handed over within a turn.
        while queue(&mut left, 64) {
            queued += 1;
            assert_eq!(left.tx_waiting(), Some(queued));
        }
        assert!((64..256).contains(&queued), "{queued}");
        assert_eq!(left.stats().tx_frames, 0);
        left.tx_flush();
        assert_eq!((left.stats().tx_frames, left.tx_waiting()), (queued as u64, Some(0)));
        within("all", || right.rx_waiting() == Some(queued));
        assert!(queue(&mut left, 64));
    });
}

#[test]
fn what_finds_the_ring_full_is_counted() {
    with_ends(|mut left, mut right| {
        for number in 0..1000 {
            assert!(queue(&mut left, 100 + number));
            left.tx_flush();
        }
        let mut received = 0;
        loop {
            let waiting = right.rx_waiting();
            let frames = receive(&mut right);
            assert!(waiting >= Some(frames.len()));
            for frame in &frames {
                assert_eq!(frame.len(), 100 + received, "the first ones");
                received += 1;
            }
            if frames.is_empty() {
                break;
            }
        }
        assert!((512..800).contains(&received), "{received}");
        let missed = 1000 - received as u64;
        assert_eq!((right.stats().rx_missed, right.stats().rx_missed), (missed, missed));
    });
}

#[test]
fn a_longer_frame_than_the_port_takes_is_dropped_and_counted() {
    with_veth(|| {
        let (mut left, _) = ends();
        let mut right = open_for("right", 1500, Frames::All);
        for len in [1518, 1519, 1700, 4000, 1518] {
            assert!(queue(&mut left, len));
        }
        left.tx_flush();
        let mut lengths = Vec::new();
        within("frames", || {
            lengths.extend(receive(&mut right).iter().map(Vec::len));
            right.stats().rx_frames + right.stats().rx_dropped == 5
        });
        assert_eq!(lengths, [1518, 1518]);
        assert_eq!(right.stats().rx_dropped, 3);
    });
}

#[test]
fn a_vlan_tag_comes_where_it_was_sent() {
    with_ends(|mut left, mut right| {
        for kind in [[0x81, 0x00], [0x88, 0xA8]] {
            let mut frame: Vec<u8> = (0..200).collect();
            frame[12..14].copy_from_slice(&kind);
            frame[14..18].copy_from_slice(&[0x61, 0x23, 0x08, 0x00]);
            send(&mut left, &frame);
            assert_eq!(deliver(&mut left, &mut right), [frame]);
        }
        assert_eq!(right.stats().rx_bytes, 400);
    });
}

/// An engine's port leaves to others what is theirs.
#[test]
fn a_port_of_an_engine_hears_what_an_engine_understands() {
    with_veth(|| {
        let (mut left, _) = ends();
        let mut right = open_for("right", MTU, Frames::Rdma);
        let udp_to = |port: u16| {
            let mut frame = vec![0; 60];
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            frame[14] = 0x45;
            frame[23] = 17;
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame
        };
        for port in [53, 4791, 4792, 4790, 4791] {
            send(&mut left, &udp_to(port));
        }
        let mut frames = Vec::new();
        within("both", || {
            frames.extend(receive(&mut right));
            frames.len() >= 2
        });
        assert_eq!(frames, [udp_to(4791), udp_to(4791)]);
        assert_eq!(receive(&mut right), Vec::<Vec<u8>>::new());
        let stats = right.stats();
        assert_eq!((stats.rx_frames, stats.rx_dropped, stats.rx_missed), (2, 0, 0));
    });
}

/// Of an address that is the kernel's as well, a host's port alone gets the RoCEv2 packets, as long
/// as it is open (docs/adr/0088). Without the host's address the kernel gets them, too.
#[test]
fn the_kernel_does_not_get_a_hosts_packets() {
    const ADDRESS: [u8; 4] = [10, 9, 0, 1];
    with_veth(|| {
        ip("addr add 10.9.0.1/24 dev right");
        let kernels = UdpSocket::bind((Ipv4Addr::from(ADDRESS), 4791)).expect("nobody else's");
        kernels.set_nonblocking(true).expect("a socket");
        let to_mac = Interface::find("right").and_then(|right| right.mac()).expect("Ethernet");
        let udp_to = |port: u16| {
            let mut frame = vec![0; 60];
            frame[..6].copy_from_slice(&to_mac);
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            frame[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame[26..34].copy_from_slice(&[10, 9, 0, 2, 10, 9, 0, 1]);
            let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            frame[24..26].copy_from_slice(&(!((sum & 0xFFFF) + (sum >> 16))).to_be_bytes()[2..]);
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame[38..40].copy_from_slice(&26_u16.to_be_bytes());
            frame
        };
        let others = UdpSocket::bind((Ipv4Addr::from(ADDRESS), 4790)).expect("nobody else's");
        others.set_nonblocking(true).expect("a socket");
        let (mut left, _) = ends();
        // Both have been through the kernel when its own is there.
        let send_both = |left: &mut PacketPort| {
            send(left, &udp_to(4791));
            send(left, &udp_to(4790));
            within("the kernel's own", || others.recv(&mut [0; 64]).is_ok());
        };
        let kernel_has_it = || kernels.recv(&mut [0; 64]).is_ok();
        send_both(&mut left);
        within("nobody minds", kernel_has_it);
        let without = open_for("right", MTU, Frames::Rdma);
        send_both(&mut left);
        within("the port has no host", kernel_has_it);
        drop(without);
        let host = Host { ip: ADDRESS.into(), vlan: None };
        let mut right = open_as(Some(host), "right", MTU, Frames::Rdma);
        if let Some(why) = right.socket.refusal() {
            assert!(is_not_allowed(why), "{why}");
            println!("skipped: {why}; it takes CAP_BPF, and Linux 6.6");
            return;
        }
        for _ in 0..2 {
            send_both(&mut left);
            within("the port's", || receive(&mut right) == [udp_to(4791)]);
        }
        assert!(!kernel_has_it(), "the port has a host");
        drop(right);
        within("the port is closed", || {
            send_both(&mut left);
            kernel_has_it()
        });
    });
}

/// Whether the system lets no process attach a program, or not this one.
fn is_not_allowed(why: &std::io::Error) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    let is_old = (numbers.next(), numbers.next()) < (Some(Some(6)), Some(Some(6)));
    is_old
        || [Errno::PERM, Errno::NOSYS].map(|errno| Some(errno.raw_os_error())).contains(&why.raw_os_error())
}

#[test]
fn an_interface_that_is_down_or_without_a_peer_says_so_and_comes_back() {
    with_ends(|mut left, mut right| {
        left.set_now(Time(1));
        ip("link set left down");
        // The kernel says so when something is sent, before the next look.
        assert!(left.link_up());
        assert!(queue(&mut left, 100));
        left.tx_flush();
        assert!(!left.link_up());
        let why = left.link_down().expect("down");
        assert_eq!(why, LinkDown::NoCarrier("interface left is down: `ip link set left up`".to_owned()));
        assert!(queue(&mut left, 100));
        left.tx_flush();
        let stats = left.stats();
        assert_eq!((stats.tx_frames, stats.tx_dropped, left.tx_waiting()), (0, 2, Some(0)));
        // The other end of the cable hears of it a little later.
        within("no carrier", || {
            right.look();
            matches!(right.link_down(), Some(LinkDown::NoCarrier(why)) if why.contains("no carrier"))
        });
        // A wait for frames ends, once, and nothing is left that would end the next one.
        assert!(is_readable(&mut left));
        Interrupt::wait_any(&[&left.rest().interrupt.expect("one")], Duration::ZERO);
        assert!(!is_readable(&mut left));
        ip("link set left up");
        let mut now = 1;
        within("link", || {
            now += LINK_CHECK_NS;
            for port in [&mut left, &mut right] {
                port.set_now(Time(now));
                receive(port);
            }
            left.link_up() && right.link_up()
        });
        for len in [200, 300] {
            assert!(queue(&mut left, len));
            let frames = deliver(&mut left, &mut right);
            assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [len]);
        }
    });
}

#[test]
fn an_interface_that_is_deleted_is_gone_for_good() {
    with_ends(|mut left, mut right| {
        assert!(queue(&mut right, 100));
        ip("link delete left");
        right.tx_flush();
        assert_eq!(right.stats().tx_dropped, 1);
        ip(&format!("link add left mtu {INTERFACE_MTU} type veth peer name right mtu {INTERFACE_MTU}"));
        for port in [&mut left, &mut right] {
            port.look();
            let why = port.link_down().expect("gone");
            assert!(matches!(&why, LinkDown::Removed(text) if text.contains(" is gone: close")), "{why:?}");
            assert_eq!(receive(port), Vec::<Vec<u8>>::new());
        }
    });
}

#[test]
fn an_interface_that_is_renamed_is_the_same_one() {
    with_ends(|mut left, mut right| {
        ip("link set left name links");
        left.look();
        assert!(left.link_up());
        assert!(queue(&mut left, 100));
        assert_eq!(deliver(&mut left, &mut right).len(), 1);
    });
}

/// What became too long is dropped, and short frames pass behind it.
#[test]
fn an_mtu_that_is_lowered_drops_and_counts_what_is_too_long() {
    with_ends(|mut left, mut right| {
        ip("link set left mtu 1000");
        left.look();
        assert!(queue(&mut left, 2000));
        left.tx_flush();
        assert_eq!((left.stats().tx_frames, left.stats().tx_dropped), (0, 1));
        for len in [500, 600] {
            assert!(queue(&mut left, len));
            let frames = deliver(&mut left, &mut right);
            assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [len]);
        }
    });
}

#[test]
fn who_sleeps_is_woken_by_frames() {
    with_ends(|mut left, mut right| {
        for _ in 0..3 {
            assert!(!is_readable(&mut right));
            assert!(queue(&mut left, 100));
            left.tx_flush();
            let rest = right.rest();
            assert_eq!(rest.unwatched_ns, Some(LINK_CHECK_NS));
            // Longer than the test may take, unless the frame ends it.
            Interrupt::wait_any(&[&rest.interrupt.expect("it has one")], Duration::from_secs(3600));
            assert!(is_readable(&mut right), "a frame that waits goes on to wake");
            assert_eq!(receive(&mut right).len(), 1);
        }
        assert!(queue(&mut left, 100));
        assert_eq!(left.rest().unwatched_ns, None, "what waits to be sent is tried soon");
    });
}

#[test]
#[should_panic(expected = "no slot is lent")]
fn a_commit_without_a_slot_panics() {
    skip_or_panic("no slot is lent", |port| port.tx_commit(10));
}

#[test]
#[should_panic(expected = "a frame of 4609 bytes in a slot for 4608")]
fn a_commit_beyond_the_slot_panics() {
    skip_or_panic("a frame of 4609 bytes in a slot for 4608", |port| {
        port.tx_slot().expect("a slot");
        port.tx_commit(4609);
    });
}

/// Where there can be no namespace, what shall panic panics all the same.
fn skip_or_panic(expected: &str, step: fn(&mut PacketPort)) {
    let has_run = with_ends(move |mut left, _| step(&mut left));
    assert!(has_run, "skipped: {expected}");
}
