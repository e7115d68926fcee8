use super::*;
use crate::qp::flags::QpFlags;
use core::mem::MaybeUninit;

/// Growth of a queue pair is seen where it is made: this many bytes, times the number of queue
/// pairs.
#[test]
fn sizes() {
    macro_rules! sizes {
        ($($name:literal: $type:ty,)+) => {
            [$(format!("{:18} {:4}\n", $name, size_of::<$type>())),+].concat()
        };
    }
    let sizes = sizes! {
        "id": QpIdentity,
        "sched": SchedFlags,
        "flags": QpFlags,
        "tx": TxStream,
        "req": RequesterCursor,
        "rx": RxStream,
        "rsp": ResponderCursor,
        "controller": Controller,
        "template": Template,
        "QPC": Qpc,
        "cold": QpCold,
        "send queue entry": SqEntry,
    };
    insta::assert_snapshot!(sizes, @"
    id                   20
    sched                 1
    flags                 1
    tx                   40
    req                  24
    rx                   20
    rsp                  48
    controller           40
    template             56
    QPC                 256
    cold                768
    send queue entry     16
    ");
    assert!(size_of::<Qpc>() <= HOT_BYTES_MAX);
    assert_eq!(align_of::<Qpc>(), 64, "whole cache lines");
}

/// Whoever asks whether there is a queue pair has its first cache line fetched, and no other.
#[test]
fn the_first_line_says_whether_there_is_one() {
    assert!(offset_of!(QpCold, present) + size_of::<Present>() <= 64);
    assert_eq!(size_of::<Option<QpCold>>(), size_of::<QpCold>());
    let mut bytes = MaybeUninit::<Option<QpCold>>::uninit();
    let start = bytes.as_mut_ptr().cast::<u8>();
    let at = offset_of!(QpCold, present);
    // SAFETY: all bytes are of the value, and those of the field among them.
    unsafe {
        start.write_bytes(0xFF, size_of::<QpCold>());
        start.add(at).write_bytes(0, size_of::<Present>());
    }
    // SAFETY: one of the fields that spare values says that there is none. If that is `present`, as
    // this test is for, there is none now, whatever the other bytes are; they are not looked at.
    assert!(unsafe { bytes.assume_init_ref() }.is_none());
}
