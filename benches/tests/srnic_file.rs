//! `srnic_file` as two processes over memif: files arrive whole, and every way to fail ends, says why and leaves
//! nothing behind.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far longer than anything here takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(100);

/// A directory with a file to send, a socket and a TCP port of its own.
struct Pair {
    dir: PathBuf,
    port: u16,
}

impl Pair {
    /// With a file of `len` bytes to send.
    fn new(name: &str, len: usize) -> Self {
        let dir = std::env::temp_dir().join(format!("file-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory of our own");
        let bytes = (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]);
        fs::write(dir.join("in"), bytes.collect::<Vec<u8>>()).expect("a file to send");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        Self { dir, port: free.expect("a free port").port() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn start(&self, verb: &str, wrapper: &str, rest: &[&str]) -> Running {
        let device = format!("{wrapper}memif:{}", self.path("memif").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_srnic_file"));
        command.args([verb, "-d", &device, "--port", &self.port.to_string(), "--json"]);
        command.arg(self.path(&format!("{verb}.json"))).args(rest);
        command.arg(if verb == "recv" { "--out" } else { "--in" });
        command.arg(self.path(if verb == "recv" { "out" } else { "in" }));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("srnic_file starts")))
    }

    /// Both sides, of which the sender's device has a wrapper.
    fn start_both(&self, wrapper: &str, rest: &[&str]) -> (Running, Running) {
        (self.start("recv", "", &[]), self.start("send", wrapper, rest))
    }

    /// Both sides in the middle of a transfer that takes ten seconds at least: one packet at a time, each way 1 ms.
    fn start_slow(&self) -> (Running, Running) {
        let (receiver, sender) = self.start_both("fault:delay=1ms:", &["--window", "1"]);
        let deadline = Instant::now() + LIMIT;
        while !self.path("out.part").exists() {
            assert!(Instant::now() < deadline, "the transfer does not begin");
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_millis(500));
        (receiver, sender)
    }

    fn json(&self, verb: &str) -> serde_json::Value {
        let text = fs::read_to_string(self.path(&format!("{verb}.json"))).expect("it was written");
        serde_json::from_str(&text).expect("it is JSON")
    }

    fn assert_nothing_received(&self) {
        assert!(!self.path("out").exists() && !self.path("out.part").exists(), "half a file is there");
        assert!(!self.path("recv.json").exists(), "a failure is no result");
    }
}

/// Length of the file of [`Pair::start_slow`].
const SLOW: usize = 5000 * 4096;

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A process that does not outlive its test.
struct Running(Option<Child>);

impl Running {
    fn signal(&self, name: &str) {
        let id = self.0.as_ref().expect("it runs").id().to_string();
        // The shell's own: a small system has no program of this name.
        let kill = Command::new("sh").args(["-c", "kill \"$@\"", "sh", name, &id]).status();
        assert!(kill.expect("a shell runs").success());
    }

