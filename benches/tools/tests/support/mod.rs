//! Two processes of our own, and what tests say of them.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Where Cargo has built `srnic` for a test of its package.
const PROGRAM: Option<&str> = option_env!("CARGO_BIN_EXE_srnic");

/// The program under test.
pub fn program() -> &'static str {
    PROGRAM.expect("a test of srnic-tools")
}

/// `srnic SUBCOMMAND`.
pub fn srnic(subcommand: &str) -> Command {
    let mut command = Command::new(program());
    command.arg(subcommand);
    command
}

/// Far longer than anything here takes, on a busy machine too.
pub const LIMIT: Duration = Duration::from_secs(100);

/// A directory and a TCP port of a test's own.
pub struct Place {
    dir: PathBuf,
    /// For the side channel.
    pub port: u16,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("srnic-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory of our own");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        Self { dir, port: free.expect("a free port").port() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// What a process wrote to a file here.
    pub fn json(&self, name: &str) -> serde_json::Value {
        let text = fs::read_to_string(self.path(name)).expect("it was written");
        serde_json::from_str(&text).expect("it is JSON")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A process that does not outlive its test.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("it starts")))
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        // The shell's own: a small system has no program of this name.
        let kill = Command::new("sh").args(["-c", "kill \"$@\"", "sh", name, &id]).status();
        assert!(kill.expect("a shell runs").success());
    }

    /// Waits until it says `text` on standard error. Returns what it has said since the last call.
    pub fn wait_for(&mut self, text: &str) -> String {
        let stderr = self.0.as_mut().and_then(|child| child.stderr.as_mut()).expect("it runs");
        // Byte by byte: what comes behind is for `end`.
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(text) {
            let mut byte = [0];
            let count = stderr.read(&mut byte).expect("our pipe");
            assert!(count > 0, "it ended before it said `{text}`: {}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Waits for its end.
    pub fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    /// Waits for an end that takes longer.
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let mut child = self.0.take().expect("it runs");
        // Read meanwhile: what says more than a pipe holds would not end.
        let [stdout, stderr] = [read(child.stdout.take()), read(child.stderr.take())];
        let deadline = Instant::now() + limit;
        let (status, is_late) = loop {
            if let Some(status) = child.try_wait().expect("our child") {
                break (status, false);
            }
            if Instant::now() > deadline {
                child.kill().expect("our child");
                break (child.wait().expect("our child"), true);
            }
            sleep(Duration::from_millis(10));
        };
        let [stdout, stderr] = [stdout, stderr].map(|read| read.join().expect("it reads"));
        assert!(!is_late, "it does not end: {}", String::from_utf8_lossy(&stderr));
        Ended(Output { status, stdout, stderr })
    }
}

/// Reads all that a process says.
fn read(from: Option<impl std::io::Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut said = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut said).expect("our pipe");
        }
        said
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a process ended, and what it said.
pub struct Ended(pub Output);

impl Ended {
    #[track_caller]
    pub fn assert_success(&self) {
        assert!(self.0.status.success(), "{}: {}", self.0.status, self.error());
    }

    #[track_caller]
    pub fn assert_failed(&self, code: i32, reason: &str) {
        assert_eq!(self.0.status.code(), Some(code), "{}", self.error());
        assert!(self.error().contains(reason), "{}", self.error());
    }

    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}
