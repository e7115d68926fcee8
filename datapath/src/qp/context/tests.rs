use super::*;
use core::mem::MaybeUninit;

/// Growth of a queue pair is seen where it is made: this many bytes, times the number of queue pairs.
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
    sched                 2
    tx                   40
    req                  24
    rx                   20
    rsp                  48
    controller           40
    template             56
    QPC                 256
    cold                704
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
    let zeros = MaybeUninit::<Option<QpCold>>::zeroed();
    // SAFETY: of an Option of the size of what it may hold, one of its fields that spares values says that there is none. If that is
    // `present`, as this test is for, zeros are no queue pair; nothing else of them is looked at.
    assert!(unsafe { zeros.assume_init_ref() }.is_none());
}
