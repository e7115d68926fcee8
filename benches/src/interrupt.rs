//! Ctrl-C, SIGTERM and SIGHUP end a tool in order.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// From now on the signals are remembered instead of ending the process at once.
///
/// # Errors
/// [`Error::Signals`].
pub fn catch() -> Result<()> {
    // Relaxed: a flag of its own, which guards no other memory.
    ctrlc::set_handler(|| CAUGHT.store(true, Ordering::Relaxed)).map_err(Error::Signals)
}

/// An error once a signal came.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn check() -> Result<()> {
    if CAUGHT.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}
