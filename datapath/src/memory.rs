//! Memory regions, the rkey table (the paper's MTT), access checks, and the only place where
//! payload bytes move.

mod access;
mod budget;
mod copy;
mod region;
mod sge;
mod table;

pub use access::Access;
pub use budget::MemoryBudget;
pub use region::{Backing, HeapBacking, Mapped};
pub use sge::Sge;
pub use table::{
    AccessError, BindError, Binding, MemoryKey, MemoryTable, MemoryTableFull, ProtectionDomainId,
    RegisterError, WindowType,
};

#[cfg(test)]
mod tests;
