//! `srnic hostping` as processes.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Ended, LIMIT, Place, Running, srnic};

fn hostping(arguments: &[&str]) -> Running {
    let mut command = srnic("hostping");
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command)
}

/// What it wrote, and that it ended as that says.
#[track_caller]
fn document(ended: &Ended) -> Value {
    let document: Value =
        serde_json::from_slice(&ended.0.stdout).unwrap_or_else(|_| panic!("{}", ended.error()));
    let code = i32::from(document["verdict"] == "bad");
    assert_eq!(ended.0.status.code(), Some(code), "{document}");
    document
}

fn link<'a>(document: &'a Value, name: &str) -> &'a Value {
    let links = document["links"].as_array().expect("an array");
    links.iter().find(|link| link["name"] == name).unwrap_or_else(|| panic!("{name}: {document}"))
}

#[test]
fn the_settings_of_this_machine_are_told() {
    let ended = hostping(&["--preflight", "--json"]).end();
    let document = document(&ended);
    for name in ["governor", "NUMA", "huge pages", "cores", "quota"] {
        let verdict = link(&document, name)["verdict"].as_str().expect("a word");
        assert!(["good", "unknown", "warning", "bad"].contains(&verdict), "{document}");
    }
}

/// A baseline with the same ways and other numbers.
fn scale(place: &Place, latency: f64, gbps: f64) -> String {
    let mut baseline = place.json("baseline");
    for probe in baseline["probes"].as_object_mut().expect("an object").values_mut() {
        for (key, factor) in [("latency_ns", latency), ("gbps", gbps)] {
            probe[key] = (probe[key].as_f64().expect("a number") * factor).into();
        }
    }
    let path = place.path("scaled");
    fs::write(&path, baseline.to_string()).expect("our directory");
    path.display().to_string()
}

/// One CPU and one loopback: what they take is judged by what it took before.
#[test]
fn a_host_is_judged_by_its_baseline() {
    let place = Place::new("hostping-baseline");
    let file = place.path("baseline").display().to_string();
    let arguments = ["-d", "sim:hostping", "--cpu", "0", "--rounds", "1", "--json"];
    let svg = place.path("svg").display().to_string();
    let saved = document(&hostping(&[&arguments[..], &["--save", &file, "--svg", &svg]].concat()).end());
    assert!(saved["probes"].as_array().is_some_and(|probes| !probes.is_empty()), "{saved}");
    assert_eq!(link(&saved, "CPU 0")["looks"], serde_json::json!([link(&saved, "CPU 0")["verdict"]]));
    assert!(fs::read_to_string(svg).is_ok_and(|picture| picture.contains("ordinary pages, loopback")));
    let judge = |latency: f64, gbps: f64| {
        let scaled = scale(&place, latency, gbps);
        document(&hostping(&[&arguments[..], &["--baseline", &scaled]].concat()).end())
    };
    // Everything used to be far slower, far faster.
    let good = judge(1e6, 1e-6);
    for name in ["CPU 0", "ordinary pages", "the device"] {
        assert_eq!(link(&good, name)["verdict"], "good");
    }
    let bad = judge(1e-6, 1e-6);
    assert_eq!((&link(&bad, "CPU 0")["verdict"], &bad["verdict"]), (&"bad".into(), &"bad".into()));
    assert!(link(&bad, "CPU 0")["remedy"].is_string());
}

#[test]
fn a_file_that_is_no_baseline_is_refused() {
    let place = Place::new("hostping-refused");
    let file = place.path("baseline");
    fs::write(&file, "{}").expect("our directory");
    let file = file.display().to_string();
    let ended = hostping(&["-d", "sim:refused", "--cpu", "0", "--rounds", "1", "--baseline", &file]).end();
    ended.assert_failed(2, "no baseline; make one by --save");
    hostping(&["-d", "sim:refused", "--cpu", "999"]).end().assert_failed(2, "this process may not run there");
}

