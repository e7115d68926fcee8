//! The example `service`, which answers many calls from one thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The example's program.
fn service(role: &str, place: &Path) -> Child {
    let test = std::env::current_exe().expect("we run");
    let profile: PathBuf = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/..").into();
    let mut command = Command::new(profile.join("examples/service"));
    command.arg(role).arg(place.join("socket"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// What the kernel says of a process.
#[derive(Clone, Copy)]
struct Usage {
    /// Processor time so far, in ticks of 10 ms.
    ticks: u64,
    /// How often its threads went to sleep so far.
    sleeps: u64,
}

impl Usage {
    fn of(child: &Child) -> Self {
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        let stat = fs::read_to_string(process.join("stat")).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
        let ticks = [11, 12].iter().map(|field| fields[*field].parse::<u64>().expect("a number")).sum();
        let threads = fs::read_dir(process.join("task")).expect("it runs");
        let sleeps = threads.map(|thread| sleeps(&thread.expect("listed").path())).sum();
        Self { ticks, sleeps }
    }
}

/// How often a thread went to sleep so far; never, if it has ended since it was listed.
fn sleeps(thread: &Path) -> u64 {
    let Ok(status) = fs::read_to_string(thread.join("status")) else { return 0 };
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.expect("a line of it").trim().parse().expect("a number")
}

#[test]
fn the_service_answers_and_waits_without_a_core() {
    let place = std::env::temp_dir().join(format!("srnic-service-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory");
    let mut server = service("serve", &place);
    let mut line = String::new();
    let stdout = server.stdout.take().expect("piped");
    let mut stdout = std::io::BufReader::new(stdout);
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("text");
    assert!(line.starts_with("waiting"), "{line}");
    // Not to synchronise: this is the time in which it must do next to nothing.
    std::thread::sleep(Duration::from_millis(500));
    let (began, before) = (Instant::now(), Usage::of(&server));
    std::thread::sleep(Duration::from_secs(4));
    let (after, waited) = (Usage::of(&server), began.elapsed());
    let asked = service("call", &place).wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&asked.stderr).into_owned();
    if !asked.status.success() {
        let _ = server.kill();
    }
    assert_eq!((said.as_str(), wrong.as_str()), ("asked 1000 times\n", ""));
    assert!(server.wait().expect("our child").success());
    std::io::Read::read_to_string(&mut stdout, &mut line).expect("text");
    assert!(line.contains("answered 1000 messages"), "{line}");
    let _ = fs::remove_dir_all(&place);
    // What a sleep costs is the machine's, and more in a build that is not optimised; how many
    // there are is ours: one a millisecond at most.
    let (used, slept) = (after.ticks - before.ticks, after.sleeps - before.sleeps);
    println!("{used} ticks of 10 ms and {slept} sleeps in {waited:?}");
    let most = u64::try_from(waited.as_millis()).expect("no century");
    assert!(slept <= most + most / 10, "it slept {slept} times in {waited:?}: it wakes without need");
    assert!(used * 20 < most, "it used {used} ticks of 10 ms in {waited:?}: it does not sleep");
}
