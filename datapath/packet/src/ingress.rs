//! Keeps a host's `RoCEv2` packets from the kernel's own IP stack (docs/adr/0088): it would route
//! each of them, look for a socket in vain, and answer "port unreachable" if the address is the
//! kernel's as well.
//!
//! A program at the ingress of the interface (`tcx`, Linux 6.6) drops them. Packet sockets, ours
//! and that of `tcpdump`, are asked before it.

use crate::filter::{IPV4_AT, UDP_PORT_ROCEV2};
use crate::socket::check;
use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JMP, BPF_K, BPF_LD, BPF_W, c_int, c_long};
use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Commands of bpf(2).
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
/// `BPF_PROG_TYPE_SCHED_CLS`.
const SCHED_CLS: u32 = 3;
/// `BPF_TCX_INGRESS`.
const TCX_INGRESS: u32 = 46;
/// What the program answers: the next program decides, or the packet is dropped.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// Codes of instructions that classic BPF has not.
const MOVE_REGISTER: u32 = 0xBF;
const MOVE: u32 = 0xB7;
const AND: u32 = 0x57;
const JUMP_IF_NOT_32: u32 = 0x56;
const EXIT: u32 = BPF_JMP | 0x90;

const VERSION_AND_LENGTH: i32 = 0x45;
/// "More fragments", and where in the packet this one lies.
const FRAGMENT: i32 = 0x3FFF;
const IPV6_AT: u32 = 14;

/// The program, attached. The kernel detaches it when this goes, or the process.
#[derive(Debug)]
pub(crate) struct Ingress {
    _link: OwnedFd,
}

impl Ingress {
    /// Attaches the program for packets to an address, to the interface with this number.
    ///
    /// # Errors
    /// What the kernel says: it takes `CAP_BPF` and `CAP_NET_ADMIN`, which nothing else here does,
    /// and Linux 6.6.
    pub(crate) fn attach(interface: i32, ip: IpAddr) -> io::Result<Self> {
        let program = load(&program(ip))?;
        let attribute = LinkCreate {
            program: program.as_raw_fd(),
            interface,
            attach_type: TCX_INGRESS,
            ..LinkCreate::default()
        };
        Ok(Self { _link: bpf(LINK_CREATE, &attribute)? })
    }
}

/// An instruction of the kernel's virtual machine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    /// The register that is written, and, in the upper half, the one that is read.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as it is used; the kernel takes the rest as zero.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// `union bpf_attr` of `BPF_LINK_CREATE` for `tcx`.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: i32,
    interface: i32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    const LICENSE: &[u8] = b"Apache-2.0\0";
    let mut name = [0; 16];
    name[..6].copy_from_slice(b"rocev2");
    let attribute = ProgLoad {
        program_type: SCHED_CLS,
        instruction_count: u32::try_from(program.len()).unwrap_or_default(),
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        name,
        ..ProgLoad::default()
    };
    bpf(PROG_LOAD, &attribute)
}

/// The descriptor that a command makes.
fn bpf<T>(command: c_int, attribute: &T) -> io::Result<OwnedFd> {
    let at = std::ptr::from_ref(attribute);
    // SAFETY: the callers give each command its attribute, whose length this is, and whose pointers
    // are to what lives as long as the call.
    let made: c_long = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    let fd = check(c_int::try_from(made).unwrap_or(-1))?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a packet must have for the program to drop it: so many bytes of the frame, from there on,
/// less the bits that do not count, are this.
struct Condition {
    width: u32,
    at: u32,
    mask: Option<i32>,
    value: i32,
}

impl Condition {
    const fn is(width: u32, at: u32, value: i32) -> Self {
        Self { width, at, mask: None, value }
    }
}

/// The program for packets to an address. Packets with IP options, fragments, and those with
/// headers of IPv6 between are the kernel's, too.
fn program(ip: IpAddr) -> Vec<Instruction> {
    let udp = libc::IPPROTO_UDP;
    let port = UDP_PORT_ROCEV2.cast_signed();
    let conditions = match ip {
        IpAddr::V4(ip) => vec![
            Condition::is(BPF_H, 12, libc::ETH_P_IP),
            Condition::is(BPF_B, IPV4_AT, VERSION_AND_LENGTH),
            Condition::is(BPF_W, IPV4_AT + 16, i32::from_be_bytes(ip.octets())),
            Condition::is(BPF_B, IPV4_AT + 9, udp),
            Condition { mask: Some(FRAGMENT), ..Condition::is(BPF_H, IPV4_AT + 6, 0) },
            Condition::is(BPF_H, IPV4_AT + 20 + 2, port),
        ],
        IpAddr::V6(ip) => {
            let words = ip.octets();
            let words =
                words.chunks_exact(4).map(|word| i32::from_be_bytes([word[0], word[1], word[2], word[3]]));
            let address = (IPV6_AT + 24..).step_by(4).zip(words);
            [Condition::is(BPF_H, 12, libc::ETH_P_IPV6), Condition::is(BPF_B, IPV6_AT + 6, udp)]
                .into_iter()
                .chain(address.map(|(at, word)| Condition::is(BPF_W, at, word)))
                .chain([Condition::is(BPF_H, IPV6_AT + 40 + 2, port)])
                .collect()
        }
    };
    compile(&conditions)
}

fn compile(conditions: &[Condition]) -> Vec<Instruction> {
    // Loads take the packet from the sixth register.
    let mut program = vec![Instruction { registers: 0x16, ..instruction(MOVE_REGISTER, 0) }];
    let mut jumps = Vec::new();
    for condition in conditions {
        program.push(instruction(BPF_LD | condition.width | BPF_ABS, condition.at.cast_signed()));
        program.extend(condition.mask.map(|mask| instruction(AND, mask)));
        jumps.push(program.len());
        program.push(instruction(JUMP_IF_NOT_32, condition.value));
    }
    program.extend([instruction(MOVE, TCX_DROP), instruction(EXIT, 0)]);
    let next = program.len();
    for jump in jumps {
        program[jump].offset = i16::try_from(next - jump - 1).unwrap_or_default();
    }
    program.extend([instruction(MOVE, TCX_NEXT), instruction(EXIT, 0)]);
    program
}

#[expect(clippy::cast_possible_truncation, reason = "codes have 8 bits")]
const fn instruction(code: u32, immediate: i32) -> Instruction {
    Instruction { code: (code | BPF_K) as u8, registers: 0, offset: 0, immediate }
}

#[cfg(test)]
mod tests;
