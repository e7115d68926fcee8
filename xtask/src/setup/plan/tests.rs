use super::*;
use crate::error::Result;
use crate::setup::needs::NEEDS;

/// What the machine has: each need, missing if named.
fn findings(missing: &[&str]) -> Vec<Finding> {
    let found = |name: &str| -> Result<String> {
        if missing.contains(&name) { Err(Error::new("not found")) } else { Ok("here".to_owned()) }
    };
    NEEDS.iter().map(|need| Finding { need, found: found(need.name) }).collect()
}

fn unasked() -> Option<Privilege> {
    panic!("nothing is missing, so nobody asks for root");
}

#[test]
fn nothing_missing_asks_for_nothing() {
    assert_eq!(decide(&findings(&[]), unasked, true), Plan::Nothing);
    assert_eq!(decide(&findings(&[]), unasked, false), Plan::Nothing);
}

#[test]
fn only_the_missing_packages_are_installed() {
    let plan = decide(&findings(&["DPDK", "tshark"]), || Some(Privilege::Root), true);
    assert_eq!(plan, Plan::Install { packages: vec!["libdpdk-dev", "tshark"], privilege: Privilege::Root });
}

#[test]
fn a_bare_machine_gets_all_packages_once() {
    let all: Vec<&str> = NEEDS.iter().map(|need| need.name).collect();
    let Plan::Install { packages, privilege } = decide(&findings(&all), || Some(Privilege::Sudo), true)
    else {
        panic!("with sudo we install");
    };
    assert_eq!(privilege, Privilege::Sudo);
    assert_eq!(
        packages,
        [
            "gcc",
            "libc6-dev",
            "pkg-config",
            "libdpdk-dev",
            "libclang-dev",
            "tshark",
            "qemu-system-x86",
            "busybox-static",
            "kmod",
            "mmdebstrap",
            "iproute2",
            "iputils-ping",
            "tcpdump",
            "valgrind",
            "libibverbs-dev",
            "ibverbs-utils",
            "perftest",
            "rdmacm-utils",
            "ucx-utils",
            "python3-pyverbs",
            "iperf3",
            "redis-server",
            "redis-tools",
            "libfabric-bin",
            "openmpi-bin",
            "netpipe-openmpi",
            "hpcc",
            "python3-mpi4py",
            "python3-numpy",
            "rsync",
            "python3",
            "curl",
            "ethtool",
            "linux-perf",
        ]
    );
}

#[test]
fn without_root_the_exact_command_is_shown() {
    let Plan::Refuse(error) = decide(&findings(&["DPDK", "libclang"]), || None, true) else {
        panic!("without root nothing is installed");
    };
    assert!(error.0.contains("sudo apt-get install -y"), "{error}");
    assert!(error.0.contains(" libdpdk-dev libclang-dev\n"), "{error}");
    assert!(error.0.contains("DPDK: not found (for ports"), "{error}");
}

#[test]
fn missing_options_do_not_stop_anyone() {
    let Plan::DoWithout(note) = decide(&findings(&["valgrind"]), || None, true) else {
        panic!("valgrind is optional");
    };
    assert!(note.contains("valgrind: not found (for instruction counts, optional)"), "{note}");
}

#[test]
fn without_apt_a_person_is_told_what_to_do() {
    let Plan::Refuse(error) = decide(&findings(&["DPDK"]), || Some(Privilege::Root), false) else {
        panic!("there is no apt-get to run");
    };
    assert!(error.0.contains("no apt-get") && error.0.contains("PKG_CONFIG_PATH"), "{error}");
    assert!(!error.0.contains("apt-get install"), "{error}");
}
