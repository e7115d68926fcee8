//! Tests that both drivers must pass.

/// Each test twice: with engines that whoever polls drives, and with engines that have a thread.
#[macro_export]
macro_rules! with_both_drivers {
    ($($(#[$attribute:meta])* fn $name:ident($driver:ident: Driver) $body:block)+) => {
        $($(#[$attribute])* fn $name($driver: Driver) $body)+

        mod inline {
            $(#[test] fn $name() { super::$name(super::Driver::Inline); })+
        }

        mod thread {
            $(#[test] fn $name() { super::$name(super::Driver::THREAD); })+
        }
    };
}
