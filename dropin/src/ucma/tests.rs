//! The device as librdmacm uses it, and as nobody should.

use super::calls::{srnic_cm_closed, srnic_cm_has, srnic_cm_write};
use super::{channel, table};
use crate::abi::ucm::{
    self, BindIp, CmdHdr, CreateId, DestroyId, GetEvent, JoinIpMcast, JoinMcast, Listen, MigrateId, Plain,
    Query, QueryRouteResp, SetOption, bytes_of, cmd, option, ps, zeroed,
};
use crate::config::parse;
use crate::opened;
use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An open descriptor. Tests of the table of all take turns.
struct Open {
    fd: c_int,
    inode: u64,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Open {
    fn new(flags: c_int) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self::with(flags, Some(turn))
    }

    /// One more of a test that has its turn.
    fn another(flags: c_int) -> Self {
        Self::with(flags, None)
    }

    fn with(flags: c_int, turn: Option<MutexGuard<'static, ()>>) -> Self {
        let fd = table::open(flags).expect("a descriptor");
        Self { fd, inode: channel::inode_of(fd).expect("an inode"), _turn: turn }
    }

    /// The answer to bytes that a program writes: 0, or an errno.
    fn write(&self, bytes: &[u8]) -> c_int {
        // SAFETY: the bytes are there.
        -unsafe { srnic_cm_write(self.fd, self.inode, bytes.as_ptr().cast(), bytes.len()) }
    }

    fn command<T: Plain>(&self, number: u32, command: &T, len_out: usize) -> c_int {
        let [len_in, len_out] = [size_of::<T>(), len_out].map(|len| u16::try_from(len).expect("short"));
        let header = CmdHdr { cmd: number, len_in, len_out };
        self.write(&[bytes_of(&header), bytes_of(command)].concat())
    }

    fn create(&self) -> u32 {
        self.create_in(ps::TCP)
    }

    fn create_in(&self, space: u16) -> u32 {
        let mut id = 0_u32;
        let asked = CreateId { uid: 7, response: address(&mut id), ps: space, ..zeroed() };
        assert_eq!(self.command(cmd::CREATE_ID, &asked, 4), 0);
        id
    }

    /// An identifier of datagrams that is bound to a device.
    fn create_bound(&self, device: &str) -> u32 {
        let id = self.create_in(ps::UDP);
        let engine = opened::open(&parse("srnic0", device).expect("a device")).expect("it opens");
        let channel = table::channel(self.inode).expect("it is open");
        table::id(&channel, id).expect("it is there").state().engine = Some(engine);
        id
    }

    fn join(&self, id: u32, group: &str, join_flags: u16) -> Result<u32, c_int> {
        let mut joined = u32::MAX;
        let (addr, addr_size) = super::sockaddr::to_c(group.parse().expect("an address"));
        let asked = JoinMcast { response: address(&mut joined), uid: 9, id, addr_size, join_flags, addr };
        match self.command(cmd::JOIN_MCAST, &asked, 4) {
            0 => Ok(joined),
            errno => Err(errno),
        }
    }

    /// How many events of a group the program has got, or an errno.
    fn leave(&self, joined: u32) -> Result<u32, c_int> {
        let mut reported = u32::MAX;
        let asked = DestroyId { response: address(&mut reported), id: joined, reserved: 0 };
        match self.command(cmd::LEAVE_MCAST, &asked, 4) {
            0 => Ok(reported),
            errno => Err(errno),
        }
    }

    fn event(&self) -> Result<ucm::EventResp, c_int> {
        let mut resp: ucm::EventResp = zeroed();
        match self.command(cmd::GET_EVENT, &GetEvent { response: address(&mut resp) }, size_of_val(&resp)) {
            0 => Ok(resp),
            errno => Err(errno),
        }
    }

    fn destroy(&self, id: u32) -> c_int {
        let mut reported = 0_u32;
        self.command(cmd::DESTROY_ID, &DestroyId { response: address(&mut reported), id, reserved: 0 }, 4)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: it is the test's.
        unsafe { libc::close(self.fd) };
        // SAFETY: it takes nothing.
        unsafe { srnic_cm_closed() };
    }
}

fn address<T>(place: &mut T) -> u64 {
    core::ptr::from_mut(place).expose_provenance() as u64
}

fn sockaddr(text: &str) -> ucm::SockaddrIn6 {
    let addr: SocketAddr = text.parse().expect("an address");
    super::sockaddr::to_c(addr).0
}

