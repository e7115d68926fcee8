//! Guests: QEMU with a serial line, and a shell at its other end.
//!
//! What they are made of is Debian's: a kernel and programs out of packages that are unpacked, and
//! not installed.

mod cpio;
pub mod image;
pub mod packages;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::repo::find;

/// Longest time to boot, on a machine that is busy with other things.
const BOOT: Duration = Duration::from_secs(180);
/// Longest time until the guest has said how a command ended, by the host's clock: that of a guest
/// whose kernel measured it while the machine was busy has been seen to run at twice its speed.
pub const ANSWER: Duration = Duration::from_secs(180);
/// How often a Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(200);
/// What the guest's init says last.
const READY: &str = "@@ready";
/// What stands before the exit status of a command.
const END: &str = "@@end";
const QEMU: &str = "qemu-system-x86_64";

/// A guest that was started. It ends when this is dropped.
pub struct Guest {
    /// What messages call it.
    name: String,
    qemu: Child,
    keyboard: ChildStdin,
    screen: Receiver<String>,
}

/// Why no guest can run here; of `more` programs the first that is missing is named, too.
pub fn cannot_run(more: &[&str]) -> Option<String> {
    if std::env::consts::ARCH != "x86_64" {
        return Some("the guest is an x86-64 one".to_owned());
    }
    let needed = [QEMU, "busybox", "modprobe", "apt-get", "dpkg"];
    let missing = needed.iter().chain(more).find(|program| find(program).is_none());
    missing.map(|program| format!("the guest takes `{program}`; see `cargo xtask setup --interop`"))
}

/// What a guest is started by: `before` the emulator's name stands what starts it, or nothing.
/// `append` is for the kernel, and for init.
pub fn emulator(mut before: Command, kernel: &Path, image: &Path, append: &str) -> Command {
    before.arg(QEMU);
    // Software emulation: where there is a /dev/kvm at all, the stock kernel has been seen to
    // hang under it.
    before.args("-accel tcg -cpu max -smp 1 -display none -nodefaults -no-reboot -serial stdio".split(' '));
    before.arg("-kernel").arg(kernel).arg("-initrd").arg(image).arg("-append").arg(format!(
        "console=ttyS0 quiet loglevel=1 mitigations=off panic=-1 tsc=reliable no_timer_check {append}"
    ));
    before
}

impl Guest {
    /// Starts it; what QEMU says goes to the file `errors`.
    pub fn start(name: &str, mut emulator: Command, errors: &Path) -> Result<Self> {
        let log = File::create(errors).map_err(|e| Error::io("create", errors, &e))?;
        emulator.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut qemu = emulator.spawn().map_err(|e| Error(format!("cannot start QEMU: {e}")))?;
        let (Some(keyboard), Some(stdout)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(Error::new("QEMU has no serial line"));
        };
        let (line, screen) = channel();
        thread::spawn(move || {
            for text in BufReader::new(stdout).split(b'\n').map_while(std::result::Result::ok) {
                if line.send(String::from_utf8_lossy(&text).trim_end().to_owned()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { name: name.to_owned(), qemu, keyboard, screen })
    }

    /// Waits until it is up; returns what its init says then.
    pub fn booted(&mut self) -> Result<String> {
        let said = self.wait_for(READY, BOOT)?;
        Ok(said.last().map_or("", |last| &last[READY.len()..]).trim().to_owned())
    }

    /// Starts a command in the guest.
    pub fn begin(&mut self, command: &str) -> Result<()> {
        println!("{}: {command}", self.name);
        self.type_in(command)
    }

    /// Gives the shell a line whose output ends with [`END`] and its exit status.
    pub fn type_in(&mut self, line: &str) -> Result<()> {
        let line = format!("{{ {line} ; }} < /dev/null 2>&1 ; printf '\\n{END} %s\\n' $?\n");
        let typed = self.keyboard.write_all(line.as_bytes()).and_then(|()| self.keyboard.flush());
        typed.map_err(|e| {
            let said: Vec<String> = self.screen.try_iter().collect();
            Error(format!("the serial line of {}: {e}; it said last:\n{}", self.name, said.join("\n")))
        })
    }

    /// Waits for the end of the command; returns its exit status and what it said.
    pub fn outcome(&mut self) -> Result<(u8, String)> {
        let mut said = self.wait_for(END, ANSWER)?;
        let end = said.pop().unwrap_or_default();
        let status = end[END.len()..].trim().parse().map_err(|_| Error(format!("no exit status: {end}")))?;
        Ok((status, said.join("\n").trim().to_owned()))
    }

    /// Waits for the successful end of the command; returns what it said.
    pub fn end(&mut self) -> Result<String> {
        match self.outcome()? {
            (0, said) => Ok(said),
            (status, said) => Err(Error(format!("in {}, exit status {status}:\n{said}", self.name))),
        }
    }

    /// All lines up to the one that begins with `word`.
    pub fn wait_for(&mut self, word: &str, limit: Duration) -> Result<Vec<String>> {
        let deadline = Instant::now() + limit;
        let mut said = Vec::new();
        loop {
            interrupt::check()?;
            match self.screen.recv_timeout(LOOK) {
                Ok(line) => {
                    let found = line.starts_with(word);
                    said.push(line);
                    if found {
                        return Ok(said);
                    }
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(error) => {
                    let what = match error {
                        RecvTimeoutError::Timeout => format!("does not say `{word}`"),
                        RecvTimeoutError::Disconnected => "has ended".to_owned(),
                    };
                    return Err(Error(format!("{} {what}; it said:\n{}", self.name, said.join("\n"))));
                }
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
