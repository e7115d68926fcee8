//! A network for programs that start several hosts of their own: a switch in a thread, with a memif
//! socket for each host.

use srnic_tools::affinity::stay_on;
use srnic_tools::error::{Error, Result};
use srnic_tools::switch::{PortSpec, Switch};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

/// The switch and its directory; both go when it is dropped.
pub struct Lan {
    dir: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lan {
    /// A switch for `hosts` hosts; `wrapper`, such as `fault:loss=1%:`, goes before each of its
    /// ports. It stays on processor `cpu`, if that is given.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Options`], and those of opening the ports.
    pub fn start(hosts: u8, wrapper: &str, cpu: Option<usize>) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("srnic-lan-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut lan = Self { dir, stop: Arc::clone(&stop), thread: None };
        let mut switch = Switch::default();
        for host in 1..=hosts {
            let text = format!("{wrapper}memif:{}", lan.socket(host).display());
            let spec: PortSpec = text.parse().map_err(|error| Error::Options(format!("{text}: {error}")))?;
            switch.attach(spec.open()?, spec.queue);
        }
        // Relaxed: a flag of its own, which guards no other memory.
        lan.thread = Some(thread::spawn(move || {
            if let Some(error) = cpu.and_then(|cpu| stay_on(cpu).err()) {
                eprintln!("the switch: {error}");
            }
            switch.run(|| stop.load(Ordering::Relaxed), |why| eprintln!("{why}"))
        }));
        Ok(lan)
    }

    /// A directory that lives as long as the network.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The device string of host 1, 2, ..
    #[must_use]
    pub fn device(&self, host: u8) -> String {
        format!("memif:{},role=client,ip=10.77.0.{host}", self.socket(host).display())
    }

    fn socket(&self, host: u8) -> PathBuf {
        self.dir.join(format!("{host}.sock"))
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it has shown itself; there is nothing to add.
            let _ = thread.join();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Processes of which none outlives this.
pub struct Children(pub Vec<Child>);

impl Children {
    /// Waits until all have ended well; with the first that does not, the others are killed.
    ///
    /// # Errors
    /// [`Error::Options`] if one failed.
    pub fn succeed(mut self) -> Result<()> {
        while !self.0.is_empty() {
            self.reap()?;
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Forgets those that have ended well. Does not wait.
    ///
    /// # Errors
    /// [`Error::Options`] if one failed.
    pub fn reap(&mut self) -> Result<()> {
        let mut failed = false;
        // Each is asked once: one that ends well between two looks has not failed.
        self.0.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(end)) if end.success() => false,
            _ => {
                failed = true;
                true
            }
        });
        if failed { Err(Error::Options("a process failed; see what it said".to_owned())) } else { Ok(()) }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may just have ended.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
