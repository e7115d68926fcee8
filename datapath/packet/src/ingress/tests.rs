//! The kernel runs the programs, on frames that pass no interface. That takes `CAP_BPF`.

use super::*;

/// `BPF_PROG_TEST_RUN`.
const TEST_RUN: c_int = 10;

/// `union bpf_attr` of that command, as far as it is used.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: i32,
    answer: i32,
    len: u32,
    len_out: u32,
    data: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// What a program answers to a frame.
fn answer(program: &OwnedFd, frame: &[u8]) -> i32 {
    let mut attribute = TestRun {
        program: program.as_raw_fd(),
        len: u32::try_from(frame.len()).expect("a short frame"),
        data: frame.as_ptr() as u64,
        ..TestRun::default()
    };
    let (at, len) = (&raw mut attribute, size_of::<TestRun>());
    // SAFETY: the command takes and fills in this attribute, whose length this is; its data is
    // there.
    let done = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, at, len) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    attribute.answer
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    // To the loopback interface, whose frames these are.
    [&[0; 12], &kind.to_be_bytes()[..], rest].concat()
}

fn ipv4(to: [u8; 4], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut ip = [0; 20 + 8 + 16];
    ip[0] = 0x45;
    ip[6] = 0x40;
    ip[9] = 17;
    ip[16..20].copy_from_slice(&to);
    ip[22..24].copy_from_slice(&4791_u16.to_be_bytes());
    change(&mut ip);
    ethernet(0x0800, &ip)
}

fn ipv6(to: [u8; 16], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut ip = [0; 40 + 8 + 16];
    ip[0] = 0x60;
    ip[6] = 17;
    ip[24..40].copy_from_slice(&to);
    ip[42..44].copy_from_slice(&4791_u16.to_be_bytes());
    change(&mut ip);
    ethernet(0x86DD, &ip)
}

/// The program for an address, if this process may load it.
fn loaded(ip: impl Into<IpAddr>, vlan: Option<u16>) -> Option<OwnedFd> {
    match load(&program(Host { ip: ip.into(), vlan })) {
        Ok(program) => Some(program),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            println!("skipped: {error}; it takes CAP_BPF");
            None
        }
        Err(error) => panic!("the kernel refuses the program: {error}"),
    }
}

#[test]
fn packets_to_the_address_are_dropped_and_all_others_are_the_kernels() {
    // The first bit is set, as it would be lost where a word became negative.
    let to = [200, 9, 0, 1];
    let Some(program) = loaded(to, None) else { return };
    assert_eq!(answer(&program, &ipv4(to, |_| {})), TCX_DROP);
    let others = [
        ipv4([200, 9, 0, 2], |_| {}),
        ipv4(to, |ip| ip[9] = 6),
        ipv4(to, |ip| ip[22..24].copy_from_slice(&4790_u16.to_be_bytes())),
        ipv4(to, |ip| ip[6] = 0x20),
        ipv4(to, |ip| ip[7] = 1),
        ipv4(to, |ip| ip[0] = 0x46),
        ipv6([9; 16], |_| {}),
        ethernet(0x0806, &[1; 46]),
        ipv4(to, |_| {}).into_iter().enumerate().map(|(at, byte)| if at < 6 { 2 } else { byte }).collect(),
    ];
    for frame in others {
        assert_eq!(answer(&program, &frame), TCX_NEXT, "{frame:?}");
    }
}

#[test]
fn so_they_are_over_ipv6() {
    let to = [0xFD, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0xFF, 0, 0, 7];
    let Some(program) = loaded(to, None) else { return };
    assert_eq!(answer(&program, &ipv6(to, |_| {})), TCX_DROP);
    let others = (24..40).map(|at| ipv6(to, |ip| ip[at] ^= 1)).chain([
        ipv6(to, |ip| ip[6] = 58),
        ipv6(to, |ip| ip[43] ^= 1),
        ipv4([10, 9, 0, 1], |_| {}),
    ]);
    for frame in others {
        assert_eq!(answer(&program, &frame), TCX_NEXT, "{frame:?}");
    }
}

/// A frame that ends before what the program looks at is none that it drops.
#[test]
fn a_frame_that_is_cut_off_is_the_kernels() {
    let to = [10, 9, 0, 1];
    let Some(program) = loaded(to, None) else { return };
    let whole = ipv4(to, |_| {});
    // The kernel's own tests want a whole IP header.
    for len in 14 + 20..14 + 20 + 8 {
        assert_eq!(answer(&program, &whole[..len]), TCX_NEXT, "{len}");
    }
    let to = [9; 16];
    let Some(program) = loaded(to, None) else { return };
    let whole = ipv6(to, |_| {});
    for len in 14 + 40..14 + 40 + 8 {
        assert_eq!(answer(&program, &whole[..len]), TCX_NEXT, "{len}");
    }
}

/// A host of a VLAN has no packet without its tag.
#[test]
fn packets_outside_the_hosts_vlan_are_the_kernels() {
    let to = [10, 9, 0, 1];
    let Some(program) = loaded(to, Some(7)) else { return };
    assert_eq!(answer(&program, &ipv4(to, |_| {})), TCX_NEXT);
}

/// `BPF_OBJ_GET_INFO_BY_FD`.
const GET_INFO: c_int = 15;
/// The loopback interface of every namespace.
const LOOPBACK: i32 = 1;

/// `struct bpf_link_info` of `tcx`.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    interface: i32,
    attach_type: u32,
}

/// The interface that a program is attached to; 0: none.
fn attached_to(link: &OwnedFd) -> i32 {
    #[repr(C)]
    struct GetInfo {
        descriptor: i32,
        len: u32,
        info: u64,
    }
    let mut info = LinkInfo::default();
    let len = size_of::<LinkInfo>().try_into().expect("short");
    let mut attribute = GetInfo { descriptor: link.as_raw_fd(), len, info: (&raw mut info) as u64 };
    let (at, len) = (&raw mut attribute, size_of::<GetInfo>());
    // SAFETY: the command takes this attribute, whose length this is, and fills in what it names.
    let done = unsafe { libc::syscall(libc::SYS_bpf, GET_INFO, at, len) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    info.interface
}

/// A child that was forked has the descriptor, too, and lives as long as it likes.
#[test]
fn the_program_goes_with_its_owner_though_others_have_the_descriptor() {
    let attach = || Ingress::attach(LOOPBACK, Host { ip: IpAddr::from([127, 9, 0, 1]), vlan: None });
    let owned = match attach() {
        Ok(owned) => owned,
        Err(error) => return println!("skipped: {error}; it takes CAP_BPF, CAP_NET_ADMIN and Linux 6.6"),
    };
    let copy = owned.link.try_clone().expect("a descriptor");
    assert_eq!(attached_to(&copy), LOOPBACK);
    drop(owned);
    assert_eq!(attached_to(&copy), 0);
    // The child's copy of it goes, and its parent's program stays.
    let mut in_child = attach().expect("as before");
    in_child.process = 0;
    let copy = in_child.link.try_clone().expect("a descriptor");
    drop(in_child);
    assert_eq!(attached_to(&copy), LOOPBACK);
}
