//! The switch on real ports and in real time.

use super::{PortSpec, Switch};
use datapath::port::dpdk::DpdkPort;
use datapath::port::fault::Fault;
use datapath::port::{Interrupt, Port};
use std::time::Instant;
use verbs_api::{Backoff, Error, Idle, PortDriver, Time, Transport, open_memif, open_packet, open_port};

/// Between two looks at who was turned away, in nanoseconds.
const NEWS_INTERVAL_NS: u64 = 250_000_000;
/// Turns between two looks at whether to stop, at most.
const LOOK_INTERVAL: u32 = 256;

impl PortSpec {
    /// Opens the port. A memif needs no DPDK for that, and neither does a packet socket, unless
    /// that is asked for. An interface takes in frames for whoever is behind the switch.
    ///
    /// # Errors
    /// Those of [`open_memif`], [`open_packet`] and [`open_port`].
    pub fn open(&self) -> Result<Box<dyn Port + Send>, Error> {
        match self.device.transport {
            Transport::Memif { .. } => return Ok(self.with_faults(open_memif(&self.device)?)),
            Transport::AfPacket { driver: PortDriver::Native, .. } => {
                return Ok(self.with_faults(open_packet(&self.device)?));
            }
            _ => {}
        }
        let mut open = open_port(&self.device)?;
        if self.device.role()?.is_none() {
            open.eth.set_promiscuous()?;
        }
        Ok(self.with_faults(DpdkPort::over(open)))
    }

    fn with_faults(&self, port: impl Port + Send + 'static) -> Box<dyn Port + Send> {
        match &self.device.faults {
            Some(faults) => Box::new(Fault::new(port, faults)),
            None => Box::new(port),
        }
    }
}

impl Switch {
    /// Turn after turn, until `stop` says so; with nothing to do it gives its processor to others,
    /// and sleeps at last. `tell` hears why a host was turned away.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool, mut tell: impl FnMut(&str)) {
        let start = Instant::now();
        let now = || Time(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut idle = Idle::new(now());
        let mut news_at = Time::ZERO;
        while !stop() {
            self.attach_arrived();
            let at = now();
            if at >= news_at {
                news_at = at.after(NEWS_INTERVAL_NS);
                self.turned_away().iter().for_each(|why| tell(why));
            }
            for _ in 0..LOOK_INTERVAL {
                let at = now();
                let turn = self.turn(at);
                if turn.received > 0 {
                    idle.busy(at);
                    continue;
                }
                match idle.backoff(at, turn.next_due) {
                    Backoff::Spin => std::hint::spin_loop(),
                    Backoff::Yield => idle.yield_now(),
                    Backoff::Sleep(usual) => {
                        let (interrupts, limit) = self.rest(usual, at, turn.next_due);
                        Interrupt::wait_any(&interrupts.iter().collect::<Vec<_>>(), limit);
                        // Long enough for a look.
                        break;
                    }
                }
            }
        }
    }
}
