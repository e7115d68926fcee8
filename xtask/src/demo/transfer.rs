//! One run: a receiving and a sending process over a memif socket, watched until both are done.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::interrupt;
use super::outcome::Counts;
use crate::error::{Error, Result};

/// How long a receiver may take to finish once its sender is done.
const RECEIVER_GRACE: Duration = Duration::from_secs(30);
/// How often the two are looked at.
const INTERVAL: Duration = Duration::from_millis(10);
/// Lines of a failed process's errors that are shown.
const LOG_LINES: usize = 20;

/// What to send, and how.
pub struct Transfer<'a> {
    /// The program that sends and receives.
    pub tool: &'a Path,
    /// The file to send.
    pub source: &'a Path,
    /// Its length in bytes.
    pub size: u64,
    /// An empty directory for everything that the run leaves behind.
    pub dir: &'a Path,
    /// What the sender puts before its device: empty, or a `fault:..:` wrapper.
    pub wrapper: &'a str,
}

impl Transfer<'_> {
    /// Where the received file is.
    pub fn received(&self) -> PathBuf {
        self.dir.join("received")
    }

    /// Runs both processes to their end. On every way out of here they are gone.
    pub fn run(&self) -> Result<Counts> {
        let port = free_port()?.to_string();
        let socket = self.dir.join("memif").display().to_string();
        let mut receiver = self.start("recv", &format!("memif:{socket},role=server"), &port)?;
        let mut sender = self.start("send", &format!("{}memif:{socket},role=client", self.wrapper), &port)?;
        self.watch(&mut receiver, &mut sender)?;
        Counts::read(&self.json("send"))
    }

    fn json(&self, verb: &str) -> PathBuf {
        self.dir.join(format!("{verb}.json"))
    }

    fn start(&self, verb: &'static str, device: &str, port: &str) -> Result<Process> {
        let (option, file) =
            if verb == "recv" { ("--out", self.received()) } else { ("--in", self.source.to_path_buf()) };
        let mut command = Command::new(self.tool);
        command.args([verb, "-d", device, "--port", port, option]).arg(file);
        command.arg("--json").arg(self.json(verb));
        Process::start(verb, command, self.dir)
    }

    fn watch(&self, receiver: &mut Process, sender: &mut Process) -> Result<()> {
        // Far more than it takes at the slowest rate that is of any use, 4 MB/s.
        let mut deadline = Instant::now() + Duration::from_secs(120 + self.size / 4_000_000);
        let mut sender_done = false;
        loop {
            interrupt::check()?;
            let receiver_done = receiver.is_done()?;
            if !sender_done && sender.is_done()? {
                sender_done = true;
                deadline = deadline.min(Instant::now() + RECEIVER_GRACE);
            }
            if receiver_done && sender_done {
                return Ok(());
            }
            if Instant::now() > deadline {
                let late = if sender_done { receiver } else { sender };
                return Err(late.failed("does not come to an end"));
            }
            sleep(INTERVAL);
        }
    }
}

/// A port that was free just now.
fn free_port() -> Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|e| Error(format!("there is no free TCP port on 127.0.0.1: {e}")))
}

/// A process of ours. It ends when this is dropped.
struct Process {
    verb: &'static str,
    child: Child,
    /// What it writes to its standard error. Its output is not quoted: DPDK's comes late, and hides the cause.
    errors: PathBuf,
}

impl Process {
    /// Starts it, with its output and its errors in files of `dir`.
    fn start(verb: &'static str, mut command: Command, dir: &Path) -> Result<Self> {
        let create = |what: &str| {
            let file = dir.join(format!("{verb}.{what}"));
            File::create(&file).map_err(|e| Error::io("create", &file, &e)).map(|open| (open, file))
        };
        let (out, _) = create("out")?;
        let (err, errors) = create("err")?;
        // A group of its own: Ctrl-C at the terminal reaches only us, and we end it in order.
        let child = command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child =
            child.map_err(|e| Error(format!("cannot start {}: {e}", command.get_program().display())))?;
        Ok(Self { verb, child, errors })
    }

    /// Whether it ended well; an error if it ended otherwise.
    fn is_done(&mut self) -> Result<bool> {
        let status: Option<ExitStatus> =
            self.child.try_wait().map_err(|e| Error(format!("cannot wait for {}: {e}", self.verb)))?;
        match status {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(self.failed(&format!("failed: {status}"))),
        }
    }

    fn failed(&self, how: &str) -> Error {
        let log = fs::read(&self.errors).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        Error(format!("`{}` {how}; the last that it said:\n  {}", self.verb, last.join("\n  ")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both do nothing to a process that has been waited for, so no other process can be hit by its id.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
