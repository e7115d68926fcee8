//! The guest: QEMU with a serial line, and a shell at its other end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::namespace::{GUEST_IP, GUEST_IP6, GUEST_MAC, HOST_IP, HOST_MAC, MTU, Namespace, TAP};
use crate::error::{Error, Result};
use crate::interrupt;

/// Longest time to boot, on a machine that is busy with other things.
const BOOT: Duration = Duration::from_secs(180);
/// Longest time until the guest has said how a command ended, by the host's clock: that of a guest
/// whose kernel measured it while the machine was busy has been seen to run at twice its speed.
const ANSWER: Duration = Duration::from_secs(180);
/// What the guest says once a command listens.
const LISTENS: &str = "@@listens";
/// How often a Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// A guest that was booted. It ends when this is dropped.
pub struct Guest {
    qemu: Child,
    keyboard: ChildStdin,
    screen: Receiver<String>,
}

/// What a guest is booted of.
pub struct Parts<'a> {
    pub namespace: &'a Namespace,
    pub kernel: &'a Path,
    pub image: &'a Path,
    /// Where QEMU's errors go.
    pub place: &'a Path,
}

impl Guest {
    /// Boots the guest on the namespace's tap.
    pub fn boot(parts: &Parts<'_>) -> Result<Self> {
        let Parts { namespace, kernel, image, place } = *parts;
        let mut command = namespace.command(Path::new("nice"));
        command.arg("qemu-system-x86_64");
        // Software emulation: where there is a /dev/kvm at all, the stock kernel has been seen to
        // hang under it.
        command.args("-accel tcg -cpu max -machine q35 -m 512 -smp 1 -display none".split(' '));
        command.args("-nodefaults -no-reboot -serial stdio".split(' '));
        command.arg("-kernel").arg(kernel).arg("-initrd").arg(image).arg("-append").arg(format!(
            "console=ttyS0 quiet loglevel=1 mitigations=off panic=-1 tsc=reliable no_timer_check srnic.address={GUEST_IP} srnic.address6={GUEST_IP6} \
             srnic.mtu={MTU} srnic.host={HOST_IP} srnic.host_mac={HOST_MAC}"
        ));
        let netdev = format!("tap,id=n0,ifname={TAP},script=no,downscript=no");
        let device = format!("virtio-net-pci,netdev=n0,mac={GUEST_MAC},romfile=,host_mtu=9000");
        command.args(["-netdev", &netdev, "-device", &device]);
        let errors = place.join("qemu.err");
        let log = std::fs::File::create(&errors).map_err(|e| Error::io("create", &errors, &e))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut qemu = command.spawn().map_err(|e| Error(format!("cannot start QEMU: {e}")))?;
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
        let mut guest = Self { qemu, keyboard, screen };
        let said = guest.wait_for("@@ready", BOOT)?;
        println!(
            "the guest is up, its rxe0 in state{}",
            said.last().map_or("", |last| &last["@@ready".len()..])
        );
        Ok(guest)
    }

    /// Starts a command in the guest.
    pub fn begin(&mut self, command: &str) -> Result<()> {
        println!("guest: {command}");
        self.type_in(command)
    }

    /// Starts a command in the guest that waits for connections of the connection manager's, and
    /// waits until it does.
    pub fn begin_listening(&mut self, command: &str) -> Result<()> {
        println!("guest: {command}");
        self.type_in(&format!(
            "{command} & until rdma resource show cm_id | grep -q LISTEN; do kill -0 $! || break; done; \
             printf '\\n{LISTENS}\\n'; wait $!"
        ))?;
        self.wait_for(LISTENS, ANSWER).map(drop)
    }

    /// Gives the shell a line whose output ends with `@@end` and its exit status.
    fn type_in(&mut self, line: &str) -> Result<()> {
        let line = format!("{{ {line} ; }} < /dev/null 2>&1 ; printf '\\n@@end %s\\n' $?\n");
        let typed = self.keyboard.write_all(line.as_bytes()).and_then(|()| self.keyboard.flush());
        typed.map_err(|e| {
            let said: Vec<String> = self.screen.try_iter().collect();
            Error(format!("the guest's serial line: {e}; the guest said last:\n{}", said.join("\n")))
        })
    }

    /// Waits for the successful end of the command; returns what it said.
    pub fn end(&mut self) -> Result<String> {
        let mut said = self.wait_for("@@end", ANSWER)?;
        let end = said.pop().unwrap_or_default();
        let text = said.join("\n");
        if end.trim() == "@@end 0" {
            return Ok(text);
        }
        Err(Error(format!("in the guest, the tool said, up to its exit status:\n{text}\n{end}")))
    }

    /// All lines up to the one that begins with `word`.
    fn wait_for(&mut self, word: &str, limit: Duration) -> Result<Vec<String>> {
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
                        RecvTimeoutError::Timeout => format!("the guest does not say `{word}`"),
                        RecvTimeoutError::Disconnected => "the guest has ended".to_owned(),
                    };
                    return Err(Error(format!("{what}; it said:\n{}", said.join("\n"))));
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
