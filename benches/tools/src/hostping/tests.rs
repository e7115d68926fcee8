//! Hosts made of files: each has one thing wrong, and only that is told.

use super::host::{Host, parse_set};
use super::preflight::{Check, Verdict, Wanted, checks, document, is_fit};
use std::fs;
use std::path::PathBuf;

/// A directory of a test's own.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A host with two cores of two threads and nothing wrong, but for `changed`: files by their path.
fn host(name: &str, changed: &[(&str, &str)]) -> (Made, Host) {
    let root = std::env::temp_dir().join(format!("srnic-hostping-{name}-{}", std::process::id()));
    let mut files: Vec<(String, &str)> = vec![
        ("sys/devices/system/cpu/online".to_owned(), "0-3"),
        ("sys/class/net/eth9/device/numa_node".to_owned(), "0"),
        ("sys/class/net/eth9/mtu".to_owned(), "9000"),
        ("sys/devices/system/node/node0/cpulist".to_owned(), "0-3"),
        ("proc/loadavg".to_owned(), "0.50 0.40 0.30 1/99 4711"),
        ("proc/meminfo".to_owned(), "MemTotal: 9 kB\nHugePages_Total:     8\nHugePages_Free:      8\n"),
    ];
    for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
        let cpu = format!("sys/devices/system/cpu/cpu{cpu}");
        files.push((format!("{cpu}/cpufreq/scaling_governor"), "performance\n"));
        files.push((format!("{cpu}/topology/thread_siblings_list"), siblings));
    }
    for (path, text) in
        files.into_iter().chain(changed.iter().map(|(path, text)| ((*path).to_owned(), *text)))
    {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory of ours");
        fs::write(path, text).expect("a file of ours");
    }
    (Made(root.clone()), Host(root))
}

fn wanted() -> Wanted {
    Wanted { processors: [0, 1].into(), interface: Some("eth9".to_owned()) }
}

/// Names of what is slow, and the remedies.
fn slow(checks: &[Check]) -> Vec<(&'static str, String)> {
    let slow = checks.iter().filter_map(|check| match &check.verdict {
        Verdict::Slow { remedy, .. } => Some((check.name, remedy.clone())),
        Verdict::Good(_) | Verdict::Unknown(_) => None,
    });
    slow.collect()
}

#[test]
fn of_a_host_that_is_fit_everything_is_good() {
    let (_made, host) = host("fit", &[]);
    let checks = checks(&host, &wanted());
    assert!(checks.iter().all(|check| matches!(check.verdict, Verdict::Good(_))), "{checks:?}");
    assert!(is_fit(&checks) && document(&checks)["verdict"] == "good");
}

#[test]
fn each_thing_that_is_wrong_is_named_alone_with_its_remedy() {
    let cases: [(&str, &str, &str, &str); 6] = [
        ("governor", "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave", "cpupower"),
        ("shared cores", "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1", "lscpu"),
        ("huge pages", "proc/meminfo", "HugePages_Total: 8\nHugePages_Free: 0", "vm.nr_hugepages"),
        ("numa", "sys/devices/system/node/node0/cpulist", "2-3", "numactl --cpunodebind=0"),
        ("link mtu", "sys/class/net/eth9/mtu", "1500", "ip link set eth9 mtu 9000"),
        ("processors", "proc/loadavg", "7.10 1 1 1/1 1", "taskset"),
    ];
    for (index, (name, path, text, remedy)) in cases.into_iter().enumerate() {
        let (_made, host) = host(&format!("sick{index}"), &[(path, text)]);
        let checks = checks(&host, &wanted());
        let [(named, told)] = &slow(&checks)[..] else { panic!("{name}: {checks:?}") };
        assert!(*named == name && told.contains(remedy), "{name}: {checks:?}");
        let document = document(&checks);
        let link =
            document["links"].as_array().and_then(|links| links.iter().find(|link| link["name"] == name));
        assert_eq!(link.map(|link| &link["verdict"]), Some(&"slow".into()), "{document}");
        assert_eq!(document["verdict"], "slow");
    }
}

#[test]
fn of_a_host_that_tells_nothing_nothing_is_claimed() {
    let checks = checks(&Host("/nowhere".into()), &Wanted { interface: None, ..wanted() });
    assert!(checks.iter().all(|check| matches!(check.verdict, Verdict::Unknown(_))), "{checks:?}");
}

#[test]
fn sets_are_read_as_the_kernel_writes_them() {
    assert_eq!(parse_set("0-2,8"), Some([0, 1, 2, 8].into()));
    assert_eq!(parse_set(""), Some([].into()));
    for wrong in ["2-1", "a", "1-", "0-4000000000"] {
        assert_eq!(parse_set(wrong), None, "{wrong}");
    }
}
