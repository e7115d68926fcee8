//! Ctrl-C, SIGTERM and SIGHUP: what starts processes stops where it is, and cleans up.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// From now on the signals are remembered instead of ending the process at once.
pub fn catch() -> Result<()> {
    // Relaxed: a flag of its own, which guards no other memory.
    match ctrlc::set_handler(|| CAUGHT.store(true, Ordering::Relaxed)) {
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(e) => Err(Error(format!("cannot catch Ctrl-C: {e}"))),
    }
}

/// An error once a signal came. Whatever takes long asks this every few milliseconds.
pub fn check() -> Result<()> {
    if CAUGHT.load(Ordering::Relaxed) {
        return Err(Error::new("interrupted; its processes are ended and its files removed"));
    }
    Ok(())
}
