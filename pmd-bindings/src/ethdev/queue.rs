//! Further queues of a port, each for a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::burst::Burst;
use crate::gate::{Gate, Pass};
use crate::mempool::Mempool;
use crate::quiescent::Quiescent;
use crate::{ffi, lcore};

/// Queues each way of one port, at most.
pub const QUEUES_MAX: usize = 8;

/// What the further queues of a port have in common with it.
#[derive(Debug)]
pub(super) struct Shared {
    /// Open while the port is started. Who stops, starts or removes it closes the gate, which waits
    /// until all are out.
    gate: Gate<QUEUES_MAX>,
    quiescent: Option<&'static Quiescent>,
    /// DPDK's number of the port, while the gate is open.
    id: AtomicU16,
    /// As the port saw it last.
    link_up: AtomicBool,
}

impl Shared {
    pub(super) fn new(quiescent: Option<&'static Quiescent>) -> Self {
        let (id, link_up) = (AtomicU16::new(0), AtomicBool::new(false));
        Self { gate: Gate::closed(), quiescent, id, link_up }
    }

    /// The port of that number is started. For its owner, as all that follows.
    pub(super) fn open(&self, id: u16) {
        self.id.store(id, Ordering::Relaxed);
        self.gate.open();
    }

    /// Nobody is in the driver by way of a further queue any more.
    pub(super) fn close(&self) {
        self.gate.close();
        self.link_up.store(false, Ordering::Relaxed);
    }

    pub(super) fn note_link(&self, up: bool) {
        self.link_up.store(up, Ordering::Relaxed);
    }

    /// Keeps the port started, and EAL's interrupt thread out of the driver, while it lives.
    #[inline]
    fn try_pass(&self, queue: u16) -> Option<(Pass<'_>, Option<Pass<'static>>, u16)> {
        let pass = self.gate.try_pass(usize::from(queue))?;
        let id = self.id.load(Ordering::Relaxed);
        let held = match self.quiescent {
            Some(quiescent) => Some(quiescent.try_pass(id, queue)?),
            None => None,
        };
        Some((pass, held, id))
    }
}

/// A queue each way of a port, beside that of the [`EthPort`](super::EthPort) itself, which looks
/// after the link. When that is dropped nothing passes here any more. One thread at a time uses it.
#[derive(Debug)]
pub struct EthQueue {
    shared: Arc<Shared>,
    /// From 1 on, below [`QUEUES_MAX`]; no other handle has the same.
    queue: u16,
    pool: Mempool,
}

impl EthQueue {
    pub(super) fn new(shared: &Arc<Shared>, queue: u16, pool: &Mempool) -> Self {
        Self { shared: Arc::clone(shared), queue, pool: pool.clone() }
    }

    /// The pool that the port receives into.
    #[must_use]
    pub fn pool(&self) -> &Mempool {
        &self.pool
    }

    /// Returns `true` if frames could pass when the port looked last.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.shared.link_up.load(Ordering::Relaxed)
    }

    /// As [`EthPort::rx_burst_of`](super::EthPort::rx_burst_of).
    #[inline]
    pub fn rx_burst_of<const N: usize>(&mut self, most: usize, burst: &mut Burst<N>) -> usize {
        lcore::enter();
        let Some((_pass, _held, id)) = self.shared.try_pass(self.queue) else {
            burst.clear();
            return 0;
        };
        // SAFETY: the port is started and stays so while the pass lives, and the other one keeps
        // EAL's interrupt thread out; of this queue there is one handle, and it is borrowed. The
        // driver writes at most `n` live mbufs and returns how many.
        unsafe { burst.receive(most, |mbufs, n| ffi::pmd_rx_burst(id, self.queue, mbufs, n)) }
    }

    /// As [`EthPort::tx_burst`](super::EthPort::tx_burst).
    #[inline]
    pub fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        lcore::enter();
        let Some((_pass, _held, id)) = self.shared.try_pass(self.queue) else { return 0 };
        // SAFETY: as for rx_burst. The driver takes over the first mbufs and returns how many.
        unsafe { burst.transmit(|mbufs, n| ffi::pmd_tx_burst(id, self.queue, mbufs, n)) }
    }
}
