//! What the build and the tests need from the system, and how to see whether it is there.
//!
//! Each probe looks for the thing itself, not for a package: a DPDK from elsewhere, found through
//! `PKG_CONFIG_PATH`, is as good.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Scope;
use crate::error::{Error, Result};

#[path = "../../../pmd-bindings/build/release.rs"]
mod release;

/// One thing that the build or the tests need.
pub struct Need {
    /// What it is.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Debian packages that bring it.
    pub packages: &'static [&'static str],
    /// What cannot do without it.
    pub scope: Scope,
    /// What a person does where the packages do not help.
    pub by_hand: &'static str,
    /// Its version or place, or why it is missing.
    pub probe: fn() -> Result<String>,
}

/// All of it. The order is that of the report.
pub const NEEDS: &[Need] = &[
    Need {
        name: "C compiler",
        purpose: "the C part of the DPDK bindings, and the linker",
        packages: &["gcc", "libc6-dev"],
        scope: Scope::Build,
        by_hand: "Install a C compiler, called `cc`, and the C library's headers.",
        probe: c_compiler,
    },
    Need {
        name: "pkg-config",
        purpose: "to find DPDK",
        packages: &["pkg-config"],
        scope: Scope::Build,
        by_hand: "Install pkg-config.",
        probe: pkg_config,
    },
    Need {
        name: "DPDK",
        purpose: "ports: memif and everything else that moves frames",
        packages: &["libdpdk-dev"],
        scope: Scope::Build,
        by_hand: "Install DPDK 22.11 to 25.11 with its headers, and let PKG_CONFIG_PATH name the directory of \
                  libdpdk.pc.",
        probe: dpdk,
    },
    Need {
        name: "libclang",
        purpose: "bindgen, which reads DPDK's headers",
        packages: &["libclang-dev"],
        scope: Scope::Build,
        by_hand: "Install libclang, and let LIBCLANG_PATH name the directory of libclang.so.",
        probe: libclang,
    },
    Need {
        name: "tshark",
        purpose: "tests that let Wireshark read our packets",
        packages: &["tshark"],
        scope: Scope::Tests,
        by_hand: "Install tshark.",
        probe: || first_line("tshark", &["--version"]),
    },
    Need {
        name: "QEMU",
        purpose: "runs against Linux soft-RoCE, in a virtual machine",
        packages: &["qemu-system-x86", "busybox-static", "kmod"],
        scope: Scope::Interop,
        by_hand: "Install qemu-system-x86_64, a static busybox, and modprobe (kmod).",
        probe: virtual_machine,
    },
    Need {
        name: "mmdebstrap",
        purpose: "chroots of releases of Debian and Ubuntu",
        packages: &["mmdebstrap"],
        scope: Scope::Distributions,
        by_hand: "Install mmdebstrap.",
        probe: || first_line("mmdebstrap", &["--version"]),
    },
    Need {
        name: "network tools",
        purpose: "tests of ports over interfaces of the kernel's: ip, ping, tcpdump",
        packages: &["iproute2", "iputils-ping", "tcpdump"],
        scope: Scope::Tests,
        by_hand: "Install ip (iproute2), ping and tcpdump.",
        probe: network_tools,
    },
    Need {
        name: "valgrind",
        purpose: "instruction counts",
        packages: &["valgrind"],
        scope: Scope::Tests,
        by_hand: "Install valgrind.",
        probe: || first_line("valgrind", &["--version"]),
    },
    Need {
        name: "verbs headers",
        purpose: "a test that compares structures of the drop-in libibverbs with them",
        packages: &["libibverbs-dev"],
        scope: Scope::Tests,
        by_hand: "Install infiniband/verbs.h, of rdma-core.",
        probe: verbs_headers,
    },
    Need {
        name: "verbs programs",
        purpose: "runs of unmodified programs",
        packages: &["ibverbs-utils", "perftest", "rdmacm-utils", "ucx-utils", "python3-pyverbs"],
        scope: Scope::Unmodified,
        by_hand: "Install ibv_rc_pingpong and the like, of rdma-core, perftest, and ucx_perftest, of UCX.",
        probe: verbs_programs,
    },
    Need {
        name: "verbs in C",
        purpose: "runs of programs of our own in C, over the drop-in libibverbs",
        packages: &["gcc", "libc6-dev", "libibverbs-dev"],
        scope: Scope::Unmodified,
        by_hand: "Install a C compiler, infiniband/verbs.h and libibverbs.so, of rdma-core.",
        probe: verbs_in_c,
    },
    Need {
        name: "programs of sockets",
        purpose: "runs of unmodified programs over rsockets, and between network namespaces",
        packages: &["iperf3", "redis-server", "redis-tools", "iproute2"],
        scope: Scope::Unmodified,
        by_hand: "Install iperf3, redis-server and redis-benchmark, and ip, of iproute2.",
        probe: socket_programs,
    },
    Need {
        name: "MPI and libfabric",
        purpose: "runs of unmodified programs",
        packages: &[
            "libfabric-bin",
            "openmpi-bin",
            "netpipe-openmpi",
            "hpcc",
            "python3-mpi4py",
            "python3-numpy",
        ],
        scope: Scope::Unmodified,
        by_hand: "Install fi_pingpong, of libfabric, mpirun, of OpenMPI 4.1, NPopenmpi, hpcc, and mpi4py with numpy.",
        probe: || first_line("mpirun", &["--version"]),
    },
    Need {
        name: "iperf3",
        purpose: "kernel TCP beside us in `bench compare`",
        packages: &["iperf3"],
        scope: Scope::Bench,
        by_hand: "Install iperf3.",
        probe: || first_line("iperf3", &["--version"]),
    },
    Need {
        name: "UCX",
        purpose: "UCX over TCP beside us in `bench compare`",
        packages: &["ucx-utils"],
        scope: Scope::Bench,
        by_hand: "Install ucx_perftest, of UCX.",
        probe: || first_line("ucx_info", &["-v"]),
    },
    Need {
        name: "TCP programs",
        purpose: "what `bench streams --lossy` carries: iperf3, redis, rsync, python3, curl, and ethtool",
        packages: &["iperf3", "redis-server", "redis-tools", "rsync", "python3", "curl", "ethtool"],
        scope: Scope::Carried,
        by_hand: "Install iperf3, redis-server and redis-benchmark, rsync, python3, curl and ethtool.",
        probe: tcp_programs,
    },
    Need {
        name: "perf",
        purpose: "flame graphs, by `bench flame`",
        packages: &["linux-perf"],
        scope: Scope::Bench,
        by_hand: "Install perf, of the kernel's sources.",
        probe: || first_line("perf", &["--version"]),
    },
];

