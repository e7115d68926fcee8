//! The program of the README is the example `hello`, and two of it talk.
#![cfg(feature = "dpdk")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn example() -> PathBuf {
    let test = std::env::current_exe().expect("we run");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/hello-..");
    profile.join("examples/hello")
}

fn start(role: &str, socket: &Path) -> Child {
    let mut command = Command::new(example());
    command.arg(role).arg(socket).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}", example().display()))
}

fn said(child: Child) -> String {
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains(include_str!("../examples/hello.rs")), "copy verbs-api/examples/hello.rs to it");
}

#[test]
fn two_of_it_talk() {
    let socket = std::env::temp_dir().join(format!("hello-{}.sock", std::process::id()));
    let server = start("server", &socket);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "the server makes no socket");
        sleep(Duration::from_millis(20));
    }
    let client = start("client", &socket);
    let (server, client) = (said(server), said(client));
    for (said, peer) in [(&server, "client"), (&client, "server")] {
        assert!(said.contains("RecvRdmaWithImm 1 Success\n"), "{said}");
        assert!(said.contains("RdmaWrite 2 Success\n"), "{said}");
        assert!(said.ends_with(&format!("hello from the {peer}\n")), "{said}");
    }
    let _ = fs::remove_file(&socket);
}
