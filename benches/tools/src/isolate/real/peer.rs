//! The process of host 1.

use crate::error::{Error, Result};
use crate::two_hosts::{open, serve};
use srnic_workload::isolate::Policy;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use verbs_api::Role;

/// The process of a host 1. It ends with this value, or with this process.
pub struct Peer(Child);

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn start(socket: &Path, policy: Option<&Policy>) -> Result<Self> {
        let program = std::env::current_exe().map_err(Error::file("find", Path::new("/proc/self/exe")))?;
        let mut command = Command::new(&program);
        // It may have been started by a link that is another tool.
        command.env_remove("SRNIC_LOG").arg("isolate").arg("--peer").arg(socket);
        if let Some(policy) = policy {
            command.arg("--policy").arg(policy.text());
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        child.map(Self).map_err(Error::file("start", &program))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves until the process that started this one is gone.
///
/// # Errors
/// [`Error::Verbs`].
pub fn answer(socket: &Path, policy: Option<&Policy>) -> Result<()> {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        // Nobody writes: it is the end of who started us.
        let _ = std::io::stdin().read(&mut [0]);
        IS_OVER.store(true, Ordering::Relaxed);
    });
    let device = open(&format!("memif:{}", socket.display()), Role::Server, policy)?;
    serve(&device, policy, &IS_OVER)
}
