//! Structures of the kernel's connection manager (`rdma/rdma_user_cm.h`), whose names they have
//! without `rdma_ucm_`.

/// A structure that any bytes are a value of, and that has no padding.
///
/// # Safety
/// Both are so.
pub unsafe trait Plain: Copy {}

/// Commands, by their numbers.
pub mod cmd {
    pub const CREATE_ID: u32 = 0;
    pub const DESTROY_ID: u32 = 1;
    pub const BIND_IP: u32 = 2;
    pub const RESOLVE_IP: u32 = 3;
    pub const RESOLVE_ROUTE: u32 = 4;
    pub const QUERY_ROUTE: u32 = 5;
    pub const CONNECT: u32 = 6;
    pub const LISTEN: u32 = 7;
    pub const ACCEPT: u32 = 8;
    pub const REJECT: u32 = 9;
    pub const DISCONNECT: u32 = 10;
    pub const INIT_QP_ATTR: u32 = 11;
    pub const GET_EVENT: u32 = 12;
    pub const GET_OPTION: u32 = 13;
    pub const SET_OPTION: u32 = 14;
    pub const NOTIFY: u32 = 15;
    pub const JOIN_IP_MCAST: u32 = 16;
    pub const LEAVE_MCAST: u32 = 17;
    pub const MIGRATE_ID: u32 = 18;
    pub const QUERY: u32 = 19;
    pub const BIND: u32 = 20;
    pub const RESOLVE_ADDR: u32 = 21;
    pub const JOIN_MCAST: u32 = 22;
}

/// `rdma_cm_event_type`.
pub mod event {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ADDR_ERROR: u32 = 1;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const CONNECT_ERROR: u32 = 6;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const MULTICAST_JOIN: u32 = 12;
}

/// Port spaces.
pub mod ps {
    pub const IPOIB: u16 = 0x0002;
    pub const IB: u16 = 0x013F;
    pub const TCP: u16 = 0x0106;
    pub const UDP: u16 = 0x0111;
}

/// What `query` asks for.
pub mod query {
    pub const ADDR: u32 = 0;
    pub const PATH: u32 = 1;
    pub const GID: u32 = 2;
}

/// `join_flags`: who joins takes datagrams, or only sends some.
pub mod join {
    pub const FULL_MEMBER: u16 = 0;
    pub const SEND_ONLY: u16 = 1;
}

/// Levels and names of options.
pub mod option {
    pub const LEVEL_ID: u32 = 0;
    pub const TOS: u32 = 0;
    pub const REUSEADDR: u32 = 1;
    pub const AFONLY: u32 = 2;
    pub const ACK_TIMEOUT: u32 = 3;
}

