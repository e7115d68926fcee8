//! `srnic file` as two processes over memif: files arrive whole, and every way to fail ends, says
//! why and leaves nothing behind.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{Ended, LIMIT, Place, Running, srnic};

/// A place with a file to send and a socket.
struct Pair(Place);

impl Pair {
    /// With a file of `len` bytes to send.
    fn new(name: &str, len: usize) -> Self {
        let place = Place::new(name);
        let bytes = (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]);
        fs::write(place.path("in"), bytes.collect::<Vec<u8>>()).expect("a file to send");
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn start(&self, verb: &str, wrapper: &str, rest: &[&str]) -> Running {
        let device = format!("{wrapper}memif:{}", self.path("memif").display());
        let mut command = srnic("file");
        command.args([verb, "-d", &device, "--port", &self.0.port.to_string(), "--json"]);
        command.arg(self.path(&format!("{verb}.json"))).args(rest);
        command.arg(if verb == "recv" { "--out" } else { "--in" });
        command.arg(self.path(if verb == "recv" { "out" } else { "in" }));
        Running::start(command)
    }

    /// Both sides, of which the sender's device has a wrapper.
    fn start_both(&self, wrapper: &str, rest: &[&str]) -> (Running, Running) {
        (self.start("recv", "", &[]), self.start("send", wrapper, rest))
    }

    /// Both sides in the middle of a transfer that takes ten seconds at least: one packet at a
    /// time, each way 1 ms.
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
        self.0.json(&format!("{verb}.json"))
    }

    fn assert_nothing_received(&self) {
        assert!(!self.path("out").exists() && !self.path("out.part").exists(), "half a file is there");
        assert!(!self.path("recv.json").exists(), "a failure is no result");
    }
}

/// Length of the file of [`Pair::start_slow`].
const SLOW: usize = 5000 * 4096;

fn assert_silent_success(ended: &Ended) {
    ended.assert_success();
    assert_eq!(ended.error(), "", "no message, no progress bar");
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
    assert_silent_success(&sender.end());
    assert_silent_success(&receiver.end());
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
    assert_silent_success(&sender.end());
    assert_silent_success(&receiver.end());
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
    assert_silent_success(&sender.end());
    assert_silent_success(&receiver.end());
    assert_eq!(fs::read(pair.path("out")).expect("received").len(), 1);
}

#[test]
fn an_empty_file_is_a_file() {
    let pair = Pair::new("empty", 0);
    fs::write(pair.path("out"), "what was there").expect("written");
    let (receiver, sender) = pair.start_both("", &[]);
    assert_silent_success(&sender.end());
    assert_silent_success(&receiver.end());
    assert_eq!(fs::read(pair.path("out")).expect("received"), b"");
    assert_eq!((number(&pair.json("send"), "bytes"), number(&pair.json("recv"), "bytes")), (0, 0));
    assert!(!pair.path("out.part").exists());
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
    sender.end().assert_failed(1, "a WRITE failed: IBV_WC_RETRY_EXC_ERR: the peer did not answer");
    receiver.signal("-CONT");
    receiver
        .end()
        .assert_failed(1, "the peer failed: a WRITE failed: IBV_WC_RETRY_EXC_ERR: the peer did not answer");
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
    let pair = Pair::new("unsent", 0);
    fs::remove_file(pair.path("in")).expect("removed");
    pair.start("send", "", &[]).end().assert_failed(1, "cannot open");
    pair.start("send", "fault:loss=lots:", &[]).end().assert_failed(2, "loss must be");
}

/// A receiver, and a side channel on which we say what we want.
fn stranger(name: &str, says: &str) -> (Ended, String) {
    let pair = Pair::new(name, 1);
    let heard = stranger_to(&pair, &[], says);
    pair.assert_nothing_received();
    heard
}

