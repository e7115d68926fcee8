//! `SRNIC_LOG`: what a device tells of its control path, on standard error.

use crate::error::{Error, Result};
use std::io::stderr;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable.
const VARIABLE: &str = "SRNIC_LOG";

/// From now on devices are heard, if the environment asks for it: `SRNIC_LOG=debug`.
///
/// # Errors
/// [`Error::Options`] if that is no level.
pub fn start() -> Result<()> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let text = text.to_string_lossy();
    let level: LevelFilter = text.parse().map_err(|_| {
        Error::Options(format!("{VARIABLE}={text}: it is one of off, error, warn, info, debug, trace"))
    })?;
    tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).init();
    Ok(())
}