/// Structures, each with what lets it be copied from and to bytes.
macro_rules! plain {
    ($($(#[$meta:meta])* struct $name:ident { $($field:ident: $type:ty,)+ })+) => {
        $($(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name { $(pub $field: $type,)+ }

        // SAFETY: numbers and arrays of them; the sizes of the fields make up that of the whole.
        unsafe impl Plain for $name {}
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())+);)+
    };
}

/// Bytes of private data in a structure.
pub const PRIVATE_DATA: usize = 256;

/// `sockaddr_in6`, which has room for a `sockaddr_in`.
pub type SockaddrIn6 = [u32; 7];
/// `__kernel_sockaddr_storage`.
pub type SockaddrStorage = [u64; 16];

// SAFETY: an array of numbers.
unsafe impl Plain for SockaddrIn6 {}
// SAFETY: likewise.
unsafe impl Plain for SockaddrStorage {}

plain! {
    struct CmdHdr { cmd: u32, len_in: u16, len_out: u16, }
    struct CreateId { uid: u64, response: u64, ps: u16, qp_type: u8, reserved: [u8; 5], }
    struct DestroyId { response: u64, id: u32, reserved: u32, }
    struct BindIp { response: u64, addr: SockaddrIn6, id: u32, }
    struct Bind { id: u32, addr_size: u16, reserved: u16, addr: SockaddrStorage, }
    struct ResolveIp { src_addr: SockaddrIn6, dst_addr: SockaddrIn6, id: u32, timeout_ms: u32, }
    struct ResolveAddr {
        id: u32,
        timeout_ms: u32,
        src_size: u16,
        dst_size: u16,
        reserved: u32,
        src_addr: SockaddrStorage,
        dst_addr: SockaddrStorage,
    }
    struct ResolveRoute { id: u32, timeout_ms: u32, }
    struct Query { response: u64, id: u32, option: u32, }
    /// `ib_user_path_rec`.
    struct PathRec {
        dgid: [u8; 16],
        sgid: [u8; 16],
        dlid: u16,
        slid: u16,
        raw_traffic: u32,
        flow_label: u32,
        reversible: u32,
        mtu: u32,
        pkey: u16,
        hop_limit: u8,
        traffic_class: u8,
        numb_path: u8,
        sl: u8,
        mtu_selector: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }
    struct QueryRouteResp {
        node_guid: u64,
        ib_route: [PathRec; 2],
        src_addr: SockaddrIn6,
        dst_addr: SockaddrIn6,
        num_paths: u32,
        port_num: u8,
        reserved: [u8; 3],
        ibdev_index: u32,
        reserved1: u32,
    }
    struct QueryAddrResp {
        node_guid: u64,
        port_num: u8,
        reserved: u8,
        pkey: u16,
        src_size: u16,
        dst_size: u16,
        src_addr: SockaddrStorage,
        dst_addr: SockaddrStorage,
        ibdev_index: u32,
        reserved1: u32,
    }
    struct ConnParam {
        qp_num: u32,
        qkey: u32,
        private_data: [u8; PRIVATE_DATA],
        private_data_len: u8,
        srq: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        valid: u8,
    }
    /// `ib_uverbs_ah_attr`.
    struct AhAttr {
        dgid: [u8; 16],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
        reserved: u8,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
        reserved1: u8,
    }
    struct UdParam {
        qp_num: u32,
        qkey: u32,
        ah_attr: AhAttr,
        private_data: [u8; PRIVATE_DATA],
        private_data_len: u8,
        reserved: [u8; 7],
    }
    struct Ece { vendor_id: u32, attr_mod: u32, }
    struct Connect { conn_param: ConnParam, id: u32, reserved: u32, ece: Ece, }
    struct Listen { id: u32, backlog: u32, }
    struct Accept { uid: u64, conn_param: ConnParam, id: u32, reserved: u32, ece: Ece, }
    struct Reject { id: u32, private_data_len: u8, reason: u8, reserved: [u8; 2], private_data: [u8; PRIVATE_DATA], }
    struct Disconnect { id: u32, }
    struct InitQpAttr { response: u64, id: u32, qp_state: u32, }
    struct Notify { id: u32, event: u32, }
    struct JoinIpMcast { response: u64, uid: u64, addr: SockaddrIn6, id: u32, }
    struct JoinMcast {
        response: u64,
        uid: u64,
        id: u32,
        addr_size: u16,
        join_flags: u16,
        addr: SockaddrStorage,
    }
    struct GetEvent { response: u64, }
    /// The parameter is a [`UdParam`], or begins with a [`ConnParam`].
    struct EventResp { uid: u64, id: u32, event: u32, status: u32, param: [u32; 76], reserved: u32, ece: Ece, }
    struct SetOption { optval: u64, id: u32, level: u32, optname: u32, optlen: u32, }
    struct MigrateId { response: u64, id: u32, fd: u32, }
    /// `ib_uverbs_qp_attr`.
    struct QpAttr {
        qp_attr_mask: u32,
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        ah_attr: AhAttr,
        alt_ah_attr: AhAttr,
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        reserved: [u8; 5],
    }
}

// SAFETY: a number.
unsafe impl Plain for u32 {}

/// The value of `bytes`; those that are missing are zeros, and more than it has are left out.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> T {
    let mut value = zeroed::<T>();
    let len = bytes.len().min(size_of::<T>());
    // SAFETY: as many bytes are there, and any are a value.
    unsafe { core::ptr::from_mut(&mut value).cast::<u8>().copy_from(bytes.as_ptr(), len) };
    value
}

/// All zeros.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: any bytes are a value.
    unsafe { core::mem::zeroed() }
}

/// The bytes of a value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: without padding all of them are initialised.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}
