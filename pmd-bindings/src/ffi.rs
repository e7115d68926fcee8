//! The generated bindings. Everything here is `unsafe`; the rest of the crate is what makes it
//! safe.
#![expect(non_camel_case_types, reason = "generated from C headers")]
#![allow(
    dead_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated from C headers, differs between DPDK releases"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
