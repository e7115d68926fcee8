//! The interfaces of this machine, and behind them those that devices have: libfabric takes a
//! device whose address is among them.

use crate::ours;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use libc::{ifaddrs, sockaddr_storage};

/// An interface of ours, in one piece. The C library's list goes before it.
#[repr(C)]
struct Interface {
    list: ifaddrs,
    name: [c_char; libc::IFNAMSIZ],
    address: sockaddr_storage,
    mask: sockaddr_storage,
}

/// Every interface of ours points to it: so it is told from the C library's.
static OURS: u8 = 0;

fn mark() -> *mut c_void {
    (&raw const OURS).cast_mut().cast()
}

/// The interfaces of all devices, the last one first; NULL if there are none.
fn all() -> *mut ifaddrs {
    let mut list = null_mut();
    for index in 0.. {
        // SAFETY: all zeros is a value of the structure.
        let mut interface: Box<Interface> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        // SAFETY: there is room for each.
        let found = unsafe {
            ours::interface(
                index,
                interface.name.as_mut_ptr(),
                &raw mut interface.address,
                &raw mut interface.mask,
            )
        };
        if found != 1 {
            break;
        }
        let interface = Box::leak(interface);
        interface.list = ifaddrs {
            ifa_next: list,
            ifa_name: interface.name.as_mut_ptr(),
            ifa_flags: (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_NOARP).cast_unsigned(),
            ifa_addr: (&raw mut interface.address).cast(),
            ifa_netmask: (&raw mut interface.mask).cast(),
            ifa_ifu: null_mut(),
            ifa_data: mark(),
        };
        list = (&raw mut *interface).cast();
    }
    list
}

/// Cuts the interfaces of ours off a list.
///
/// # Safety
/// The list is from [`getifaddrs`], or NULL.
unsafe fn cut(list: &mut *mut ifaddrs) -> *mut ifaddrs {
    let mut place = list;
    // SAFETY: the caller's promise: each points to the next one.
    unsafe {
        while !place.is_null() && (**place).ifa_data != mark() {
            place = &mut (**place).ifa_next;
        }
    }
    core::mem::replace(place, null_mut())
}

/// # Safety
/// It was cut off a list, and is used no more.
unsafe fn free(mut ours: *mut ifaddrs) {
    while !ours.is_null() {
        // SAFETY: `all` has made each of them in a box.
        ours = unsafe { Box::from_raw(ours.cast::<Interface>()) }.list.ifa_next;
    }
}

hooks! {
    fn getifaddrs(list: *mut *mut ifaddrs) -> c_int = |next| {
        let code = next();
        if code == 0 && !list.is_null() {
            // SAFETY: the C library has written a list, or NULL.
            let mut place = unsafe { &mut *list };
            // SAFETY: each points to the next one.
            while let Some(interface) = unsafe { place.as_mut() } {
                place = &mut interface.ifa_next;
            }
            *place = all();
        }
        code
    }
}

/// `freeifaddrs` of the C library.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    static NEXT: crate::next::Next = crate::next::Next::new(c"freeifaddrs");
    let mut list = list;
    let next = NEXT.address();
    // SAFETY: the caller has the list from `getifaddrs`, and the next function of this name has
    // this type.
    unsafe {
        free(cut(&mut list));
        if !list.is_null() && !next.is_null() {
            core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut ifaddrs)>(next)(list);
        }
    }
}