#[test]
fn a_peer_is_probed_and_its_window_judged() {
    let place = Place::new("hostping-peer");
    // With small packets a window is small, too: none fills 10 Tb/s, however soon answers come.
    let device = |role: &str| format!("memif:{},role={role},mtu=1200", place.path("socket").display());
    let mut server = hostping(&["-d", &device("server"), "--answer"]);
    server.wait_for("answering probes at 10.77.0.1");
    let client = device("client");
    let probe = |rate: &str| {
        let arguments = ["-d", &client, "10.77.0.1", "--cpu", "0", "--rounds", "1", "--json", "--rate", rate];
        document(&hostping(&arguments).end())
    };
    let small = probe("10000");
    assert!(link(&small, "peer 10.77.0.1")["verdict"].is_string());
    let words = link(&small, "window")["words"].as_str().expect("words");
    assert!(words.starts_with("window too small: W = "), "{words}");
    // The server goes on for the next client.
    assert_eq!(link(&probe("0.000001"), "window")["verdict"], "good");
    server.signal("-TERM");
    server.end().assert_success();
}

/// A line for each look.
fn looks(ended: &Ended) -> Vec<Value> {
    let lines = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    lines.lines().map(|line| serde_json::from_str(line).expect("a document a line")).collect()
}

/// Two programs of which the one that tells at `stat` drops frames all the time.
fn dropping(place: &Place, stat: &str) -> [Running; 2] {
    let [server, mut client] = ["server", "client"].map(|role| {
        let mut command = srnic("write-bw");
        let socket = place.path("socket");
        let device = match role {
            "client" => format!("fault:loss=2%:memif:{},stat={stat}", socket.display()),
            _ => format!("memif:{}", socket.display()),
        };
        command.args(["-d", &device, "-p", &place.port.to_string(), "-D", "600", "-u", "20", "--progress"]);
        command.args((role == "client").then_some("127.0.0.1"));
        Running::start(command)
    });
    client.wait_for("messages in");
    [server, client]
}

/// An hour would pass until the next look, but frames are dropped.
#[test]
fn drops_of_a_program_are_looked_at_at_once() {
    let place = Place::new("hostping-drops");
    let stat = place.path("stat").display().to_string();
    let programs = dropping(&place, &stat);
    let watch = ["-d", "sim:hostping-drops", "--cpu", "0", "--rounds", "1", "--json", "--watch", "3600"];
    let ended = hostping(&[&watch[..], &["--looks", "2", "--drops-of", &stat]].concat()).end();
    let looks = looks(&ended);
    let reasons: Vec<_> = looks.iter().map(|look| look["reason"].as_str().expect("a word")).collect();
    assert_eq!(reasons, ["start", "drops"], "{looks:?}");
    assert!(looks[1]["dropped"].as_u64() > Some(0) && looks[1]["dropped_by"] == stat.as_str(), "{looks:?}");
    assert!(looks[1]["cpu_share"].as_f64() > Some(0.0), "{looks:?}");
    drop(programs);
    let ended = hostping(&[&watch[..], &["--drops-of", &stat]].concat()).end();
    ended.assert_failed(2, "is the device open");
}