fn c_compiler() -> Result<String> {
    let version = first_line("cc", &["--version"])?;
    // A compiler without the C library's headers is of no use, and on Debian those are another
    // package.
    first_line("cc", &["-E", "-include", "stdio.h", "-x", "c", "/dev/null"])
        .map_err(|_| Error::new("cc is here, the C library's headers are not"))?;
    Ok(version)
}

fn virtual_machine() -> Result<String> {
    let version = first_line("qemu-system-x86_64", &["--version"])?;
    first_line("busybox", &["true"])?;
    first_line("modprobe", &["--version"])?;
    Ok(version)
}

fn verbs_headers() -> Result<String> {
    first_line("cc", &["-E", "-include", "infiniband/verbs.h", "-x", "c", "/dev/null"])
        .map_err(|_| Error::new("there is no infiniband/verbs.h"))?;
    Ok("infiniband/verbs.h".to_owned())
}

/// What programs in C that use libibverbs are compiled and linked with.
pub fn verbs_in_c() -> Result<String> {
    verbs_headers()?;
    // The linker's name of the library, or its place if there is one.
    let place = first_line("cc", &["-print-file-name=libibverbs.so"])?;
    if Path::new(&place).is_absolute() { Ok(place) } else { Err(Error::new("there is no libibverbs.so")) }
}