fn stranger_to(pair: &Pair, options: &[&str], says: &str) -> (Ended, String) {
    let receiver = pair.start("recv", "", options);
    let deadline = Instant::now() + LIMIT;
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", pair.0.port)) {
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

/// What whoever reaches the port announces takes no more of the disk than there is, and than the
/// user allows.
#[test]
fn a_file_that_is_too_long_is_refused_before_it_takes_any_space() {
    let endpoint = "endpoint srnic1,ip=10.77.0.2,qpn=0x11,psn=0x1,pmtu=4096,window=512";
    let says = |bytes: u64| format!("srnic_file 1\nfile {bytes}\n{endpoint}\n");
    let (ended, _) = stranger("long", &says(1 << 60));
    ended.assert_failed(1, "the sender announces 1152921504606846976 bytes, and the disk has room for");
    let pair = Pair::new("longer-than-allowed", 5001);
    let (ended, _) = stranger_to(&pair, &["--max-bytes", "5000"], &says(5001));
    ended.assert_failed(1, "the sender announces 5001 bytes, and --max-bytes allows 5000");
    pair.assert_nothing_received();
}

/// Whoever may write into the directory chooses no other file to be written to.
#[test]
fn the_unfinished_file_follows_no_link() {
    let make_link = |name: &str, make: &dyn Fn(&Path, &Path) -> std::io::Result<()>| {
        let pair = Pair::new(name, 5000);
        let precious = pair.path("precious");
        fs::write(&precious, b"precious").expect("written");
        make(&precious, &pair.path("out.part")).expect("made");
        let (receiver, sender) = pair.start_both("", &[]);
        let (receiver, sender) = (receiver.end(), sender.end());
        assert!(fs::read(&precious).expect("it is there") == b"precious", "{name}");
        (pair, receiver, sender)
    };
    let (pair, receiver, _) = make_link("part-link", &|from, to| symlink(from, to));
    receiver.assert_failed(1, "out.part: a symbolic link has that name; remove it, or give another --out");
    assert!(pair.path("out.part").is_symlink() && !pair.path("out").exists());
    // What a receiver left that was killed is no obstacle, even if somebody has another name for
    // it.
    let (pair, receiver, sender) = make_link("part-hard-link", &|from, to| fs::hard_link(from, to));
    assert_silent_success(&receiver);
    assert_silent_success(&sender);
    assert_eq!(fs::read(pair.path("out")).expect("received").len(), 5000);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let pair = Pair::new("taken", 1);
    let _taken = TcpListener::bind(("127.0.0.1", pair.0.port)).expect("it was free");
    let reason = format!("the side channel to 127.0.0.1:{}: cannot listen", pair.0.port);
    pair.start("recv", "", &[]).end().assert_failed(1, &reason);
}

#[test]
fn what_was_there_is_replaced() {
    let pair = Pair::new("replace", 5000);
    File::create(pair.path("out")).and_then(|mut file| file.write_all(&[7; 90_000])).expect("written");
    let (receiver, sender) = pair.start_both("", &[]);
    assert_silent_success(&sender.end());
    assert_silent_success(&receiver.end());
    assert!(fs::read(pair.path("in")).expect("sent") == fs::read(pair.path("out")).expect("received"));
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let refuse = |name: &str, make: &dyn Fn(&Path), reason: &str| {
        let pair = Pair::new(name, 10);
        let out = pair.path("out");
        make(&out);
        let before = fs::symlink_metadata(&out).expect("made").file_type();
        // No sender is needed: it is found out before one is waited for.
        let ended = pair.start("recv", "", &[]).end();
        ended.assert_failed(1, &format!("--out {} is {reason}", out.display()));
        assert_eq!(fs::symlink_metadata(&out).expect("still there").file_type(), before);
    };
    let fifo = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
    };
    refuse("fifo", &fifo, "no regular file");
    refuse("dir", &|path| fs::create_dir(path).expect("made"), "a directory");
    refuse("dangling", &|path| symlink("nothing", path).expect("made"), "a symbolic link");
    refuse("link", &|path| symlink("in", path).expect("made"), "a symbolic link");
}
