//! The orchestration of `cargo xtask demo`, with a script in the place of `srnic`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A demo whose temporary files all land below a directory of the test.
struct Demo {
    dir: PathBuf,
}

impl Demo {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("demo-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("tmp")).expect("a directory of our own");
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(dir.join("file"), bytes).expect("a file to send");
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in.sh");
        std::os::unix::fs::symlink(&stand_in, dir.join("srnic")).expect("a program of its name");
        Self { dir }
    }

    fn start(&self, stand_in: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("demo")
            .arg(self.dir.join("file"))
            .arg("--tools")
            .arg(&self.dir)
            .env("TMPDIR", self.dir.join("tmp"))
            .env("STAND_IN", stand_in)
            .env("PIDS", self.dir.join("pids"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("xtask starts")
    }

    fn run(&self, stand_in: &str) -> Output {
        self.start(stand_in).wait_with_output().expect("xtask ends")
    }

    /// The processes that the stand-ins said they are.
    fn processes(&self) -> Vec<String> {
        let pids = fs::read_to_string(self.dir.join("pids")).unwrap_or_default();
        pids.lines().map(str::to_owned).collect()
    }

    fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.dir.join("tmp")).expect("our directory").collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        for pid in self.processes() {
            assert!(!Path::new("/proc").join(&pid).exists(), "process {pid} is still there");
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_table_has_every_figure() {
    let demo = Demo::new("equal");
    let output = demo.run("faithful");
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    let cells = |start: &str| -> Vec<String> {
        let row =
            out.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {out}"));
        row[36..].split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(cells("WRITE, 64 KiB "), ["12.50", "-", "-", "50", "50", "verified"]);
    assert_eq!(cells("SEND, 64 B "), ["-", "1.50", "2.50", "50", "50", "verified"]);
    assert_eq!(cells("raw frames, 4200 B"), ["12.50", "-", "-", "-", "-", "-"]);
    assert_eq!(cells("kernel TCP, 64 B, blocking"), ["-", "1.50", "2.50", "-", "-", "-"]);
    assert_eq!(cells("file of 1.1 MiB, no loss"), ["8.50", "-", "-", "0", "0", "SHA-256", "equal"]);
    assert_eq!(cells("file of 1.1 MiB, 1 % loss"), ["8.50", "-", "-", "50", "50", "SHA-256", "equal"]);
    demo.assert_clean();
}

#[test]
fn one_wrong_byte_is_seen() {
    let demo = Demo::new("corrupt");
    let output = demo.run("corrupt");
    assert!(!output.status.success());
    assert_eq!(text(&output.stdout).matches("DIFFERENT").count(), 2, "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("differs from the source"), "{}", text(&output.stderr));
    demo.assert_clean();
}

#[test]
fn wrong_data_of_a_figure_fails_the_demo() {
    let demo = Demo::new("wrong-data");
    let output = demo.run("wrong-data");
    assert!(!output.status.success());
    let err = text(&output.stderr);
    assert!(err.contains("write-bw") && err.contains("byte 64 of the messages received"), "{err}");
    demo.assert_clean();
}

#[test]
fn a_lossy_run_that_loses_nothing_is_not_accepted() {
    let demo = Demo::new("no-drops");
    let output = demo.run("no-drops");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("no packet was dropped"), "{}", text(&output.stderr));
}

#[test]
fn a_sender_that_fails_ends_the_receiver_and_is_quoted() {
    let demo = Demo::new("fails");
    let output = demo.run("sender-fails");
    assert!(!output.status.success());
    let err = text(&output.stderr);
    assert!(err.contains("`send` failed: exit status: 3") && err.contains("no such peer"), "{err}");
    assert!(!err.contains("usage"), "the cause comes last: {err}");
    demo.assert_clean();
}

#[test]
fn an_interrupt_ends_both_processes_and_removes_the_files() {
    let demo = Demo::new("interrupt");
    let child = demo.start("hang");
    let deadline = Instant::now() + Duration::from_secs(60);
    while demo.processes().len() < 2 {
        assert!(Instant::now() < deadline, "the two processes do not start");
        sleep(Duration::from_millis(10));
    }
    // The shell's own: a small system has no program of this name.
    let interrupt = format!("kill -INT {}", child.id());
    let kill = Command::new("sh").args(["-c", &interrupt]).status().expect("a shell runs");
    assert!(kill.success());
    let output = child.wait_with_output().expect("xtask ends");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
    demo.assert_clean();
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let demo = Demo::new("missing");
    fs::remove_file(demo.dir.join("file")).expect("removed");
    let output = demo.run("faithful");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("cannot read"), "{}", text(&output.stderr));
    demo.assert_clean();
}
