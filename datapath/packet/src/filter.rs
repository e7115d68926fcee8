//! What of an interface's frames comes into the ring: programs for the kernel (classic BPF).
//!
//! A frame that a program refuses is not ours, and is not counted: it is some other program's, as
//! it would be without us.

use libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
    BPF_W, sock_filter,
};

/// Frames that a socket receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    /// All that reach the interface, whoever they are for: for a switch.
    All,
    /// What an RDMA engine hears: RoCEv2 (UDP to port 4791, IPv4 and IPv6), ARP, ICMP, which has
    /// ping, and `ICMPv6`, which has ping and neighbor discovery.
    Rdma,
}

pub(crate) const UDP_PORT_ROCEV2: u32 = 4791;
pub(crate) const ETHERTYPE_AT: u32 = 12;
pub(crate) const IPV4_AT: u32 = 14;
/// Next header of an IPv6 header, and what follows the header.
pub(crate) const IPV6_NEXT_AT: u32 = 14 + 6;
pub(crate) const IPV6_UDP_AT: u32 = 14 + 40;
/// All of a frame.
const TAKE: u32 = u32::MAX;
/// Where a program finds whether this host sends the frame.
const DIRECTION_AT: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();

/// The program of these frames; `None` if everything is taken. `sees_sent`: the kernel does not
/// know how to leave out the frames that this host sends.
pub(crate) fn program(frames: Frames, sees_sent: bool) -> Option<Vec<sock_filter>> {
    let mut program = Vec::new();
    if sees_sent {
        program.extend([
            load(BPF_W, DIRECTION_AT),
            jump(BPF_JEQ, libc::PACKET_OUTGOING.into(), 0, 1),
            statement(BPF_RET | BPF_K, 0),
        ]);
    }
    match frames {
        Frames::All if program.is_empty() => return None,
        Frames::All => program.push(statement(BPF_RET | BPF_K, TAKE)),
        Frames::Rdma => program.extend(rdma()),
    }
    Some(program)
}

/// In the order of how many frames take each way. Numbers behind a condition say how many
/// instructions to skip.
fn rdma() -> [sock_filter; 19] {
    let ipproto = |proto: i32| proto.cast_unsigned();
    [
        load(BPF_H, ETHERTYPE_AT),
        jump(BPF_JEQ, libc::ETH_P_IP.cast_unsigned(), 0, 8),
        // IPv4.
        load(BPF_B, IPV4_AT + 9),
        jump(BPF_JEQ, ipproto(libc::IPPROTO_ICMP), 13, 0),
        jump(BPF_JEQ, ipproto(libc::IPPROTO_UDP), 0, 13),
        // Behind the first fragment there is no UDP header.
        load(BPF_H, IPV4_AT + 6),
        jump(BPF_JSET, 0x1FFF, 11, 0),
        statement(BPF_LDX | BPF_B | BPF_MSH, IPV4_AT),
        statement(BPF_LD | BPF_H | BPF_IND, IPV4_AT + 2),
        jump(BPF_JEQ, UDP_PORT_ROCEV2, 7, 8),
        // Others.
        jump(BPF_JEQ, libc::ETH_P_ARP.cast_unsigned(), 6, 0),
        jump(BPF_JEQ, libc::ETH_P_IPV6.cast_unsigned(), 0, 6),
        // IPv6.
        load(BPF_B, IPV6_NEXT_AT),
        jump(BPF_JEQ, ipproto(libc::IPPROTO_ICMPV6), 3, 0),
        jump(BPF_JEQ, ipproto(libc::IPPROTO_UDP), 0, 3),
        load(BPF_H, IPV6_UDP_AT + 2),
        jump(BPF_JEQ, UDP_PORT_ROCEV2, 0, 1),
        statement(BPF_RET | BPF_K, TAKE),
        statement(BPF_RET | BPF_K, 0),
    ]
}

fn load(size: u32, at: u32) -> sock_filter {
    statement(BPF_LD | size | BPF_ABS, at)
}

fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..statement(BPF_JMP | condition | BPF_K, k) }
}

#[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits")]
const fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests;
