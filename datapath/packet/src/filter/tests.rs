//! The kernel runs the programs, on frames that pass a socket of its own kind: that takes no
//! privilege.

use super::*;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

/// What of these frames passes a program.
fn passed(mut program: Vec<sock_filter>, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (from, to) = UnixDatagram::pair().expect("a pair");
    to.set_nonblocking(true).expect("a socket");
    attach(&to, &mut program);
    let mut passed = Vec::new();
    for frame in frames {
        // A frame that the filter refuses is an error of this kind of socket's.
        let _ = from.send(frame);
        let mut buffer = [0; 2048];
        passed.extend(to.recv(&mut buffer).map(|len| buffer[..len].to_vec()));
    }
    passed
}

fn attach(to: &UnixDatagram, program: &mut [sock_filter]) {
    let len = program.len().try_into().expect("short");
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    let at = (&raw const program).cast();
    let size = size_of_val(&program).try_into().expect("short");
    let (fd, level) = (to.as_raw_fd(), libc::SOL_SOCKET);
    // SAFETY: a sock_fprog of that length, which names as many instructions as there are.
    let set = unsafe { libc::setsockopt(fd, level, libc::SO_ATTACH_FILTER, at, size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn rdma_passes(frame: &[u8]) -> bool {
    let program = program(Frames::Rdma, false).expect("not everything");
    !passed(program, &[frame.to_vec()]).is_empty()
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[2; 12], &kind.to_be_bytes()[..], rest].concat()
}

/// `words` of an IPv4 header, 5 to 15, then UDP.
fn ipv4(words: u8, protocol: u8, fragment: u16, port: u16) -> Vec<u8> {
    let mut ip = vec![0; usize::from(words) * 4 + 8];
    ip[0] = 0x40 | words;
    ip[6..8].copy_from_slice(&fragment.to_be_bytes());
    ip[9] = protocol;
    let udp = usize::from(words) * 4;
    ip[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
    ethernet(0x0800, &ip)
}

fn ipv6(next: u8, port: u16) -> Vec<u8> {
    let mut ip = vec![0; 48];
    ip[0] = 0x60;
    ip[6] = next;
    ip[42..44].copy_from_slice(&port.to_be_bytes());
    ethernet(0x86DD, &ip)
}

#[test]
fn an_engine_hears_rocev2_arp_and_icmp_and_nothing_else() {
    for words in 5..=15 {
        assert!(rdma_passes(&ipv4(words, 17, 0x4000, 4791)), "{words} words");
        assert!(!rdma_passes(&ipv4(words, 17, 0x4000, 4790)), "{words} words, another port");
    }
    assert!(rdma_passes(&ipv6(17, 4791)));
    assert!(rdma_passes(&ipv4(5, 1, 0, 0)) && rdma_passes(&ipv6(58, 0)), "ping");
    assert!(rdma_passes(&ethernet(0x0806, &[0; 28])), "ARP");
    for port in [0, 53, 4790, 4792, 0xB712] {
        assert!(!rdma_passes(&ipv4(5, 17, 0, port)) && !rdma_passes(&ipv6(17, port)), "{port}");
    }
    for protocol in (0..=255).filter(|protocol| ![1, 17, 58].contains(protocol)) {
        assert!(!rdma_passes(&ipv4(5, protocol, 0, 4791)) && !rdma_passes(&ipv6(protocol, 4791)));
    }
    assert!(!rdma_passes(&ipv4(5, 58, 0, 4791)) && !rdma_passes(&ipv6(1, 4791)), "of the other family");
    for kind in [0, 0x0801, 0x8100, 0x8847, 0x88CC, 0xFFFF] {
        assert!(!rdma_passes(&ethernet(kind, &[0; 60])), "{kind:x}");
    }
}

/// Only a first fragment has ports. The engine refuses and counts it.
#[test]
fn of_fragments_the_first_one_comes() {
    assert!(rdma_passes(&ipv4(5, 17, 0x2000, 4791)));
    for offset in [1, 185, 0x1FFF] {
        assert!(
            !rdma_passes(&ipv4(5, 17, offset, 4791)) && !rdma_passes(&ipv4(5, 17, 0x2000 | offset, 4791))
        );
    }
}

#[test]
fn a_frame_that_ends_too_early_does_not_come() {
    for whole in [ipv4(5, 17, 0, 4791), ipv4(15, 17, 0, 4791), ipv6(17, 4791)] {
        let port_ends = whole.len() - 4;
        for len in 1..whole.len() {
            assert_eq!(rdma_passes(&whole[..len]), len >= port_ends, "{len} of {}", whole.len());
        }
    }
}

#[test]
fn where_the_kernel_shows_what_is_sent_all_else_passes() {
    assert!(program(Frames::All, false).is_none());
    // Frames that come to a socket of this kind are received.
    let frames = [ipv4(5, 17, 0, 53), ethernet(0, &[0; 46])];
    assert_eq!(passed(program(Frames::All, true).expect("a program"), &frames), frames);
    let [rocev2, others] = [ipv4(5, 17, 0, 4791), ipv4(5, 6, 0, 4791)];
    let program = program(Frames::Rdma, true).expect("a program");
    assert_eq!(passed(program, &[others, rocev2.clone()]), [rocev2]);
}
