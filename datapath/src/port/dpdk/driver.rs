//! The interface to a port of DPDK, or to one of its queues.

use std::time::Instant;

use dpdk_sys::{Burst, EthPort, EthQueue, EthStats, Mempool, NoLink, PortError, Reconnect};

/// A queue each way, and what is known of its link.
pub trait Driver {
    /// The pool that it receives into.
    fn pool(&self) -> &Mempool;

    /// Returns `true` if frames can pass.
    fn link_up(&self) -> bool;

    /// Why they cannot; `None` if they can.
    fn no_link(&self) -> Option<NoLink>;

    /// Does what is due for the link. Returns whether frames can pass then.
    fn tend(&mut self) -> bool;

    /// Lets frames for these multicast addresses through, in place of those named before.
    ///
    /// # Errors
    /// [`PortError`].
    fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), PortError>;

    /// What it counts of frames that never come here.
    fn stats(&self) -> EthStats;

    /// Frees what `burst` holds and receives up to `most` frames into it; how many.
    fn rx_burst<const N: usize>(&mut self, most: usize, burst: &mut Burst<N>) -> usize;

    /// Sends from the front of `burst` what the ring takes; how many frames.
    fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize;
}

/// A port, by its own queue.
#[derive(Debug)]
pub struct Whole {
    pub(super) eth: EthPort,
    /// For the client of a shared-memory pair.
    pub(super) reconnect: Option<Reconnect>,
}

impl Driver for Whole {
    fn pool(&self) -> &Mempool {
        self.eth.pool()
    }

    fn link_up(&self) -> bool {
        self.eth.link_up()
    }

    fn no_link(&self) -> Option<NoLink> {
        self.eth.no_link(self.reconnect.as_ref())
    }

    /// The client of a shared-memory pair looks for its server; a NIC that leaves is given back.
    fn tend(&mut self) -> bool {
        match &mut self.reconnect {
            // A port that cannot be stopped has no link; the next look tries again.
            Some(reconnect) => reconnect.tend(&mut self.eth, Instant::now()).unwrap_or(false),
            None => {
                self.eth.release_removed();
                self.eth.link_up()
            }
        }
    }

    fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), PortError> {
        self.eth.join(macs)
    }

    /// A driver that cannot say counts nothing.
    fn stats(&self) -> EthStats {
        self.eth.stats().unwrap_or_default()
    }

    #[inline]
    fn rx_burst<const N: usize>(&mut self, most: usize, burst: &mut Burst<N>) -> usize {
        self.eth.rx_burst_of(most, burst)
    }

    #[inline]
    fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        self.eth.tx_burst(burst)
    }
}

impl Driver for EthQueue {
    fn pool(&self) -> &Mempool {
        self.pool()
    }

    fn link_up(&self) -> bool {
        self.link_up()
    }

    fn no_link(&self) -> Option<NoLink> {
        (!self.link_up()).then_some(NoLink::FurtherQueue)
    }

    /// Who has the port looks after the link.
    fn tend(&mut self) -> bool {
        self.link_up()
    }

    /// Only memifs have further queues, and they filter nothing.
    fn set_groups(&mut self, _macs: &[[u8; 6]]) -> Result<(), PortError> {
        Ok(())
    }

    /// Those of the driver are the port's.
    fn stats(&self) -> EthStats {
        EthStats::default()
    }

    #[inline]
    fn rx_burst<const N: usize>(&mut self, most: usize, burst: &mut Burst<N>) -> usize {
        self.rx_burst_of(most, burst)
    }

    #[inline]
    fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        self.tx_burst(burst)
    }
}
