//! A slow path behind rings, run by the rig or by a thread.

use super::{Rig, SlowPathDriver};
use crate::network::NodeId;
use crate::port::SimPort;
use datapath::engine::{ConfigError, Engine, EngineConfig};
use datapath::time::Time;
use sr_recovery::thread::{self, Worker};

/// A worker that the rig runs.
pub(super) struct LateWorker {
    worker: Worker,
    every_ns: u64,
    next_at: Time,
}

/// An engine, and the worker of its slow path if the rig is to run it.
pub(super) fn engine_with(
    driver: SlowPathDriver,
    port: SimPort,
    config: EngineConfig,
) -> Result<(Engine<SimPort>, Option<LateWorker>), ConfigError> {
    if driver == SlowPathDriver::Stepped {
        return Ok((Engine::new(port, config)?, None));
    }
    let (remote, worker) = thread::pair(config.slow_path());
    let engine = Engine::with_slow_path(port, config, remote)?;
    let late = match driver {
        SlowPathDriver::Late(every_ns) => Some(LateWorker { worker, every_ns, next_at: Time::ZERO }),
        _ => {
            std::thread::spawn(|| worker.run());
            None
        }
    };
    Ok((engine, late))
}

impl Rig {
    /// From now on the slow path of a node works every so many nanoseconds; the first time that
    /// much later.
    ///
    /// # Panics
    /// If the rig does not run it ([`SlowPathDriver::Late`]).
    pub fn set_slow_path_period(&mut self, node: NodeId, every_ns: u64) {
        let now = self.now;
        let late = self.nodes[node.0].slow_path.as_mut().expect("the rig runs the slow path");
        (late.every_ns, late.next_at) = (every_ns, now.after(every_ns));
    }

    /// Lets the slow path of a node work if its time has come.
    pub(super) fn run_slow_path(&mut self, node: NodeId) {
        let now = self.now;
        if let Some(late) = self.nodes[node.0].slow_path.as_mut().filter(|late| now >= late.next_at) {
            late.worker.work();
            late.next_at = now.after(late.every_ns);
        }
    }
}