    /// Waits for its end.
    fn end(mut self) -> Ended {
        let mut child = self.0.take().expect("it runs");
        let deadline = Instant::now() + LIMIT;
        while child.try_wait().expect("our child").is_none() {
            if Instant::now() > deadline {
                child.kill().expect("our child");
                let output = child.wait_with_output().expect("our child");
                panic!("it does not end: {}", String::from_utf8_lossy(&output.stderr));
            }
            sleep(Duration::from_millis(10));
        }
        Ended(child.wait_with_output().expect("our child"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Ended(Output);

impl Ended {
    fn assert_success(&self) {
        assert!(self.0.status.success(), "{}: {}", self.0.status, self.said());
        assert_eq!(self.said(), "", "no message, no progress bar");
    }

    #[track_caller]
    fn assert_failed(&self, code: i32, reason: &str) {
        assert_eq!(self.0.status.code(), Some(code), "{}", self.said());
        assert!(self.said().contains(reason), "{}", self.said());
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

fn number(json: &serde_json::Value, key: &str) -> u64 {
    json[key].as_u64().unwrap_or_else(|| panic!("{key} of {json}"))
}

#[test]
fn a_file_arrives_whole() {
    // Neither a multiple of the message nor of the path MTU.
    const LEN: usize = 3_000_001;
    let pair = Pair::new("whole", LEN);
    let (receiver, sender) = pair.start_both("", &[]);
    sender.end().assert_success();
    receiver.end().assert_success();
    assert!(fs::read(pair.path("in")).expect("sent") == fs::read(pair.path("out")).expect("received"));
    let (sent, received) = (pair.json("send"), pair.json("recv"));
    assert_eq!((number(&sent, "bytes"), number(&received, "bytes")), (LEN as u64, LEN as u64));
    assert_eq!(number(&sent, "injected_drops"), 0);
    let packets = (LEN as u64).div_ceil(4096) + number(&sent, "retransmitted");
    assert_eq!(number(&sent, "packets_sent"), packets);
    // A probe that a pause provoked may come too late to be counted.
    let arrived = (LEN as u64).div_ceil(4096)..=packets;
    assert!(arrived.contains(&number(&received, "packets_received")), "{sent} {received}");
    assert!(sent["seconds"].as_f64() > Some(0.0) && sent["gbps"].as_f64() > Some(0.0), "{sent}");
    assert_eq!(number(&received, "out_of_order"), 0);
    assert!(received["seconds"].as_f64() > Some(0.0) && received["duplicates"].is_u64(), "{received}");
    assert!(!pair.path("out.part").exists());
}

#[test]
fn a_file_arrives_whole_through_loss() {
    let pair = Pair::new("loss", 20_000_000);
    let (receiver, sender) =
        pair.start_both("fault:loss=2%,dup=1%,reorder=1%,seed=3:", &["--message", "65536"]);
    sender.end().assert_success();
    receiver.end().assert_success();
    assert!(fs::read(pair.path("in")).expect("sent") == fs::read(pair.path("out")).expect("received"));
    let (sent, received) = (pair.json("send"), pair.json("recv"));
    assert!(number(&sent, "injected_drops") > 50, "{sent}");
    assert!(
        number(&sent, "retransmitted") > 50 && number(&received, "out_of_order") > 50,
        "{sent} {received}"
    );
}

#[test]
fn a_single_byte_is_a_file() {
    let pair = Pair::new("byte", 1);
    let (receiver, sender) = pair.start_both("", &["--cc", "dctcp"]);
    sender.end().assert_success();
    receiver.end().assert_success();
    assert_eq!(fs::read(pair.path("out")).expect("received").len(), 1);
}

#[test]
fn a_receiver_that_is_killed_ends_the_sender() {
    let pair = Pair::new("kill-recv", SLOW);
    let (receiver, sender) = pair.start_slow();
    receiver.signal("-KILL");
    sender.end().assert_failed(1, "the peer closed the side channel before the transfer was complete");
    assert!(!pair.path("send.json").exists(), "a failure is no result");
}

#[test]
fn a_sender_that_is_killed_ends_the_receiver() {
    let pair = Pair::new("kill-send", SLOW);
    let (receiver, sender) = pair.start_slow();
    sender.signal("-KILL");
    receiver.end().assert_failed(1, "the peer closed the side channel before the transfer was complete");
    pair.assert_nothing_received();
}

#[test]
fn a_receiver_that_hangs_ends_the_sender_by_its_retries() {
    let pair = Pair::new("hang", SLOW);
    let (receiver, sender) = pair.start_slow();
    receiver.signal("-STOP");
    sender.end().assert_failed(1, "a WRITE failed with RetryExcErr: the peer no longer answers");
    receiver.signal("-CONT");
    receiver.end().assert_failed(1, "the peer failed: a WRITE failed with RetryExcErr");
    pair.assert_nothing_received();
}

#[test]
fn an_interrupt_ends_both_in_order() {
    for interrupted in ["recv", "send"] {
        let pair = Pair::new(&format!("int-{interrupted}"), SLOW);
        let (receiver, sender) = pair.start_slow();
        let (first, other) = if interrupted == "recv" { (receiver, sender) } else { (sender, receiver) };
        first.signal("-INT");
        first.end().assert_failed(130, "interrupted");
        other.end().assert_failed(1, "the peer failed: interrupted");
        pair.assert_nothing_received();
    }
}

#[test]
fn what_the_receiver_cannot_write_the_sender_is_told() {
    let pair = Pair::new("refuse", 10);
    // A directory of that name is in the way.
    fs::create_dir(pair.path("out.part")).expect("made");
    let (receiver, sender) = pair.start_both("", &[]);
    receiver.end().assert_failed(1, "cannot create");
    sender.end().assert_failed(1, "the peer failed: cannot create");
}

#[test]
fn a_file_that_cannot_be_sent_is_named_at_once() {
    let pair = Pair::new("empty", 0);
    pair.start("send", "", &[]).end().assert_failed(1, "in: it is empty");
    fs::remove_file(pair.path("in")).expect("removed");
    pair.start("send", "", &[]).end().assert_failed(1, "cannot open");
    pair.start("send", "fault:loss=lots:", &[]).end().assert_failed(2, "loss must be");
}

/// A receiver, and a side channel on which we say what we want.
fn stranger(name: &str, says: &str) -> (Ended, String) {
    let pair = Pair::new(name, 1);
    let receiver = pair.start("recv", "", &[]);
    let deadline = Instant::now() + LIMIT;
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", pair.port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        sleep(Duration::from_millis(10));
    };
    stream.write_all(says.as_bytes()).expect("it listens");
    let ended = receiver.end();
    let mut heard = String::new();
    // What we said and it never read resets the connection behind its last word.
    let _ = stream.read_to_string(&mut heard);
    (ended, heard)
}

#[test]
fn a_stranger_on_the_side_channel_is_refused() {
    let (ended, heard) = stranger("version", "srnic_file 2\n");
    ended.assert_failed(1, "the peer said `srnic_file 2` where `srnic_file 1` was expected");
    assert!(heard.starts_with("srnic_file 1\n"), "{heard}");
    let (ended, heard) = stranger("nonsense", "srnic_file 1\nfile many\n");
    ended.assert_failed(1, "the peer said `file many` where `file` was expected");
    assert!(heard.contains("failed the peer said `file many`"), "{heard}");
    let (ended, _) = stranger("endless", &"x".repeat(10_000));
    ended.assert_failed(1, "where `a line` was expected");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let pair = Pair::new("taken", 1);
    let _taken = TcpListener::bind(("127.0.0.1", pair.port)).expect("it was free");
    let reason = format!("the side channel to 127.0.0.1:{}: cannot listen", pair.port);
    pair.start("recv", "", &[]).end().assert_failed(1, &reason);
}

#[test]
fn what_was_there_is_replaced() {
    let pair = Pair::new("replace", 5000);
    File::create(pair.path("out")).and_then(|mut file| file.write_all(&[7; 90_000])).expect("written");
    let (receiver, sender) = pair.start_both("", &[]);
    sender.end().assert_success();
    receiver.end().assert_success();
    assert!(fs::read(pair.path("in")).expect("sent") == fs::read(pair.path("out")).expect("received"));
}