fn verbs_programs() -> Result<String> {
    // Neither has a version that it tells with success.
    for program in ["ibv_devices", "ib_send_bw", "ucx_perftest"] {
        Command::new(program)
            .arg("--help")
            .stdin(Stdio::null())
            .output()
            .map_err(|_| Error(format!("there is no `{program}`")))?;
    }
    Ok("ibv_devices, ib_send_bw, ucx_perftest".to_owned())
}

fn socket_programs() -> Result<String> {
    first_line("ip", &["-V"])?;
    first_line("redis-server", &["--version"])?;
    first_line("redis-benchmark", &["--version"])?;
    first_line("iperf3", &["--version"])
}

fn tcp_programs() -> Result<String> {
    for program in ["redis-server", "redis-benchmark", "rsync", "python3", "curl", "ethtool"] {
        first_line(program, &["--version"])?;
    }
    first_line("iperf3", &["--version"])
}

fn network_tools() -> Result<String> {
    let version = first_line("ip", &["-V"])?;
    first_line("ping", &["-V"])?;
    first_line("tcpdump", &["--version"])?;
    Ok(version)
}

fn pkg_config() -> Result<String> {
    first_line("pkg-config", &["--version"])
}

fn dpdk() -> Result<String> {
    let version =
        first_line("pkg-config", &["--modversion", "libdpdk"]).map_err(|_| Error::new("not found"))?;
    release::supported(&version).map_err(Error)?;
    Ok(version)
}

fn libclang() -> Result<String> {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let library = named.iter().cloned().chain(library_directories()).find_map(|place| libclang_in(&place));
    let library = library.ok_or_else(|| Error::new("not found"))?;
    // A LIBCLANG_PATH is taken at its word: where such a clang keeps its own headers is its own
    // affair.
    if named.is_none() && !has_builtin_headers(Path::new("/usr/lib")) {
        return Err(Error::new("libclang is here, clang's own headers (stddef.h) are not"));
    }
    Ok(library.display().to_string())
}

/// Where Debian keeps libclang: one directory per LLVM release, and those of the linker.
fn library_directories() -> impl Iterator<Item = PathBuf> {
    let lib = Path::new("/usr/lib");
    subdirectories(lib)
        .into_iter()
        .filter(|dir| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("llvm-")))
        .map(|llvm| llvm.join("lib"))
        .chain([lib.join(format!("{}-linux-gnu", std::env::consts::ARCH)), PathBuf::from("/usr/lib64")])
}

/// `libclang.so`, or `libclang-14.so`, or `libclang.so.1`: the names that bindgen looks for.
/// `place` may also be the file itself.
fn libclang_in(place: &Path) -> Option<PathBuf> {
    if place.is_file() {
        return Some(place.to_path_buf());
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(place).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let known =
            name.starts_with("libclang.so") || (name.starts_with("libclang-") && name.contains(".so"));
        // A dangling link of a removed package is not a library.
        known && file.exists()
    })
}

/// Returns `true` if some `llvm-*/lib/clang/*/include/stddef.h` is below `lib`.
fn has_builtin_headers(lib: &Path) -> bool {
    let llvm = subdirectories(lib).into_iter().map(|dir| dir.join("lib/clang"));
    let mut releases = llvm.chain([lib.join("clang")]).flat_map(|clang| subdirectories(&clang));
    releases.any(|release| release.join("include/stddef.h").is_file())
}

/// The directories in `dir`, in order; none if it cannot be read.
fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// What a program says first, if it is there and succeeds.
fn first_line(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|_| Error(format!("there is no `{program}`")))?;
    if !output.status.success() {
        return Err(Error(format!("`{program} {}` fails", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests;
