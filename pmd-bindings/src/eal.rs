//! DPDK's environment: started once a process, on first use, never stopped.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::error::{EalError, Errno};
use crate::ffi;
use crate::hugepages::{self, Turn};
use crate::log::{self, Caught};
use crate::removal;

/// Where packet buffers live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// Hugepages if enough are free, else ordinary pages.
    #[default]
    Auto,
    /// Hugepages; starting fails without.
    Huge,
    /// Ordinary pages: no set-up on the machine, no privilege, and memif is as fast.
    Normal,
}

/// The configuration with which DPDK is started. The default suits memif and every other port
/// without a PCI device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EalConfig {
    /// Where packet buffers live.
    pub memory: Memory,
    /// Megabytes for all buffers and rings of the process; `None`: [`EalConfig::MEMORY_MB`].
    /// Ordinary pages are only touched when used.
    pub memory_mb: Option<u32>,
    /// Look at the PCI bus, for NICs bound to DPDK. None is touched before it is attached.
    pub pci: bool,
    /// More EAL arguments, verbatim, for those who know what they want (`--file-prefix=..`, `-a
    /// 0000:17:00.0`).
    pub extra: Vec<String>,
}

/// An allow-list with no NIC on it: each is added as it is attached. Nothing has this address.
const NO_NIC_YET: &str = "-affff:ff:1f.7";

impl Default for EalConfig {
    fn default() -> Self {
        Self { memory: Memory::Auto, memory_mb: None, pci: false, extra: Vec::new() }
    }
}

impl EalConfig {
    /// Megabytes of a process that does not say how many: for about twenty ports with frames of
    /// 4608 bytes.
    pub const MEMORY_MB: u32 = 512;

    fn memory_mb(&self) -> u32 {
        self.memory_mb.unwrap_or(Self::MEMORY_MB)
    }

    /// The argument vector, program name first.
    fn arguments(&self, allowed_cpus: &str, hugepages: bool) -> Vec<String> {
        let mut args: Vec<String> = vec!["srnic".into()];
        let mut push = |arg: &str| args.push(arg.into());
        // One lcore over every CPU this thread may run on: EAL pins the calling thread to its
        // lcore's CPUs, and where a thread runs is not a library's business.
        push(&format!("--lcores=0@({allowed_cpus})"));
        push(&format!("-m{}", self.memory_mb()));
        if hugepages {
            push("--in-memory");
            // Memory that memif's zero-copy mode can share.
            push("--single-file-segments");
        } else {
            push("--no-huge");
            // Without it a second process dies with "Cannot create lock". (`--in-memory` implies
            // it, but does not go with --no-huge.)
            push("--no-shconf");
        }
        if !self.pci {
            // Addresses as the process sees them: needs no privilege. As root the default would be
            // physical ones, which only a NIC without an IOMMU needs.
            push("--iova-mode=va");
        }
        push("--no-telemetry");
        push("--force-max-simd-bitwidth=512");
        push(if self.pci { NO_NIC_YET } else { "--no-pci" });
        args.extend(self.extra.iter().cloned());
        args
    }

    fn use_hugepages(&self) -> bool {
        match self.memory {
            Memory::Auto => hugepages::free_mb(Path::new(hugepages::SYSFS)) >= u64::from(self.memory_mb()),
            Memory::Huge => true,
            Memory::Normal => false,
        }
    }
}

/// CPUs this thread may run on, as the kernel lists them: `0-1,4`.
fn allowed_cpus() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or_else(|| "0".into(), |list| list.trim().into())
}

/// DPDK's environment, running.
#[derive(Debug)]
pub struct Eal {
    config: EalConfig,
    hugepages: bool,
}

static EAL: OnceLock<Result<Eal, EalError>> = OnceLock::new();

impl Eal {
    /// Starts DPDK, or returns what is running: the first call's `config` counts, for the life of
    /// the process.
    ///
    /// # Errors
    /// What the first call met: DPDK cannot be started twice, so it is the same error ever after.
    /// [`EalError::Running`] if what is running has not the memory, not as much of it, or not the
    /// bus, that `config` insists on.
    pub fn start(config: &EalConfig) -> Result<&'static Self, EalError> {
        let eal = EAL.get_or_init(|| Self::init(config.clone())).as_ref().map_err(Clone::clone)?;
        let wanted = match config.memory {
            Memory::Huge if !eal.hugepages => Some("hugepages"),
            Memory::Normal if eal.hugepages => Some("ordinary pages"),
            _ if config.memory_mb.is_some_and(|mb| mb > eal.config.memory_mb()) => {
                Some("as much memory as memory= asks for")
            }
            _ if config.pci && !eal.config.pci => Some("the PCI bus"),
            _ => None,
        };
        wanted.map_or(Ok(eal), |wanted| Err(EalError::Running { wanted }))
    }

    /// Returns `true` if packet buffers are in hugepages.
    #[must_use]
    pub fn hugepages(&self) -> bool {
        self.hugepages
    }

    /// Megabytes that it has for buffers and rings, or had at first, if they are hugepages: it
    /// takes more of those while any are free.
    #[must_use]
    pub fn memory_mb(&self) -> u32 {
        self.config.memory_mb()
    }

    /// The configuration that DPDK was started with.
    #[must_use]
    pub fn config(&self) -> &EalConfig {
        &self.config
    }

    /// DPDK's version at run time, such as `DPDK 22.11.11`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: a constant, terminated string.
        unsafe { CStr::from_ptr(ffi::pmd_version()) }.to_string_lossy().into_owned()
    }

    fn init(config: EalConfig) -> Result<Self, EalError> {
        let mut argv = Vec::new();
        // Until DPDK has taken what it needs.
        let _turn = (config.memory != Memory::Normal).then(Turn::wait);
        let hugepages = config.use_hugepages();
        for arg in config.arguments(&allowed_cpus(), hugepages) {
            let arg = CString::new(arg.clone()).map_err(|_| EalError::Argument(arg))?;
            // Leaked: EAL keeps pointers into its arguments. Once a process.
            argv.push(arg.into_raw());
        }
        let argc = i32::try_from(argv.len()).map_err(|_| EalError::Argument("too many arguments".into()))?;
        argv.push(std::ptr::null_mut());
        let argv = argv.leak();
        let mut log = Caught::new();
        // SAFETY: argv holds argc terminated strings and a null, all of which live for ever; the
        // log is writable for its length. OnceLock makes this the only call of the process.
        let ret = unsafe { ffi::pmd_eal_init(argc, argv.as_mut_ptr(), log.target()) };
        if ret < 0 {
            let (errno, log) = (Errno::last(), log.text());
            return Err(EalError::Init { errno, hint: hint(hugepages, &log), log });
        }
        log::quieten();
        if config.pci {
            removal::listen();
        }
        Ok(Self { config, hugepages })
    }
}

fn hint(hugepages: bool, log: &str) -> &'static str {
    if log.contains("Cannot create lock") || log.contains("Cannot init config") {
        "Another DPDK process uses the same file prefix: drop --file-prefix, or give each process its own"
    } else if hugepages && (log.contains("hugepage") || log.contains("Cannot init memory")) {
        "Not enough free hugepages: reserve some (sysctl vm.nr_hugepages=512), or do without (hugepages=off)"
    } else if log.contains("Cannot init memory") {
        "The system gives DPDK not so much memory: lower memory= of the device (EalConfig::memory_mb)"
    } else {
        "Check EalConfig::extra and DPDK's log"
    }
}

#[cfg(test)]
#[path = "eal_tests.rs"]
mod tests;
