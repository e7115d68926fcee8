//! Where things lie in the memory of one life of a queue pair, and what they hold.

use crate::packet::Cell;
use crate::rng::mix;
use crate::schedule::{CELLS_MAX, FLAGS, OPS_MAX};

/// Cells per message slot.
const STRIDE: usize = CELLS_MAX as usize;
/// The cell that FETCH_ADD counts in.
pub const COUNTER: usize = FLAGS;
/// Constant data for READ.
pub const SOURCE: usize = COUNTER + 1;
/// Length of [`SOURCE`].
pub const SOURCE_LEN: usize = 2 * STRIDE;
/// Receive buffers, one per SSN.
const RECEIVE: usize = SOURCE + SOURCE_LEN;
/// Targets of WRITEs, one per message.
const WRITE: usize = RECEIVE + OPS_MAX * STRIDE;
/// Length of all, with a guard behind.
pub const LEN: usize = WRITE + OPS_MAX * STRIDE + 2;
/// Length of a requester's local memory.
pub const LOCAL_LEN: usize = OPS_MAX * STRIDE;

/// A cell that nobody has written.
pub const UNTOUCHED: Cell = 0x5555_5555_5555_5555;
/// What an application writes over a message that it has taken.
pub const TAKEN: Cell = 0x7a7a_7a7a_7a7a_7a7a;

/// Receive buffer number `n`.
#[must_use]
pub const fn receive_buffer(n: usize) -> usize {
    RECEIVE + n % OPS_MAX * STRIDE
}

/// Target of WRITE number `n`.
#[must_use]
pub const fn write_target(n: usize) -> usize {
    WRITE + n * STRIDE
}

/// Local buffer of message `n`.
#[must_use]
pub const fn local_buffer(n: usize) -> usize {
    n * STRIDE
}

/// Cell `offset` of message `n` of the life `tag`.
#[must_use]
pub fn payload(tag: u64, n: usize, offset: u32) -> Cell {
    mix(tag ^ ((n as u64) << 20) ^ u64::from(offset))
}

/// Constant cell at `addr`.
#[must_use]
pub fn constant(tag: u64, addr: usize) -> Cell {
    mix(!tag ^ addr as u64)
}

/// Memory at the start of life `tag`.
#[must_use]
pub fn fresh(tag: u64) -> Vec<Cell> {
    let mut cells = vec![UNTOUCHED; LEN];
    cells[..SOURCE].fill(0);
    for (addr, cell) in cells.iter_mut().enumerate().skip(SOURCE).take(SOURCE_LEN) {
        *cell = constant(tag, addr);
    }
    cells
}
