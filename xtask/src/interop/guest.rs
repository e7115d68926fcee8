//! The guest with soft-RoCE, on the namespace's tap.

use std::path::Path;

use super::namespace::{GUEST_IP, GUEST_IP6, GUEST_MAC, HOST_IP, HOST_MAC, MTU, Namespace, TAP};
use crate::error::Result;
use crate::guest::{ANSWER, Guest, emulator};

/// What the guest says once a command listens.
const LISTENS: &str = "@@listens";

/// What a guest is booted of.
pub struct Parts<'a> {
    pub namespace: &'a Namespace,
    pub kernel: &'a Path,
    pub image: &'a Path,
    /// Where QEMU's errors go.
    pub place: &'a Path,
}

/// Boots the guest.
pub fn boot(parts: &Parts<'_>) -> Result<Guest> {
    let Parts { namespace, kernel, image, place } = *parts;
    let append = format!(
        "srnic.address={GUEST_IP} srnic.address6={GUEST_IP6} srnic.mtu={MTU} srnic.host={HOST_IP} srnic.host_mac={HOST_MAC}"
    );
    let mut command = emulator(namespace.command(Path::new("nice")), kernel, image, &append);
    command.args("-machine q35 -m 512".split(' '));
    let netdev = format!("tap,id=n0,ifname={TAP},script=no,downscript=no");
    let device = format!("virtio-net-pci,netdev=n0,mac={GUEST_MAC},romfile=,host_mtu=9000");
    command.args(["-netdev", &netdev, "-device", &device]);
    let mut guest = Guest::start("guest", command, &place.join("qemu.err"))?;
    println!("the guest is up, its rxe0 in state {}", guest.booted()?);
    Ok(guest)
}

/// Starts a command in the guest that waits for connections of the connection manager's, and waits
/// until it does.
pub fn begin_listening(guest: &mut Guest, command: &str) -> Result<()> {
    println!("guest: {command}");
    guest.type_in(&format!(
        "{command} & until rdma resource show cm_id | grep -q LISTEN; do kill -0 $! || break; done; printf '\\n{LISTENS}\\n'; \
         wait $!"
    ))?;
    guest.wait_for(LISTENS, ANSWER).map(drop)
}
