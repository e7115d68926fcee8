//! Tests that all drivers must pass.

/// Each test with engines that whoever polls drives, with engines that have a thread, and with
/// those that have both.
#[macro_export]
macro_rules! with_all_drivers {
    ($($(#[$attribute:meta])* fn $name:ident($driver:ident: Driver) $body:block)+) => {
        $($(#[$attribute])* fn $name($driver: Driver) $body)+

        mod inline {
            $(#[test] fn $name() { super::$name(super::Driver::Inline); })+
        }

        mod thread {
            $(#[test] fn $name() { super::$name(super::Driver::THREAD); })+
        }

        mod hybrid {
            $(#[test] fn $name() { super::$name(super::Driver::Hybrid); })+
        }
    };
}