#[test]
fn an_identifier_is_bound_and_goes_with_its_descriptor() {
    let open = Open::new(libc::O_CLOEXEC);
    let (first, second) = (open.create(), open.create());
    let bind = |id, addr| open.command(cmd::BIND_IP, &BindIp { response: 0, addr, id }, 0);
    assert_eq!(bind(first, sockaddr("0.0.0.0:7471")), 0);
    assert_eq!(bind(first, sockaddr("0.0.0.0:7472")), libc::EINVAL, "it has an address");
    assert_eq!(bind(second, sockaddr("0.0.0.0:7471")), libc::EADDRINUSE);
    assert_eq!(bind(second, zeroed()), libc::EAFNOSUPPORT);
    let mut resp: QueryRouteResp = zeroed();
    let asked = Query { response: address(&mut resp), id: first, option: 0 };
    assert_eq!(open.command(cmd::QUERY_ROUTE, &asked, size_of::<QueryRouteResp>()), 0);
    assert_eq!((resp.node_guid, resp.num_paths, resp.port_num), (0, 0, 0));
    assert_eq!(super::sockaddr::from_c(&resp.src_addr), Ok(Some("0.0.0.0:7471".parse().expect("one"))));
    assert_eq!(open.destroy(first), 0);
    assert_eq!(open.destroy(first), libc::ENOENT, "it is gone");
    assert_eq!(bind(second, sockaddr("0.0.0.0:7471")), 0, "its port is free");
    let inode = open.inode;
    drop(open);
    assert!(table::channel(inode).is_err(), "nobody has it open");
    let open = Open::new(0);
    assert_eq!(open.destroy(second), libc::ENOENT);
    let third = open.create();
    let bind = |id, addr| open.command(cmd::BIND_IP, &BindIp { response: 0, addr, id }, 0);
    assert_eq!(bind(third, sockaddr("[::]:7471")), 0, "what was left of the descriptor is free");
}

#[test]
fn ports_are_shared_by_who_says_so() {
    let open = Open::new(0);
    let ids = [open.create(), open.create(), open.create()];
    let mut one = 1_u32;
    let optval = address(&mut one);
    let share = |id| SetOption { optval, id, level: option::LEVEL_ID, optname: option::REUSEADDR, optlen: 4 };
    for id in &ids[..2] {
        assert_eq!(open.command(cmd::SET_OPTION, &share(*id), 0), 0);
        let bind = BindIp { response: 0, addr: sockaddr("0.0.0.0:7473"), id: *id };
        assert_eq!(open.command(cmd::BIND_IP, &bind, 0), 0);
    }
    let bind = BindIp { response: 0, addr: sockaddr("0.0.0.0:7473"), id: ids[2] };
    assert_eq!(open.command(cmd::BIND_IP, &bind, 0), libc::EADDRINUSE);
    assert_eq!(open.command(cmd::SET_OPTION, &SetOption { optlen: 2, ..share(ids[2]) }, 0), libc::EINVAL);
    assert_eq!(open.command(cmd::SET_OPTION, &SetOption { optval: 0, ..share(ids[2]) }, 0), libc::EFAULT);
    assert_eq!(open.command(cmd::SET_OPTION, &SetOption { level: 9, ..share(ids[2]) }, 0), libc::ENOSYS);
}

#[test]
fn without_an_event_a_nonblocking_descriptor_says_so() {
    let open = Open::new(libc::O_NONBLOCK);
    let mut resp: ucm::EventResp = zeroed();
    let asked = GetEvent { response: address(&mut resp) };
    assert_eq!(open.command(cmd::GET_EVENT, &asked, size_of::<ucm::EventResp>()), libc::EAGAIN);
}

#[test]
fn a_group_is_joined_told_of_and_left() {
    let open = Open::new(libc::O_NONBLOCK);
    let id = open.create_bound("sim:ucma-groups");
    let joined = open.join(id, "239.1.2.3:0", ucm::join::FULL_MEMBER).expect("a group");
    let event = open.event().expect("it says so");
    assert_eq!((event.event, event.uid, event.id, event.status), (ucm::event::MULTICAST_JOIN, 9, joined, 0));
    // Who is sent to: the members' number, the Q_Key, and the GID.
    assert_eq!(event.param[..2], [0xFF_FFFF, 0x0123_4567]);
    assert_eq!(event.param[2..6], [0, 0, 0xFFFF_0000, u32::from_ne_bytes([239, 1, 2, 3])]);
    assert_eq!(open.leave(joined), Ok(1));
    assert_eq!(open.leave(joined), Err(libc::ENOENT));
    // Nobody hears of a group that is left, nor of one whose identifier is gone.
    let joined = open.join(id, "239.1.2.4:0", ucm::join::SEND_ONLY).expect("a group");
    assert_eq!((open.leave(joined), open.event().err()), (Ok(0), Some(libc::EAGAIN)));
    let joined = open.join(id, "239.1.2.5:0", ucm::join::FULL_MEMBER).expect("a group");
    assert_eq!((open.destroy(id), open.event().err()), (0, Some(libc::EAGAIN)));
    assert_eq!(open.leave(joined), Err(libc::ENOENT));
}

