//! Child processes that do not outlive us, and pairs of them: a server and its client.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;

/// How long one of a pair may take to end once the other has.
const GRACE: Duration = Duration::from_secs(30);
/// How long a process may take to say something that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often they are looked at.
const INTERVAL: Duration = Duration::from_millis(5);
/// Lines of a failed process's errors that are shown.
const LOG_LINES: usize = 20;

/// A process of ours. It ends when this is dropped.
pub struct Process {
    name: String,
    child: Child,
    /// What it writes to its standard error. Its output is not quoted: DPDK's comes late, and hides
    /// the cause.
    errors: PathBuf,
}

impl Process {
    /// Starts it, with its output and its errors in files of `dir` that are called after it.
    pub fn start(name: &str, mut command: Command, dir: &Path) -> Result<Self> {
        let create = |what: &str| {
            let file = dir.join(format!("{name}.{what}"));
            File::create(&file).map_err(|e| Error::io("create", &file, &e)).map(|open| (open, file))
        };
        let (out, _) = create("out")?;
        let (err, errors) = create("err")?;
        // A group of its own: Ctrl-C at the terminal reaches only us, and we end it in order.
        let child = command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child =
            child.map_err(|e| Error(format!("cannot start {}: {e}", command.get_program().display())))?;
        Ok(Self { name: name.to_owned(), child, errors })
    }

    /// How it ended; `None` while it runs.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|e| Error(format!("cannot wait for {}: {e}", self.name)))
    }

    /// Waits until it has said `text` on standard error.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !fs::read(&self.errors).is_ok_and(|said| String::from_utf8_lossy(&said).contains(text)) {
            interrupt::check()?;
            if self.is_done()? || Instant::now() > deadline {
                return Err(self.failed(&format!("did not say `{text}`")));
            }
            sleep(INTERVAL);
        }
        Ok(())
    }

    /// Returns `true` if it ended well; an error if it ended otherwise.
    pub fn is_done(&mut self) -> Result<bool> {
        match self.status()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(self.failed(&format!("failed: {status}"))),
        }
    }

    /// Waits until it ends, well or not, `limit` at most.
    pub fn end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            interrupt::check()?;
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(self.failed("does not come to an end"));
            }
            sleep(INTERVAL);
        }
    }

    /// Waits until it ended well, `limit` at most.
    pub fn finish(&mut self, limit: Duration) -> Result<()> {
        self.end(limit)?;
        self.is_done().map(drop)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn failed(&self, how: &str) -> Error {
        let log = fs::read(&self.errors).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        Error(format!("`{}` {how}; the last that it said:\n  {}", self.name, last.join("\n  ")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both do nothing to a process that has been waited for, so no other process can be hit by
        // its id.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Watches two processes until both ended well, within `limit`; the first error of either is the
/// outcome.
pub fn watch(server: &mut Process, client: &mut Process, limit: Duration) -> Result<()> {
    let mut deadline = Instant::now() + limit;
    let mut client_done = false;
    loop {
        interrupt::check()?;
        let server_done = server.is_done()?;
        if !client_done && client.is_done()? {
            client_done = true;
            deadline = deadline.min(Instant::now() + GRACE);
        }
        if server_done && client_done {
            return Ok(());
        }
        if Instant::now() > deadline {
            let late = if client_done { server } else { client };
            return Err(late.failed("does not come to an end"));
        }
        sleep(INTERVAL);
    }
}

/// Watches a process until it ended well, within `limit`.
pub fn watch_one(process: &mut Process, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !process.is_done()? {
        interrupt::check()?;
        if Instant::now() > deadline {
            return Err(process.failed("does not come to an end"));
        }
        sleep(INTERVAL);
    }
    Ok(())
}

/// A TCP port that was free just now.
pub fn free_port() -> Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|e| Error(format!("there is no free TCP port on 127.0.0.1: {e}")))
}
