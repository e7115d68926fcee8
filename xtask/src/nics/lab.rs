//! Two guests with a cable between them for each NIC, and one more for the tools' side channel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::models::{Handover, Model};
use super::monitor::Monitor;
use crate::error::{Error, Result};
use crate::guest::{Guest, emulator};
use crate::interrupt;
use crate::scratch::Scratch;

/// Longest time until QEMU has made its sockets.
const SOCKETS: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(10);

/// What both guests are booted of.
pub struct Parts<'a> {
    pub kernel: &'a Path,
    pub image: &'a Path,
    /// Where QEMU's errors go.
    pub place: &'a Path,
    pub models: &'a [Model],
    pub handover: Handover,
}

/// Two guests. They end when this is dropped.
pub struct Lab {
    /// The first has the servers.
    pub guests: [Guest; 2],
    /// That of the first guest.
    pub monitor: Monitor,
    /// Last: the sockets are in there.
    _scratch: Scratch,
}

/// The kernel's address on the side channel.
pub fn host(guest: usize) -> String {
    format!("10.8.0.{}", guest + 1)
}

/// QEMU's name of a NIC.
pub fn device(nic: usize) -> String {
    format!("nic{nic}")
}

/// The address of a NIC in its guest: each is alone behind a port of its own, or it could not be
/// taken out.
pub fn address(nic: usize) -> String {
    format!("0000:{:02x}:00.0", nic + 1)
}

impl Lab {
    /// Boots both guests.
    pub fn boot(parts: &Parts<'_>) -> Result<Self> {
        let scratch = Scratch::new()?;
        let start = |guest: usize| {
            let errors = parts.place.join(format!("qemu{guest}.err"));
            Guest::start(&format!("guest {guest}"), command(parts, guest, scratch.path()), &errors)
        };
        let first = start(0)?;
        let qmp = scratch.path().join("qmp0");
        let sockets = (0..=parts.models.len()).map(|cable| socket(scratch.path(), cable));
        wait_for_files(&sockets.chain([qmp.clone()]).collect::<Vec<_>>())?;
        let mut guests = [first, start(1)?];
        let all_bound = vec![parts.handover.driver(); parts.models.len()].join(" ");
        for guest in &mut guests {
            let bound = guest.booted()?;
            if bound != all_bound {
                return Err(Error(format!("the guest's NICs are bound to {bound:?}, not to {all_bound:?}")));
            }
        }
        println!("both guests are up, their NICs bound to {}", parts.handover.driver());
        Ok(Self { guests, monitor: Monitor::connect(&qmp)?, _scratch: scratch })
    }
}

/// The socket that a cable is.
fn socket(place: &Path, cable: usize) -> PathBuf {
    place.join(format!("cable{cable}"))
}

/// The command line of a guest. The side channel is the first NIC that its kernel finds.
fn command(parts: &Parts<'_>, guest: usize, place: &Path) -> Command {
    let Parts { models, handover, .. } = parts;
    let nics: Vec<String> = (0..models.len()).map(address).collect();
    let append = format!(
        "{} srnic.address={} srnic.driver={} srnic.nics={}",
        handover.append(),
        host(guest),
        handover.driver(),
        nics.join(",")
    );
    let mut command = emulator(Command::new("nice"), parts.kernel, parts.image, &append);
    command.args("-machine q35 -m 1280".split(' ')).args(handover.machine());
    command
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", place.join(format!("qmp{guest}")).display()));
    for nic in 0..models.len() {
        let port = nic + 1;
        command.args(["-device", &format!("pcie-root-port,id=port{nic},chassis={port},slot={port}")]);
    }
    let mut plug = |cable: usize, device: &str| {
        let server = if guest == 0 { "on" } else { "off" };
        let path = socket(place, cable);
        let net = format!("stream,id=net{cable},server={server},addr.type=unix,addr.path={}", path.display());
        let mac = format!("52:54:00:08:{cable:02x}:{:02x}", guest + 1);
        command.args(["-netdev", &net]);
        command.args(["-device", &format!("{device},netdev=net{cable},mac={mac},romfile=")]);
    };
    for (nic, model) in models.iter().enumerate() {
        plug(nic, &format!("{},id={},bus=port{nic}", model.arguments(*handover), device(nic)));
    }
    // On the root bus, which the kernel looks at before what is behind its ports.
    plug(models.len(), "virtio-net-pci,bus=pcie.0,addr=0x10");
    command
}

fn wait_for_files(files: &[PathBuf]) -> Result<()> {
    let deadline = Instant::now() + SOCKETS;
    while let Some(missing) = files.iter().find(|file| fs::metadata(file).is_err()) {
        interrupt::check()?;
        if Instant::now() > deadline {
            return Err(Error(format!("QEMU does not make {}", missing.display())));
        }
        sleep(INTERVAL);
    }
    Ok(())
}
