//! A pseudo terminal with a program in it.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use vt100::{Parser, Screen};

/// Far longer than anything here takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(100);

/// Terminals pass over it.
const MARK: u8 = 0;

/// A terminal, what it shows, and the program in it, which does not outlive its test.
pub struct Pty {
    master: File,
    slave: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    shown: Parser,
}

impl Pty {
    /// Starts `command` in a terminal of 80 columns and 24 rows, as if a person had.
    pub fn start(command: &Command) -> Self {
        let master = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let open = File::options().read(true).write(true).open(OsStr::from_bytes(name.to_bytes()));
        let slave = open.expect("it can be opened");
        set_size(&master, 24, 80);
        let stdio = || slave.try_clone().expect("a descriptor");
        // The terminal is to be the session's own: there may be another one around the test.
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        session.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        session.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        session.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = session.spawn().expect("it starts");
        let output = read(master.try_clone().expect("a descriptor"));
        Self { master, slave, child, output, shown: Parser::new(24, 80, 0) }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("our terminal");
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.shown.screen_mut().set_size(rows, columns);
        set_size(&self.master, rows, columns);
    }

    /// Waits until the terminal shows what `is` looks for.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, is: impl Fn(&Screen) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is(self.shown.screen()) {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.shown.process(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("never {what}:\n{}", self.shown.screen().contents())
                }
            }
        }
    }

    /// Waits until the terminal shows `text`.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    /// Sends a signal, as `kill` does.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let kill = Command::new("sh").args(["-c", "kill \"$@\"", "sh", name, &id]).status();
        assert!(kill.expect("a shell runs").success());
    }

    /// Waits for the program's end, and returns its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LIMIT;
        loop {
            // Who does not read holds up who writes.
            while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(10)) {
                self.shown.process(&bytes);
            }
            if let Some(status) = self.child.try_wait().expect("our child") {
                self.read_all();
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.shown.screen().contents());
        }
    }

    /// Reads what a program that has ended left in the terminal, by a mark behind it that shows
    /// nothing.
    fn read_all(&mut self) {
        self.slave.write_all(&[MARK]).expect("our terminal");
        while let Ok(bytes) = self.output.recv_timeout(LIMIT) {
            self.shown.process(&bytes);
            if bytes.contains(&MARK) {
                return;
            }
        }
    }

    /// The terminal is as a shell wants it: it echoes, takes lines, shows its cursor, and is not in
    /// the alternate screen.
    pub fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.slave).expect("a terminal").local_modes;
        let screen = self.shown.screen();
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
            && !screen.alternate_screen()
            && !screen.hide_cursor()
    }

    /// What is on the terminal.
    pub fn screen(&self) -> &Screen {
        self.shown.screen()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(master: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).expect("a terminal");
}

/// What comes out of the terminal, read by a thread that ends with the terminal.
fn read(mut master: File) -> Receiver<Vec<u8>> {
    let (sender, output) = channel();
    thread::spawn(move || {
        let mut block = [0; 4096];
        while let Ok(count @ 1..) = master.read(&mut block) {
            if sender.send(block[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    output
}
