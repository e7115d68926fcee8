use super::*;
use crate::hostping::finding::Level;
use std::fs;
use std::path::PathBuf;

const DEVICE: &str = "af_packet:eth7,ip=192.168.7.1,poll=thread@1";

/// A machine of files, of two nodes with a core each, which has nothing to complain of.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("srnic-preflight-{name}-{}", std::process::id()));
        let fake = Self(root);
        for cpu in 0..4 {
            fake.write(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "performance\n");
            fake.write(
                &format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
                &cpu.to_string(),
            );
        }
        for (path, text) in [
            ("proc/self/status", "Name:\tsrnic\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"),
            ("proc/self/cgroup", "0::/user.slice/srnic.service\n"),
            ("proc/loadavg", "0.42 0.30 0.10 1/99 4711\n"),
            ("proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:     512\nHugePages_Free:      300\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node1/cpulist", "2-3\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/srnic.service/cpu.max", "200000 100000\n"),
            ("sys/class/net/eth7/mtu", "9000\n"),
            ("sys/class/net/eth7/operstate", "up\n"),
            ("sys/class/net/eth7/device/numa_node", "0\n"),
        ] {
            fake.write(path, text);
        }
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory of our own");
        fs::write(path, text).expect("written");
    }

    fn found(&self, device: &str) -> Vec<Finding> {
        check(&Host::at(&self.0), Some(&device.parse().expect("a device")), &[])
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_machine_that_is_well_is_told_so() {
    let found = Fake::new("well").found(DEVICE);
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(|finding| finding.level == Level::Good), "{found:?}");
}

/// A sickness: its name, the file that has it and what it says, the device, and what is found.
type Sickness = (&'static str, &'static str, &'static str, &'static str, (&'static str, Level, &'static str));

const SICK: &[Sickness] = &[
    (
        "governor",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
        "powersave",
        DEVICE,
        ("governor", Level::Warning, "powersave on 1 of 2 CPUs, of which CPU 1 is the first"),
    ),
    (
        "far",
        "sys/class/net/eth7/device/numa_node",
        "1",
        DEVICE,
        ("NUMA", Level::Bad, "the NIC is on node 1, and this process may use CPUs of node 0 only"),
    ),
    (
        "pages",
        "proc/meminfo",
        "HugePages_Free: 0",
        DEVICE,
        ("huge pages", Level::Warning, "none are free: large buffers move about a tenth slower without"),
    ),
    (
        "no-pages",
        "proc/meminfo",
        "HugePages_Free: 0",
        "af_packet:eth7,ip=192.168.7.1,hugepages=on",
        ("huge pages", Level::Bad, "none are free, and the device has hugepages=on"),
    ),
    (
        "sibling",
        "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
        "1,3",
        DEVICE,
        ("cores", Level::Warning, "CPU 1, which is to poll, is one half of a core; CPU 3 is the other"),
    ),
    (
        "busy",
        "proc/loadavg",
        "6.5 2 1 1/99 4711",
        DEVICE,
        (
            "cores",
            Level::Warning,
            "in the last minute 6.5 threads wanted to run at once, and there are 2 CPUs",
        ),
    ),
    (
        "forbidden",
        "proc/loadavg",
        "0 0 0 1/99 4711",
        "af_packet:eth7,ip=192.168.7.1,poll=thread@2",
        ("cores", Level::Bad, "CPU 2 is to poll, and this process may not use it"),
    ),
    (
        "quota",
        "sys/fs/cgroup/user.slice/cpu.max",
        "50000 100000",
        DEVICE,
        (
            "quota",
            Level::Bad,
            "its control group may use 0.5 CPUs: a thread that polls uses one whole, and past the quota all are stopped",
        ),
    ),
    (
        "mtu",
        "sys/class/net/eth7/mtu",
        "1500",
        DEVICE,
        (
            "link",
            Level::Warning,
            "with an MTU of 1500 a packet carries 1408 bytes at most; 4096 need fewer packets",
        ),
    ),
    (
        "long",
        "sys/class/net/eth7/mtu",
        "1500",
        "af_packet:eth7,ip=192.168.7.1,mtu=4590",
        ("link", Level::Bad, "the device has mtu=4590, and eth7 has 1500"),
    ),
    (
        "xdp",
        "sys/class/net/eth7/mtu",
        "9000",
        "af_xdp:eth7,ip=192.168.7.1",
        ("link", Level::Bad, "eth7 has an MTU of 9000, and af_xdp can take 3438"),
    ),
    (
        "xdp-short",
        "sys/class/net/eth7/mtu",
        "1500",
        "af_xdp:eth7,ip=192.168.7.1",
        (
            "link",
            Level::Warning,
            "with an MTU of 1500 a packet carries 1408 bytes at most; 2048 need fewer packets",
        ),
    ),
    (
        "pair",
        "sys/class/net/eth7/mtu",
        "9000",
        "memif:/run/a,role=client,mtu=1500",
        (
            "link",
            Level::Warning,
            "with an MTU of 1500 a packet carries 1408 bytes at most; 4096 need fewer packets",
        ),
    ),
    ("down", "sys/class/net/eth7/operstate", "down", DEVICE, ("link", Level::Bad, "eth7 is down")),
    (
        "missing",
        "proc/loadavg",
        "0 0 0 1/99 4711",
        "af_packet:eth8,ip=192.168.7.1",
        ("link", Level::Bad, "there is no interface eth8"),
    ),
];