#[test]
fn what_is_no_group_or_no_identifier_of_datagrams_does_not_join() {
    let open = Open::new(libc::O_NONBLOCK);
    let id = open.create_bound("sim:ucma-no-groups");
    for addr in ["10.77.0.9:0", "0.0.0.0:0", "[ff0e::1]:0"] {
        assert_eq!(open.join(id, addr, 0), Err(libc::EINVAL), "{addr}");
    }
    assert_eq!(open.join(id, "239.1.2.3:0", 2), Err(libc::EINVAL), "no such flag");
    assert_eq!(open.join(open.create_in(ps::UDP), "239.1.2.3:0", 0), Err(libc::EINVAL), "it has no device");
    assert_eq!(open.join(u32::MAX, "239.1.2.3:0", 0), Err(libc::ENOENT));
    let asked = JoinIpMcast { response: 0, uid: 9, addr: sockaddr("239.1.2.3:0"), id };
    assert_eq!(open.command(cmd::JOIN_IP_MCAST, &asked, 4), libc::EFAULT, "nowhere to answer");
    assert_eq!(open.event().err(), Some(libc::EAGAIN), "none of them is told of");
    let other = Open::another(0);
    let joined = open.join(id, "239.1.2.3:0", 0).expect("a group");
    assert_eq!(other.leave(joined), Err(libc::EINVAL), "it is another descriptor's");
}

#[test]
fn an_identifier_moves_to_another_descriptor() {
    let from = Open::new(0);
    let id = from.create();
    let to = table::open(0).expect("a descriptor");
    let inode = channel::inode_of(to).expect("an inode");
    let mut reported = 1_u32;
    let header = CmdHdr { cmd: cmd::MIGRATE_ID, len_in: 16, len_out: 4 };
    let asked = MigrateId { response: address(&mut reported), id, fd: from.fd.cast_unsigned() };
    let bytes = [bytes_of(&header), bytes_of(&asked)].concat();
    // SAFETY: the bytes are there.
    assert_eq!(unsafe { srnic_cm_write(to, inode, bytes.as_ptr().cast(), bytes.len()) }, 0);
    assert_eq!((reported, from.destroy(id)), (0, libc::ENOENT));
    // SAFETY: it is the test's.
    unsafe { libc::close(to) };
}

#[test]
fn garbage_is_refused_as_a_kernel_does() {
    let open = Open::new(0);
    let id = open.create();
    assert_eq!(open.write(b""), libc::EINVAL);
    assert_eq!(open.write(&[0; 7]), libc::EINVAL);
    assert_eq!(open.write(bytes_of(&CmdHdr { cmd: cmd::LISTEN, len_in: 8, len_out: 0 })), libc::EINVAL);
    for number in [cmd::JOIN_MCAST + 1, u32::MAX] {
        assert_eq!(open.command(number, &id, 0), libc::EINVAL);
    }
    // A structure that is too short, a number that is nobody's, an address that is none.
    for number in 0..=cmd::JOIN_MCAST {
        let code = open.write(bytes_of(&CmdHdr { cmd: number, len_in: 0, len_out: 0 }));
        assert!([libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP].contains(&code), "{number}: {code}");
    }
    assert_eq!(open.command(cmd::LISTEN, &Listen { id: id + 1, backlog: 1 }, 0), libc::ENOENT);
    for response in [0, 8, u64::MAX] {
        let code = open.command(cmd::CREATE_ID, &CreateId { uid: 1, response, ps: ps::TCP, ..zeroed() }, 4);
        assert_eq!(code, libc::EFAULT, "{response:#x}");
    }
    assert_eq!(open.command(cmd::CREATE_ID, &CreateId { ps: 3, ..zeroed() }, 4), libc::EINVAL);
    assert_eq!(open.command(cmd::CREATE_ID, &CreateId { ps: ps::TCP, ..zeroed() }, 3), libc::ENOSPC);
    for bytes in [core::ptr::null::<c_void>(), core::ptr::without_provenance(4096)] {
        // SAFETY: the call finds that nothing is there.
        assert_eq!(unsafe { srnic_cm_write(open.fd, open.inode, bytes, 16) }, -libc::EFAULT);
    }
    let mut value = 0x1234_5678_u32;
    for _ in 0..2000 {
        // A generator of Marsaglia's.
        value ^= value << 13;
        value ^= value >> 17;
        value ^= value << 5;
        let mut bytes = vec![0; 8 + (value >> 8) as usize % 400];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = value.rotate_left(u32::try_from(index).expect("short")).to_le_bytes()[0];
        }
        let header =
            CmdHdr { cmd: value % 23, len_in: u16::try_from(bytes.len() - 8).expect("short"), len_out: 400 };
        bytes[..8].copy_from_slice(bytes_of(&header));
        if value % 23 != cmd::GET_EVENT {
            open.write(&bytes);
        }
    }
    // SAFETY: the calls take no pointers.
    assert_eq!(unsafe { (srnic_cm_has(open.inode), srnic_cm_has(1)) }, (1, 0));
    assert_eq!(open.destroy(id), 0);
}
