//! `srnic search` as a process.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};
use support::{Ended, LIMIT, Place, Running, srnic};

fn search(arguments: &[&str]) -> Ended {
    let mut command = srnic("search");
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command).end()
}

#[test]
fn a_short_search_is_the_same_each_time() {
    let report = || {
        let ended = search(&["--points", "5", "--seed", "1", "--json"]);
        ended.assert_success();
        serde_json::from_slice::<Value>(&ended.0.stdout).expect("a document")
    };
    let first = report();
    assert_eq!((&first["points"], &first["complete"]), (&5.into(), &true.into()), "{first}");
    assert_eq!(first, report());
}

#[test]
fn a_workload_is_played_from_a_line_and_from_a_file() {
    let line = "{faults = {loss = 0.01}, workload = [{name = 'bulk', op = 'read', qps = 2}]}";
    let played = search(&["--replay", line]);
    let place = Place::new("search-replay");
    let file = place.path("workload");
    fs::write(&file, "[faults]\nloss = 0.01\n[[workload]]\nname = 'bulk'\nop = 'read'\nqps = 2\n")
        .expect("ours");
    let again = search(&["--replay", &file.display().to_string()]);
    assert_eq!((played.0.status, &played.0.stdout), (again.0.status, &again.0.stdout));
    assert!(String::from_utf8_lossy(&played.0.stdout).contains("tx_retransmits"));
}

/// Until Ctrl-C is no longer what ends the process at once.
fn wait_until_it_catches_signals(running: &Running) {
    let is_caught = |caught: &str| u64::from_str_radix(caught.trim(), 16).is_ok_and(|bits| bits & 2 != 0);
    let deadline = Instant::now() + LIMIT;
    let path = format!("/proc/{}/status", running.id());
    while !fs::read_to_string(&path)
        .expect("it runs")
        .lines()
        .any(|line| line.strip_prefix("SigCgt:").is_some_and(is_caught))
    {
        assert!(Instant::now() < deadline, "it catches no signal");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ten seconds of virtual time are minutes of ours.
#[test]
fn ctrl_c_ends_a_long_replay() {
    let line = "{time_us = 10000000, workload = [{qps = 4096}]}";
    let mut command = srnic("search");
    command.args(["--replay", line]).env_remove("SRNIC_LOG");
    let running = Running::start(command);
    wait_until_it_catches_signals(&running);
    running.signal("-INT");
    running.end().assert_failed(2, "interrupted");
}

/// On two engines: a workload from a line, and two that the search draws.
#[test]
fn workloads_are_played_on_real_engines() {
    let line = "{faults = {loss = 0.1}, time_us = 100000, workload = [{op = 'send', qps = 3, depth = 8, signaled = 4, batch = 2, regions = 4}]}";
    let ended = search(&["--real", "--json", "--replay", line]);
    let played: Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
    let entry = &played["entries"][0];
    assert!(entry["requests"].as_u64() > Some(0) && entry["errors"] == 0 && entry["stuck"] == 0, "{played}");
    assert!(played["counters"]["tx_retransmits"].as_u64() > Some(0), "packets are lost: {played}");
    let ended = search(&["--real", "--points", "2", "--json"]);
    let report: Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
    assert_eq!((&report["real"], &report["points"]), (&true.into(), &2.into()), "{report}");
    let odd = "{time_us = 20000, workload = [{depth = 10, signaled = 10, batch = 4}]}";
    let ended = search(&["--real", "--json", "--replay", odd]);
    let played: Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
    assert!(played["entries"][0]["requests"].as_u64() > Some(10), "{played}");
    let refused = search(&["--real", "--replay", "{workload = [{pace_ns = 5}]}"]);
    refused.assert_failed(2, "--real cannot play pace_ns of workload 1");
    search(&["--real", "--replay", "{host = {rx_ring = 9}, workload = [{}]}"]).assert_failed(2, "[host]");
}

#[test]
fn what_is_no_workload_is_refused() {
    search(&["--replay", "{workload = [{op = 'fly'}]}"]).assert_failed(2, "--replay: ");
    search(&["--replay", "/nowhere/at/all"]).assert_failed(2, "cannot read");
}
