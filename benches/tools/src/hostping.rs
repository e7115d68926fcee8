//! Whether a host is fit for a device that polls: `srnic hostping --preflight`.

mod host;
mod preflight;
#[cfg(test)]
mod tests;
pub mod tool;
