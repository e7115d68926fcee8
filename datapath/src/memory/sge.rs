//! Names of ranges of local memory, as work requests give them.

/// A scatter-gather element, laid out as that of C (`ibv_sge`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Sge {
    /// First address, in the region's own address space (iova).
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Key of the local region.
    pub lkey: u32,
}
