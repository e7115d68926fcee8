//! `srnic calibrate` as a process.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use serde_json::Value;
use std::fs;
use support::{Ended, Place, Running, srnic};

fn run(subcommand: &str, arguments: &[&str]) -> Ended {
    let mut command = srnic(subcommand);
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command).end()
}

/// What it writes is taken by a device and by the simulated hosts.
#[test]
fn a_machine_is_measured_and_its_table_is_taken() {
    let place = Place::new("calibrate");
    let file = place.path("costs").display().to_string();
    let ended = run("calibrate", &[&file, "--rounds", "1", "--time", "2", "--json"]);
    ended.assert_success();
    let document: Value = serde_json::from_slice(&ended.0.stdout).expect("a document");
    let of = |table: &str, key: &str| document[table][key].as_u64().expect("a whole number");
    assert_eq!(of("costs", "write") + of("costs", "packet"), 100, "a WRITE of one packet: {document}");
    assert!(of("host", "frame_ns") > 0 && of("host", "control_ns") > 0, "{document}");
    assert!(document["measured_ns"]["write_64k"].as_f64() > document["measured_ns"]["write_8"].as_f64());
    let table = fs::read_to_string(&file).expect("it was written");
    assert!(table.contains(&format!("atomic = {} #", of("costs", "atomic"))), "{table}");
    let device = format!("sim:calibrate,costs={file}");
    run("devinfo", &["-d", &device]).assert_success();
    let matrix = place.path("matrix.toml").display().to_string();
    let sides = "attacker = [{name = 'a', workload = [{}]}]\nvictim = [{name = 'v', workload = [{}]}]\n";
    fs::write(&matrix, format!("time_us = 20\n{sides}")).expect("ours");
    let short = ["--matrix", &matrix, "--costs", &file, "--json"];
    let played = run("isolate", &short);
    assert!(serde_json::from_slice::<Value>(&played.0.stdout).is_ok(), "{:?}", played.0);
    fs::write(&file, "[host]\nturn_ns = 5\n").expect("ours");
    run("devinfo", &["-d", &device]).assert_failed(1, "it has no [costs]");
    run("isolate", &short).assert_failed(2, "costs");
}
