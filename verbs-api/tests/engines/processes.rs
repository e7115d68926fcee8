//! The example `engines`: two processes with two engines each.

use super::{Scratch, wait};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn start(role: &str, socket: &Path) -> Child {
    let test = std::env::current_exe().expect("we run");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/engines-..");
    let example = profile.join("examples/engines");
    let mut command = Command::new(&example);
    command.arg(role).arg(socket).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}", example.display()))
}

#[test]
fn every_engine_of_one_process_talks_to_every_engine_of_the_other() {
    let dir = Scratch::new();
    let socket = dir.0.join("s");
    let server = start("server", &socket);
    wait::until("a socket", || socket.exists().then_some(()));
    let client = start("client", &socket);
    for (child, us, them) in [(server, "server", "client"), (client, "client", "server")] {
        let output = child.wait_with_output().expect("our child");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        for (one, other) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let line = format!("{us} {one} hears: {them} {other} greets you, {one}\n");
            assert_eq!(said.matches(&line).count(), 1, "{said}");
        }
        assert_eq!(said.lines().count(), 4, "{said}");
    }
}
