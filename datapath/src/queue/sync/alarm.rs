//! What wakes the thread that drives an engine.

use core::time::Duration;
use memif::Interrupt;
use std::io;
use std::sync::OnceLock;

/// An interrupt of our own, once somebody may wait for it. Waiting for it and for that of a port is
/// one system call.
pub struct Alarm(OnceLock<Interrupt>);

impl Alarm {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// To be called before the others do anything.
    pub fn prepare(&self) -> io::Result<()> {
        let interrupt = Interrupt::new()?;
        self.0.get_or_init(|| interrupt);
        Ok(())
    }

    /// Ends the wait that is under way, or the next one.
    pub fn ring(&self) {
        if let Some(interrupt) = self.0.get() {
            interrupt.raise();
        }
    }

    /// Waits until it rings or the port does, `limit` at most. May end for no reason.
    pub fn wait(&self, port: Option<&Interrupt>, limit: Duration) {
        let Some(own) = self.0.get() else { return };
        match port {
            Some(port) => Interrupt::wait_any(&[own, port], limit),
            None => Interrupt::wait_any(&[own], limit),
        }
    }
}
