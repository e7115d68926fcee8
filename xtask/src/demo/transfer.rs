//! One run: a receiving and a sending process over a memif socket, watched until both are done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::outcome::Counts;
use crate::error::Result;
use crate::process::{Process, free_port, watch};
use crate::tools::Tools;

/// What to send, and how.
pub struct Transfer<'a> {
    /// With the one that sends and receives.
    pub tools: &'a Tools,
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
        // Far more than it takes at the slowest rate that is of any use, 4 MB/s.
        let limit = Duration::from_secs(120 + self.size / 4_000_000);
        watch(&mut receiver, &mut sender, limit)?;
        Counts::read(&self.json("send"))
    }

    fn json(&self, verb: &str) -> PathBuf {
        self.dir.join(format!("{verb}.json"))
    }

    fn start(&self, verb: &'static str, device: &str, port: &str) -> Result<Process> {
        let (option, file) =
            if verb == "recv" { ("--out", self.received()) } else { ("--in", self.source.to_path_buf()) };
        let mut command = self.tools.command("file");
        command.args([verb, "-d", device, "--port", port, option]).arg(file);
        command.arg("--json").arg(self.json(verb));
        Process::start(verb, command, self.dir)
    }
}
