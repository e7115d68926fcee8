//! Keeps a host's `RoCEv2` packets from the kernel's own IP stack (docs/adr/0088): it would route
//! each of them, look for a socket in vain, and answer "port unreachable" if the address is the
//! kernel's as well.
//!
//! A program at the ingress of the interface (`tcx`, Linux 6.6) drops them. Packet sockets of all
//! protocols at this interface, ours and that of `tcpdump`, get them before it does.

use crate::filter::{ETHERTYPE_AT, IPV4_AT, IPV6_NEXT_AT, IPV6_UDP_AT, UDP_PORT_ROCEV2};
use crate::socket::check;
use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JMP, BPF_LD, BPF_W, c_int, c_long};
use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Commands of bpf(2).
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const LINK_DETACH: c_int = 34;
/// `BPF_PROG_TYPE_SCHED_CLS`.
const SCHED_CLS: u32 = 3;
/// `BPF_TCX_INGRESS`.
const TCX_INGRESS: u32 = 46;
/// What the program answers: the next program decides, or the packet is dropped.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// Codes of instructions that classic BPF lacks.
const MOVE_REGISTER: u32 = 0xBF;
const MOVE: u32 = 0xB7;
const AND: u32 = 0x57;
const LOAD_WORD: u32 = 0x61;
/// Jumps that compare 32 bits.
const JUMP_IF_IS: u32 = 0x16;
const JUMP_IF_IS_NOT: u32 = 0x56;
const JUMP_IF_BELOW: u32 = 0xA6;
const EXIT: u32 = BPF_JMP | 0x90;

/// Where `struct __sk_buff` has them.
const LEN: i16 = 0;
const PACKET_TYPE: i16 = 4;
const VLAN_TCI: i16 = 24;
const VLAN_ID: i32 = 0xFFF;

const VERSION_AND_LENGTH: i32 = 0x45;
/// "More fragments", and where in the packet this one lies.
const FRAGMENT: i32 = 0x3FFF;
/// The address that an IPv6 packet goes to.
const IPV6_TO_AT: u32 = 14 + 24;

/// A host, as packets to it are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its address.
    pub ip: IpAddr,
    /// The VLAN that its packets are in, 1 to 4094; `None`: in none.
    pub vlan: Option<u16>,
}

/// The program, attached. It is detached when this is dropped. If the process is killed, the kernel
/// detaches it with the last descriptor, which a child that was forked may have.
#[derive(Debug)]
pub(crate) struct Ingress {
    link: OwnedFd,
    /// A child that was forked has a copy, and leaves the program where it is.
    process: u32,
}

impl Ingress {
    /// Attaches the program for packets to a host, to the interface with this number.
    ///
    /// # Errors
    /// What the kernel says: it takes `CAP_BPF` and `CAP_NET_ADMIN`, which nothing else here does,
    /// and Linux 6.6.
    pub(crate) fn attach(interface: i32, host: Host) -> io::Result<Self> {
        let program = load(&program(host))?;
        let attribute = LinkCreate {
            program: program.as_raw_fd(),
            interface,
            attach_type: TCX_INGRESS,
            ..LinkCreate::default()
        };
        // SAFETY: the attribute is the command's, and has no pointers.
        let made = unsafe { bpf(LINK_CREATE, &attribute)? };
        // SAFETY: just made, and nobody else's.
        Ok(Self { link: unsafe { OwnedFd::from_raw_fd(made) }, process: std::process::id() })
    }
}

impl Drop for Ingress {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let attribute = LinkDetach { link: self.link.as_raw_fd() };
            // An interface that is gone has no program.
            // SAFETY: the attribute is the command's, and has no pointers.
            let _ = unsafe { bpf(LINK_DETACH, &attribute) };
        }
    }
}

/// An instruction of the kernel's virtual machine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
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

/// `union bpf_attr` of `BPF_LINK_DETACH`.
#[repr(C)]
struct LinkDetach {
    link: i32,
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    const LICENSE: &[u8] = b"Apache-2.0\0";
    let mut name = [0; 16];
    name[..6].copy_from_slice(b"rocev2");
    let attribute = ProgLoad {
        program_type: SCHED_CLS,
        instruction_count: program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        name,
        ..ProgLoad::default()
    };
    // SAFETY: the attribute is the command's. It names as many instructions as there are, and a
    // text that ends with a zero; both are there until the call is over, and are only read.
    let made = unsafe { bpf(PROG_LOAD, &attribute)? };
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// What a command answers: a descriptor, or nothing.
///
/// # Safety
/// The attribute is the command's, its pointers are to what is there until the call is over, and
/// the command writes nothing to either.
unsafe fn bpf<T>(command: c_int, attribute: &T) -> io::Result<c_int> {
    let at = std::ptr::from_ref(attribute);
    // SAFETY: the caller's promise, and this is the attribute's length.
    let answer: c_long = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    check(c_int::try_from(answer).unwrap_or(-1))
}

/// A look at a packet, which is not the program's if the jump is taken.
struct Look {
    load: Instruction,
    mask: Option<i32>,
    jump: u32,
    value: i32,
}

impl Look {
    /// So many bytes of the frame, from there on, must be this.
    const fn at(width: u32, at: u32, value: i32) -> Self {
        let load = instruction(BPF_LD | width | BPF_ABS, at.cast_signed());
        Self { load, mask: None, jump: JUMP_IF_IS_NOT, value }
    }

