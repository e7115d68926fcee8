//! Ctrl-C, SIGTERM and SIGHUP end a tool in order.

use crate::error::{Error, Result};
use crate::log;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// A tool, from its parsed command line to its end: signals end it in order, and a
/// person is told why it failed.
pub fn tool_main(run: impl FnOnce() -> Result<()>) -> ExitCode {
    match catch().and_then(|()| log::start()).and_then(|()| run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.show();
            error.exit_code()
        }
    }
}

/// A tool whose exit status is its verdict: 0 if all is well, 1 if something is not, 2 if it could
/// not be tried. Else as [`tool_main`].
pub fn verdict_main(run: impl FnOnce() -> Result<bool>) -> ExitCode {
    match catch().and_then(|()| log::start()).and_then(|()| run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            error.show();
            ExitCode::from(2)
        }
    }
}

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