/// Waits until a look has drawn its picture.
fn wait_for_picture(path: &Path) {
    let deadline = Instant::now() + LIMIT;
    while !path.exists() {
        assert!(Instant::now() < deadline, "no look");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Frames are dropped all the time, and so the second look begins at once. It is interrupted soon
/// after that.
#[test]
fn who_interrupts_a_look_is_told_by_the_look_before() {
    let place = Place::new("hostping-interrupted");
    let stat = place.path("stat").display().to_string();
    let programs = dropping(&place, &stat);
    let picture = place.path("svg");
    let own =
        ["-d", "sim:hostping-interrupted", "--cpu", "0", "--rounds", "100", "--json", "--watch", "3600"];
    let client =
        hostping(&[&own[..], &["--drops-of", &stat, "--svg", &picture.display().to_string()]].concat());
    wait_for_picture(&picture);
    std::thread::sleep(Duration::from_millis(300));
    client.signal("-INT");
    let ended = client.end();
    let looks = looks(&ended);
    let last = looks.last().unwrap_or_else(|| panic!("{}", ended.error()));
    assert_eq!(ended.0.status.code(), Some(i32::from(last["verdict"] == "bad")), "{last}");
    drop(programs);
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let refused = |arguments: &[&str]| {
        hostping(&[&["-d", "sim:options"], arguments].concat()).end().assert_failed(2, "cannot be used with");
    };
    for nothing in [
        &["--save", "f"][..],
        &["--watch", "1"],
        &["--watch", "1", "--looks", "2"],
        &["--watch", "1", "--drops-of", "/tmp/a.stat"],
        &["--rounds", "3"],
        &["--baseline", "f"],
        &["--svg", "f"],
    ] {
        for mode in ["--preflight", "--answer"] {
            refused(&[&[mode], nothing].concat());
        }
    }
    refused(&["--preflight", "--port", "1"]);
    refused(&["--answer", "--cpu", "0"]);
    refused(&["--answer", "--json"]);
    // What is sick would become what is usual.
    refused(&["--watch", "1", "--save", "f"]);
}

/// Whatever this machine does meanwhile, what is delayed by a millisecond is slow.
#[test]
fn a_delay_can_be_rehearsed() {
    let place = Place::new("hostping-rehearse");
    let file = place.path("baseline").display().to_string();
    let arguments = ["-d", "sim:rehearse", "--cpu", "0", "--rounds", "1", "--json"];
    document(&hostping(&[&arguments[..], &["--save", &file]].concat()).end());
    let late = ["--baseline", &file, "--rehearse", "the device=1ms"];
    let late = document(&hostping(&[&arguments[..], &late].concat()).end());
    assert_eq!(link(&late, "the device")["verdict"], "bad");
    let wrong = hostping(&[&arguments[..], &["--rehearse", "CPU 9=1us"]].concat()).end();
    wrong.assert_failed(2, "parts are CPU 0, ordinary pages");
}

/// CPUs that this process may use.
fn cpus() -> Vec<String> {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (0..count).map(|cpu| cpu.to_string()).collect()
}

/// `cargo test --release -p srnic-tools --test hostping -- --ignored --nocapture`: what this
/// machine says of itself in twenty looks, and with one part delayed. It is reported: others use
/// it, too.
#[test]
#[ignore = "measures this machine: a minute if it is idle, far longer if not"]
fn this_machine_is_well_and_what_is_delayed_alone_is_named() {
    let place = Place::new("hostping-machine");
    let device = |role: &str| format!("memif:{},role={role}", place.path("socket").display());
    let mut server = hostping(&["-d", &device("server"), "--answer"]);
    server.wait_for("answering probes at 10.77.0.1");
    let (client, cpus) = (device("client"), cpus());
    let baseline = place.path("baseline").display().to_string();
    let run = |more: &[&str]| {
        let own = ["-d", &client, "10.77.0.1", "--json", "--cpu", &cpus.join(",")];
        hostping(&[&own[..], more].concat()).end_within(Duration::from_secs(600))
    };
    run(&["--save", &baseline]);
    let blamed = |look: &Value| -> Vec<String> {
        let links = look["links"].as_array().expect("an array").iter();
        let blamed = links.filter(|link| link["verdict"] == "bad" || link["verdict"] == "warning");
        blamed.map(|link| link["name"].to_string()).collect()
    };
    let told = |more: &[&str]| blamed(&document(&run(&[&["--baseline", &baseline], more].concat())));
    let alarms: Vec<_> = (0..20).map(|_| told(&[])).filter(|blamed| !blamed.is_empty()).collect();
    println!("20 looks, alarms: {alarms:?}");
    let last = format!("CPU {}", cpus.len() - 1);
    for part in [last.as_str(), "ordinary pages", "the device", "peer 10.77.0.1"] {
        let delay = format!("{part}=20us");
        println!("{delay}: {}", told(&["--rehearse", &delay]).join(", "));
    }
    server.signal("-TERM");
    server.end().assert_success();
}
