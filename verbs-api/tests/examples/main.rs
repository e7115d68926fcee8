//! Examples, each run as two processes.

mod echo;
mod engines;
mod first;
mod hello;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where two processes meet: a socket's path, gone when dropped.
struct Meeting(PathBuf);

impl Meeting {
    fn new(example: &str) -> Self {
        Self(std::env::temp_dir().join(format!("{example}-{}.sock", std::process::id())))
    }

    /// Until the server listens.
    fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.0.exists() {
            assert!(Instant::now() < deadline, "the server makes no socket");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Starts an example. Cargo builds them before all tests of a package, and before a selected one it
/// does not.
fn start(example: &str, args: &[&str]) -> Child {
    let test = std::env::current_exe().expect("we run");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/examples-..");
    let program = profile.join("examples").join(example);
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| {
        panic!("{}: {error}: `cargo build -p verbs-api --examples` first", program.display())
    })
}

/// What a process that ended well has said.
fn said(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{said}{}", String::from_utf8_lossy(&stderr));
    said
}

/// What the two sides of an example say that is told who it is and where they meet: server, client.
fn talk(example: &str) -> [String; 2] {
    let meeting = Meeting::new(example);
    let socket = meeting.0.to_str().expect("a path of ours");
    let server = start(example, &["server", socket]);
    meeting.wait();
    let client = start(example, &["client", socket]);
    [server, client].map(said)
}

/// What cannot be done is said as text, and ends the process with 1.
#[test]
fn who_fails_says_what_to_do() {
    for (example, args, said) in [
        ("echo", &["server", "nonsense"][..], "nonsense"),
        ("engines", &["server", "/nowhere/engines.sock"], "/nowhere/engines.sock"),
        ("hello", &["nonsense"], "usage: hello server|client SOCKET"),
        ("hello", &["client", "/nowhere/hello.sock"], "/nowhere/hello.sock"),
        ("wake_up", &["nonsense"], "nonsense"),
    ] {
        let Output { status, stderr, .. } = start(example, args).wait_with_output().expect("our child");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(1), "{example}: {stderr}");
        assert!(stderr.contains(said) && !stderr.starts_with("Error:"), "{example}: {stderr}");
    }
}
