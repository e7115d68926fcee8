//! The chroot of a release: a base that is made once, and a layer over it for what is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::host::Host;
use super::release::Release;
use crate::error::{Error, Result};
use crate::repo::{self, output};

/// What the README asks for, beside Rust; and apt, which Ubuntu can do without.
const PACKAGES: &str = "apt,ca-certificates,gcc,libc6-dev";
/// Options of apt's on this machine that hold there, too.
const APT_OPTIONS: [&str; 4] =
    ["Acquire::Check-Valid-Until", "Acquire::Check-Date", "Acquire::http::Proxy", "Acquire::https::Proxy"];
/// Nothing of it is worth the wait, or the room.
const DPKG_OPTIONS: &str = "force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\n";
/// Mounts and changes the root; in a file of its own because it is shell.
const ENTER: &str = include_str!("enter.sh");
/// What a command in there has of the environment.
const ENVIRONMENT: &str = "PATH=/cargo/bin:/toolchain/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
     HOME=/root LC_ALL=C CARGO_HOME=/cargo CARGO_TARGET_DIR=/target CARGO_NET_OFFLINE=true \
     CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 \
     CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off";

/// A chroot. Mounts are made for each command and end with it, so there is nothing to clean up.
pub struct Chroot<'a> {
    place: PathBuf,
    host: &'a Host,
}

/// What a command finds, and what becomes of what it installs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// The base alone, and nothing is kept.
    Bare,
    /// What was installed before, too, and it is kept.
    Kept,
}

/// The network that a command has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// This machine's, to install packages from.
    Host,
    /// A namespace with a pair of Ethernet interfaces, `left` and `right`.
    Own,
}

impl<'a> Chroot<'a> {
    /// The chroot of a release, in a directory of `cache`. Its base is made unless it is there.
    pub fn of(release: &Release, cache: &Path, host: &'a Host) -> Result<Self> {
        let place = cache.join(release.suite);
        let base = place.join("base");
        if !base.exists() {
            bootstrap(release, &place, &base)?;
        }
        Ok(Self { place, host })
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// A shell script that runs in there, and ends with its first failure.
    pub fn command(&self, layer: Layer, network: Network, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        command.args((network == Network::Own).then_some("--net"));
        command.args(["sh", "-c", ENTER, "enter.sh", "env", "-i"]).args(ENVIRONMENT.split_whitespace());
        command.args(std::env::var("CARGO_BUILD_JOBS").map(|jobs| format!("CARGO_BUILD_JOBS={jobs}")).ok());
        command.args(["sh", "-ec", script]);
        command.env("PLACE", &self.place).env("SOURCES", repo::root());
        command.env("TOOLCHAIN", &self.host.toolchain).env("REGISTRY", &self.host.registry);
        command.env("KEEP", if layer == Layer::Kept { "yes" } else { "no" });
        command.env("NETWORK", if network == Network::Own { "own" } else { "host" });
        command
    }
}

/// Makes the base from the release's packages. One that was broken off is not taken for one.
fn bootstrap(release: &Release, place: &Path, base: &Path) -> Result<()> {
    let Release { suite, archive, .. } = *release;
    let (keys, package) = archive.keyring;
    if !Path::new(keys).exists() {
        return Err(Error(format!("there is no {keys}: install Debian's package {package}")));
    }
    let unfinished = place.join("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(|e| Error::io("remove", &unfinished, &e))?;
    }
    fs::create_dir_all(place).map_err(|e| Error::io("create", place, &e))?;
    let write = |name: &str, text: &str| {
        let file = place.join(name);
        fs::write(&file, text).map_err(|e| Error::io("write", &file, &e)).map(|()| file)
    };
    let apt = write("apt.conf", &apt_options(&output(Command::new("apt-config").arg("dump"))?))?;
    let dpkg = write("dpkg.conf", DPKG_OPTIONS)?;
    println!("making a chroot of {suite}");
    let mut command = Command::new("mmdebstrap");
    command.args(["--mode=root", "--variant=minbase", "--quiet", "--include", PACKAGES]);
    command.arg(format!("--aptopt={}", apt.display())).arg(format!("--dpkgopt={}", dpkg.display()));
    command.arg(format!("--components={}", archive.components));
    output(command.arg(suite).arg(&unfinished).arg(archive.mirror))?;
    fs::rename(&unfinished, base).map_err(|e| Error::io("rename", &unfinished, &e))
}

/// The lines of `apt-config dump` that are to hold in the chroot.
fn apt_options(dump: &str) -> String {
    let wanted = |line: &&str| line.split_whitespace().next().is_some_and(|name| APT_OPTIONS.contains(&name));
    dump.lines().filter(wanted).map(|line| line.to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::release::{Archive, RELEASES};
    use crate::scratch::Scratch;

    #[test]
    fn a_release_whose_keys_are_not_here_is_refused_with_the_package_that_has_them() {
        let scratch = Scratch::new().expect("a directory of our own");
        let host = Host {
            toolchain: scratch.path().to_owned(),
            registry: scratch.path().to_owned(),
            rust: String::new(),
        };
        let archive = Archive {
            mirror: "http://archive.invalid",
            components: "main",
            keyring: ("/nowhere/keys.gpg", "its-keyring"),
        };
        let archive = Box::leak(Box::new(archive));
        let release = Release { name: "Suite 1", suite: "suite", archive };
        let refused = Chroot::of(&release, scratch.path(), &host).err().expect("no keys").0;
        assert_eq!(refused, "there is no /nowhere/keys.gpg: install Debian's package its-keyring");
    }

    #[test]
    fn of_apts_options_those_that_reach_the_archive_are_passed_on() {
        let dump = "APT \"\";\nAcquire::Check-Date \"false\";\nAcquire::Check-Dates \"x\";\n\
                    Acquire::http::Proxy \"http://proxy:3128\";\n";
        assert_eq!(
            apt_options(dump),
            "Acquire::Check-Date \"false\";\nAcquire::http::Proxy \"http://proxy:3128\";\n"
        );
    }

    /// A command that fails, in a base that has mount points and no program.
    #[test]
    fn nothing_stays_mounted_when_a_command_fails() {
        if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
            println!("skipped: no mount namespace can be made (it takes root)");
            return;
        }
        let scratch = Scratch::new().expect("a directory of our own");
        let place = scratch.path().join("suite");
        for directory in ["dev", "etc", "proc", "sys", "tmp", "var/cache/apt", "var/lib/apt/lists"] {
            fs::create_dir_all(place.join("base").join(directory)).expect("created");
        }
        let host = Host {
            toolchain: scratch.path().to_owned(),
            registry: scratch.path().to_owned(),
            rust: String::new(),
        };
        let release = Release { name: "Suite 1", suite: "suite", archive: RELEASES[0].archive };
        let chroot = Chroot::of(&release, scratch.path(), &host).expect("its base is there");
        for layer in [Layer::Bare, Layer::Kept] {
            let failed = output(&mut chroot.command(layer, Network::Own, "true")).expect_err("no env");
            assert!(
                failed.0.contains("chroot: failed"),
                "all was mounted, and then there was nothing to run: {failed}"
            );
            let mounts = fs::read_to_string("/proc/self/mounts").expect("Linux");
            assert!(!mounts.contains(&*place.to_string_lossy()), "{mounts}");
            assert_eq!(fs::read_dir(place.join("root")).expect("a mount point").count(), 0);
        }
    }
}