/// Each machine has one thing wrong. That is what is told, with a remedy, and nothing else is.
#[test]
fn each_sick_machine_is_told_its_sickness_and_no_other() {
    for (name, path, text, device, (about, level, words)) in SICK {
        let fake = Fake::new(name);
        fake.write(path, text);
        let found = fake.found(device);
        let complaints: Vec<&Finding> = found.iter().filter(|finding| finding.level != Level::Good).collect();
        let [complaint] = complaints.as_slice() else { panic!("{name}: {complaints:?}") };
        assert_eq!(
            (complaint.name.as_str(), complaint.level, complaint.words.as_str()),
            (*about, *level, *words)
        );
        assert!(complaint.remedy.is_some(), "{name}");
    }
}

#[test]
fn one_cpu_and_many_nodes_are_warned_of() {
    let fake = Fake::new("one");
    fake.write("proc/self/status", "Cpus_allowed_list:\t1\n");
    fake.write("sys/fs/cgroup/user.slice/srnic.service/cpu.max", "100000 100000");
    let words = |found: Vec<Finding>, about: &str| {
        found.into_iter().find(|finding| finding.name == about).expect("it is looked at").words
    };
    let device = "af_packet:eth7,ip=192.168.7.1";
    assert!(words(fake.found(device), "cores").starts_with("this process may use one CPU"));
    fake.write("proc/self/status", "Cpus_allowed_list:\t0-3\n");
    assert!(words(fake.found(device), "NUMA").starts_with("this process may use CPUs of 2 nodes"));
}

#[test]
fn two_programs_that_poll_on_one_core_are_warned_of() {
    let fake = Fake::new("halves");
    for cpu in [0, 1] {
        fake.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), "0-1");
    }
    let found = check(&Host::at(&fake.0), None, &[0, 1]);
    let words = &found[3].words;
    assert_eq!(words, "CPU 0, which is to poll, is one half of a core; CPU 1 is the other");
    assert_eq!(check(&Host::at(&fake.0), None, &[])[3].level, Level::Good);
}

/// What cannot be seen is neither good nor bad.
#[test]
fn an_empty_machine_is_unknown() {
    let fake = Fake::new("empty");
    fs::remove_dir_all(&fake.0).expect("ours");
    let levels: Vec<Level> =
        check(&Host::at(&fake.0), None, &[]).iter().map(|finding| finding.level).collect();
    assert_eq!(levels, [Level::Unknown; 5]);
}

/// Whether there is a quota is known where a `cpu.max` can be read, and nowhere else.
#[test]
fn a_quota_that_nothing_tells_is_unknown() {
    let fake = Fake::new("quota-unknown");
    let level = || fake.found(DEVICE)[4].level;
    fake.write("proc/self/cgroup", "4:cpu,cpuacct:/user.slice\n0::/elsewhere\n");
    assert_eq!(level(), Level::Unknown, "no cpu.max");
    fake.write("proc/self/cgroup", "4:cpu,cpuacct:/user.slice\n");
    assert_eq!(level(), Level::Unknown, "cgroup v1");
    fake.write("proc/self/cgroup", "0::/user.slice\n");
    assert_eq!(fake.found(DEVICE)[4].words, "no control group limits the CPU time of this process");
    assert_eq!(level(), Level::Good, "max");
}

/// The smaller of two MTUs is what is to be made larger: that of the device, or of the interface,
/// or both.
#[test]
fn the_mtu_that_is_too_small_is_the_one_to_change() {
    let fake = Fake::new("mtu-remedy");
    let own = "give the device mtu=4590, at both ends";
    let set = "ip link set eth7 mtu 4590, at the peer and in between, too";
    for (of_device, of_interface, remedy) in [
        (",mtu=1500", "9000", own.to_owned()),
        (",mtu=1500", "1500", format!("{set}; and {own}")),
        ("", "1500", set.to_owned()),
        (",mtu=4590", "1500", set.to_owned()),
    ] {
        fake.write("sys/class/net/eth7/mtu", of_interface);
        let found = fake.found(&format!("af_packet:eth7,ip=192.168.7.1{of_device}"));
        assert_eq!(found[5].remedy, Some(remedy), "{of_device} on {of_interface}");
    }
    fake.write("sys/class/net/eth7/mtu", "3438");
    let found = fake.found("af_xdp:eth7,ip=192.168.7.1,mtu=1500");
    assert_eq!(found[5].remedy.as_deref(), Some("give the device mtu=3438, at both ends"));
}

#[test]
fn numbers_are_read_from_lists_of_ranges() {
    let fake = Fake::new("lists");
    for (text, numbers) in
        [("0-2,5", vec![0, 1, 2, 5]), ("", vec![]), ("7-7, 1", vec![1, 7]), ("x,0-99999999", vec![])]
    {
        fake.write("sys/devices/system/node/online", text);
        assert_eq!(Host::at(&fake.0).nodes(), numbers, "{text}");
    }
}
