//! The example `echo` between two processes over memif, through loss: what is sent comes back, and a second client finds the
//! server as the first did.
#![cfg(feature = "dpdk")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn example() -> PathBuf {
    let test = std::env::current_exe().expect("we run");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/echo-..");
    profile.join("examples/echo")
}

/// Ends with its test, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn words_come_back_through_loss() {
    let socket = std::env::temp_dir().join(format!("echo-{}.sock", std::process::id()));
    let device = |role| format!("fault:loss=2%,seed=3:memif:{},role={role}", socket.display());
    let server = Command::new(example())
        .args(["server", &device("server")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", example().display()));
    let mut server = Server(server);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "the server makes no socket");
        sleep(Duration::from_millis(20));
    }
    for words in [["one", "two", "three"], ["four", "five", "six"]] {
        let client = Command::new(example())
            .args(["client", &device("client"), "10.77.0.1"])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("the example runs");
        let said = String::from_utf8_lossy(&client.stdout);
        let complaint = String::from_utf8_lossy(&client.stderr);
        assert!(client.status.success(), "{said}{complaint}");
        assert!(said.ends_with(&format!("{}\n", words.join("\n"))), "{said}");
    }
    server.0.kill().expect("it runs");
    let mut told = String::new();
    server.0.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
    assert!(told.contains("listening on 10.77.0.1:7471\n"), "{told}");
    assert_eq!(told.matches(" connects: 1 clients\n").count(), 2, "{told}");
    let _ = fs::remove_file(&socket);
}
