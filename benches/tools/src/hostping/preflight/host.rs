//! What a machine says of itself in /proc and /sys.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use verbs_api::{DeviceSpec, Transport};

/// A machine: this one, or one that a directory describes.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine whose `proc` and `sys` are below `root`; `/` for this one.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The CPUs that this process may use.
    #[must_use]
    pub fn allowed_cpus(&self) -> Vec<usize> {
        let status = self.read("proc/self/status").unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(list).unwrap_or_default()
    }

    /// How the clock of a CPU is chosen, if that can be seen.
    #[must_use]
    pub fn governor(&self, cpu: usize) -> Option<String> {
        self.read(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
    }

    /// The CPUs of its core, itself among them.
    #[must_use]
    pub fn siblings(&self, cpu: usize) -> Vec<usize> {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        self.read(&path).map(|text| list(&text)).unwrap_or_default()
    }

    /// NUMA nodes that have memory or CPUs.
    #[must_use]
    pub fn nodes(&self) -> Vec<usize> {
        self.read("sys/devices/system/node/online").map(|text| list(&text)).unwrap_or_default()
    }

    /// The CPUs of a node.
    #[must_use]
    pub fn cpus_of_node(&self, node: usize) -> Vec<usize> {
        let path = format!("sys/devices/system/node/node{node}/cpulist");
        self.read(&path).map(|text| list(&text)).unwrap_or_default()
    }

    /// The node of the NIC below a device, if there is one and the machine tells.
    #[must_use]
    pub fn node_of(&self, device: &DeviceSpec) -> Option<usize> {
        let directory = match &device.transport {
            Transport::AfPacket { interface, .. } | Transport::AfXdp { interface } => {
                format!("sys/class/net/{interface}/device")
            }
            Transport::Pci { address } => format!("sys/bus/pci/devices/{address}"),
            _ => return None,
        };
        // -1 where nobody knows.
        self.read(&format!("{directory}/numa_node"))?.parse().ok()
    }

    /// Hugepages of the default size that are free.
    #[must_use]
    pub fn free_hugepages(&self) -> Option<u64> {
        let meminfo = self.read("proc/meminfo")?;
        meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"))?.trim().parse().ok()
    }

    /// Threads that ran or wanted to, on average over a minute.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        self.read("proc/loadavg")?.split_whitespace().next()?.parse().ok()
    }

    /// CPUs' worth of time that the control groups of this process may use: the least of all that
    /// it is in, infinite without a limit. `None` if none of them tells.
    #[must_use]
    pub fn quota(&self) -> Option<f64> {
        let groups = self.read("proc/self/cgroup")?;
        let group = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::/"))?);
        let of_group =
            |group: &Path| quota_of(&self.read(&format!("sys/fs/cgroup/{}/cpu.max", group.display()))?);
        group.ancestors().filter_map(of_group).min_by(f64::total_cmp)
    }

    /// The MTU of an interface in bytes.
    #[must_use]
    pub fn mtu(&self, interface: &str) -> Option<u32> {
        self.read(&format!("sys/class/net/{interface}/mtu"))?.parse().ok()
    }

    /// Whether an interface can move frames. Some, such as tunnels, do not know.
    #[must_use]
    pub fn is_up(&self, interface: &str) -> bool {
        let state = self.read(&format!("sys/class/net/{interface}/operstate")).unwrap_or_default();
        matches!(state.as_str(), "up" | "unknown")
    }
}

/// CPUs of a line such as `50000 100000`: microseconds in each period of so many, or `max`.
fn quota_of(text: &str) -> Option<f64> {
    let (most, period) = text.split_once(' ')?;
    if most == "max" {
        return Some(f64::INFINITY);
    }
    let (most, period) = (most.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (period > 0.0).then_some(most / period)
}

/// The numbers of `0-1,4`.
fn list(text: &str) -> Vec<usize> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    };
    let numbers: BTreeSet<u16> = text.split(',').filter_map(range).flatten().collect();
    numbers.into_iter().map(usize::from).collect()
}
