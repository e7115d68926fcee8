//! Registered files that outlive their process, and what becomes of one whose file is shortened.

#[path = "support/host.rs"]
mod host;
#[path = "support/join.rs"]
mod join;
#[path = "support/segment.rs"]
mod segment;

use host::{REMOTE, complete};
use join::join;
use segment::hosts;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use verbs_api::{Driver, FileBacking, SendData, SendRequest, WcStatus};

const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;

/// Tells a test that it is the process that dies, and of which file.
const VICTIM: &str = "SRNIC_TEST_FILE";

fn victim() -> Option<PathBuf> {
    std::env::var_os(VICTIM).map(PathBuf::from)
}

/// Plays a test of this program in a process of its own, as the victim, on a file of zeros; how it
/// ended, and what the file holds.
fn play(test: &str) -> (ExitStatus, Vec<u8>) {
    let path = std::env::temp_dir().join(format!("srnic-{test}-{}", std::process::id()));
    fs::write(&path, [0; 4096]).expect("written");
    let mut command = Command::new(std::env::current_exe().expect("we run"));
    let child = command.args(["--exact", test]).env(VICTIM, &path).output().expect("it starts");
    let held = fs::read(&path).expect("it is still there");
    fs::remove_file(&path).expect("ours");
    (child.status, held)
}

/// A peer WRITEs to the file, and this process dies at once, without a word to the file.
fn written_and_dies(file: FileBacking) {
    let [mut one, two] = hosts(Driver::Inline, "file-crash");
    let log = two.pd.register_file(file, REMOTE).expect("registered");
    let pairs =
        [&one, &two].map(|host| host.pd.queue_pair(&host.cq, &host.cq).build().expect("a queue pair"));
    let [mut pair, _its] = join(pairs);
    let record = one.region(8);
    record.write(0, b"a record").expect("inside");
    let gather = [record.slice(..).expect("inside")];
    let request = SendRequest::write(SendData::Gather(&gather), log.remote().at(100));
    pair.post_send(&request.signaled()).expect("posted");
    assert_eq!(complete(&mut one, &two).status, WcStatus::Success);
    std::process::abort();
}

#[test]
fn what_a_peer_wrote_is_in_the_file_when_the_process_dies() {
    if let Some(path) = victim() {
        written_and_dies(FileBacking::open_shared(path).expect("mapped"));
    }
    let (status, held) = play("what_a_peer_wrote_is_in_the_file_when_the_process_dies");
    assert_eq!((status.signal(), &held[100..108]), (Some(SIGABRT), &b"a record"[..]));
}

#[test]
fn a_file_that_is_only_read_does_not_change() {
    if let Some(path) = victim() {
        written_and_dies(FileBacking::open(path).expect("mapped"));
    }
    let (status, held) = play("a_file_that_is_only_read_does_not_change");
    assert_eq!((status.signal(), held), (Some(SIGABRT), vec![0; 4096]));
}

#[test]
fn who_touches_what_is_no_longer_there_is_ended() {
    if let Some(path) = victim() {
        let [host, _] = hosts(Driver::Inline, "file-shortened");
        let file = FileBacking::open_shared(&path).expect("mapped");
        let region = host.pd.register_file(file, REMOTE).expect("registered");
        fs::File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("shortened");
        let _ = region.read(0, &mut [0]);
    }
    let (status, held) = play("who_touches_what_is_no_longer_there_is_ended");
    assert_eq!((status.signal(), held.len()), (Some(SIGBUS), 0));
}
