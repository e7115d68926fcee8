//! The example `echo` between two processes over memif, through loss: what is sent comes back, and
//! a second client finds the server as the first did.

use std::io::Read;
use std::process::Child;

use super::{Meeting, said, start};

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
    let meeting = Meeting::new("echo");
    let device = |role| format!("fault:loss=2%,seed=3:memif:{},role={role}", meeting.0.display());
    let mut server = Server(start("echo", &["server", &device("server")]));
    meeting.wait();
    for words in [["one", "two", "three"], ["four", "five", "six"]] {
        let device = device("client");
        let said = said(start("echo", &[&["client", &device, "10.77.0.1"], &words[..]].concat()));
        assert!(said.ends_with(&format!("{}\n", words.join("\n"))), "{said}");
    }
    server.0.kill().expect("it runs");
    let mut told = String::new();
    server.0.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
    assert!(told.contains("listening on 10.77.0.1:7471\n"), "{told}");
    assert_eq!(told.matches(" connects: 1 clients\n").count(), 2, "{told}");
}