    /// At what the kernel knows of it.
    const fn known(offset: i16, jump: u32, value: i32) -> Self {
        // From the sixth register into the first.
        let load = Instruction { registers: registers(0, 6), offset, ..instruction(LOAD_WORD, 0) };
        Self { load, mask: None, jump, value }
    }

    const fn masked(self, mask: i32) -> Self {
        Self { mask: Some(mask), ..self }
    }
}

/// The program for packets to a host. Packets to other hosts' Ethernet addresses, fragments, those
/// with IP options or IPv6 extension headers, and those of other VLANs are the kernel's, too.
fn program(host: Host) -> Vec<Instruction> {
    let udp = libc::IPPROTO_UDP;
    let port = UDP_PORT_ROCEV2.cast_signed();
    let of_family = match host.ip {
        IpAddr::V4(ip) => vec![
            Look::known(LEN, JUMP_IF_BELOW, 14 + 20 + 8),
            Look::at(BPF_H, ETHERTYPE_AT, libc::ETH_P_IP),
            Look::at(BPF_B, IPV4_AT, VERSION_AND_LENGTH),
            Look::at(BPF_W, IPV4_AT + 16, i32::from_be_bytes(ip.octets())),
            Look::at(BPF_B, IPV4_AT + 9, udp),
            Look::at(BPF_H, IPV4_AT + 6, 0).masked(FRAGMENT),
            Look::at(BPF_H, IPV4_AT + 20 + 2, port),
        ],
        IpAddr::V6(ip) => {
            let bytes = ip.octets();
            let words = bytes.as_chunks().0.iter().map(|word| i32::from_be_bytes(*word));
            let address = (IPV6_TO_AT..).step_by(4).zip(words);
            [
                Look::known(LEN, JUMP_IF_BELOW, 14 + 40 + 8),
                Look::at(BPF_H, ETHERTYPE_AT, libc::ETH_P_IPV6),
                Look::at(BPF_B, IPV6_NEXT_AT, udp),
            ]
            .into_iter()
            .chain(address.map(|(at, word)| Look::at(BPF_W, at, word)))
            .chain([Look::at(BPF_H, IPV6_UDP_AT + 2, port)])
            .collect()
        }
    };
    let vlan = i32::from(host.vlan.unwrap_or(0));
    let known = [
        Look::known(PACKET_TYPE, JUMP_IF_IS, libc::PACKET_OTHERHOST.into()),
        Look::known(VLAN_TCI, JUMP_IF_IS_NOT, vlan).masked(VLAN_ID),
    ];
    compile(known.into_iter().chain(of_family))
}

fn compile(looks: impl Iterator<Item = Look>) -> Vec<Instruction> {
    // Loads take the packet from the sixth register.
    let mut program = vec![Instruction { registers: registers(6, 1), ..instruction(MOVE_REGISTER, 0) }];
    let mut jumps = Vec::new();
    for look in looks {
        program.push(look.load);
        program.extend(look.mask.map(|mask| instruction(AND, mask)));
        jumps.push(program.len());
        program.push(instruction(look.jump, look.value));
    }
    program.extend([instruction(MOVE, TCX_DROP), instruction(EXIT, 0)]);
    let next = program.len();
    for jump in jumps {
        // A program that is too long for an offset is refused: it would be endless.
        program[jump].offset = (next - jump - 1).try_into().unwrap_or(-1);
    }
    program.extend([instruction(MOVE, TCX_NEXT), instruction(EXIT, 0)]);
    program
}

/// The register that is written, and the one that is read.
const fn registers(written: u8, read: u8) -> u8 {
    if cfg!(target_endian = "big") { written << 4 | read } else { read << 4 | written }
}

#[expect(clippy::cast_possible_truncation, reason = "codes have 8 bits")]
const fn instruction(code: u32, immediate: i32) -> Instruction {
    Instruction { code: code as u8, registers: 0, offset: 0, immediate }
}

#[cfg(test)]
mod tests;
