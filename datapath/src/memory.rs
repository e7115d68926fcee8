//! Memory regions and what their keys allow.

mod access;

pub use access::Access;
