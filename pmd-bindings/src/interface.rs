//! An interface of the kernel's: what it is, and whether its link is up.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::PortError;
use crate::no_link::NoLink;
use crate::unix::check;

/// Longest name: the kernel's IFNAMSIZ less the terminating NUL.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// An interface of the network namespace that this process was in when it was found.
#[derive(Debug)]
pub struct Interface {
    name: String,
    /// Asks the kernel about interfaces; bound to the namespace, not to the interface.
    socket: OwnedFd,
    /// Keeps it listening to multicast addresses.
    groups: Option<OwnedFd>,
}

impl Interface {
    /// Finds it by name.
    ///
    /// # Errors
    /// [`PortError::Interface`] if there is none of this name.
    pub fn find(name: &str) -> Result<Self, PortError> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
            .map_err(|cause| error(name, &cause.to_string()))?;
        // SAFETY: just made, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let found = Self { name: name.into(), socket, groups: None };
        if name.is_empty() || name.len() > NAME_MAX || name.contains(crate::socket_path::is_special) {
            return Err(error(name, "this cannot be the name of one; `ip link` lists those that there are"));
        }
        found.flags().map(|_| found).map_err(|_| {
            error(
                name,
                "there is none of this name in this network namespace; `ip link` lists those that there are",
            )
        })
    }

    /// The name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Ethernet address of the interface.
    ///
    /// # Errors
    /// [`PortError::Interface`] if it is gone, or no Ethernet.
    pub fn mac(&self) -> Result<[u8; 6], PortError> {
        let answer = self.ask(libc::SIOCGIFHWADDR).map_err(|cause| error(&self.name, &cause.to_string()))?;
        // SAFETY: the request fills in the hardware address.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(error(&self.name, "it is no Ethernet interface; use another"));
        }
        Ok(std::array::from_fn(|index| address.sa_data[index].cast_unsigned()))
    }

    /// Longest IP packet, in bytes.
    ///
    /// # Errors
    /// [`PortError::Interface`] if it is gone.
    pub fn mtu(&self) -> Result<u32, PortError> {
        let answer = self.ask(libc::SIOCGIFMTU).map_err(|cause| error(&self.name, &cause.to_string()))?;
        // SAFETY: the request fills in the MTU.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu }.cast_unsigned())
    }

    /// Returns `true` if frames can pass: it is up, and so is its peer or its cable. Not, once it
    /// is gone.
    #[must_use]
    pub fn is_running(&self) -> bool {
        const BOTH: i32 = libc::IFF_UP | libc::IFF_RUNNING;
        self.flags().is_ok_and(|flags| flags & BOTH == BOTH)
    }

    /// Why frames cannot pass; `None` if they can.
    pub(crate) fn no_link(&self) -> Option<NoLink> {
        let name = self.name.clone();
        match self.flags() {
            Err(_) => Some(NoLink::Gone { name }),
            Ok(flags) if flags & libc::IFF_UP == 0 => Some(NoLink::Down { name }),
            Ok(flags) if flags & libc::IFF_RUNNING == 0 => Some(NoLink::NoCarrier { name }),
            Ok(_) => None,
        }
    }

    /// Lets frames for these Ethernet addresses, of multicast groups, through its filter for as
    /// long as this lives, in place of those of the call before.
    ///
    /// # Errors
    /// [`PortError::Interface`] if the kernel refuses: it takes the right to use packet sockets.
    pub fn join(&mut self, groups: &[[u8; 6]]) -> Result<(), PortError> {
        if groups.is_empty() {
            self.groups = None;
            return Ok(());
        }
        self.groups = Some(self.member(groups).map_err(|cause| {
            let why = format!("it cannot listen to multicast addresses, which IPv6 and groups need: {cause}");
            error(&self.name, &why)
        })?);
        Ok(())
    }

    /// A packet socket that receives nothing, of no protocol, and is a member of the groups.
    fn member(&self, groups: &[[u8; 6]]) -> io::Result<OwnedFd> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: just made, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the request fills in the index.
        let mr_ifindex = unsafe { self.ask(libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex };
        for group in groups {
            let mut mr_address = [0; 8];
            mr_address[..6].copy_from_slice(group);
            let wish = libc::packet_mreq {
                mr_ifindex,
                mr_type: libc::PACKET_MR_MULTICAST.try_into().unwrap_or_default(),
                mr_alen: 6,
                mr_address,
            };
            #[expect(clippy::cast_possible_truncation, reason = "a constant, 16")]
            let len = size_of_val(&wish) as libc::socklen_t;
            let wish = (&raw const wish).cast();
            let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
            // SAFETY: the option takes a packet_mreq, whose length this is.
            check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, wish, len) })?;
        }
        Ok(socket)
    }

    fn flags(&self) -> io::Result<i32> {
        let answer = self.ask(libc::SIOCGIFFLAGS)?;
        // SAFETY: the request fills in the flags.
        Ok(unsafe { answer.ifr_ifru.ifru_flags }.into())
    }

    fn ask(&self, request: libc::c_ulong) -> io::Result<libc::ifreq> {
        // SAFETY: all-zero is a valid request, and terminates the name.
        let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in question.ifr_name.iter_mut().zip(self.name.bytes().take(NAME_MAX)) {
            *to = from.cast_signed();
        }
        // SAFETY: the requests used here take an ifreq and fill it in.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut question) })?;
        Ok(question)
    }
}

fn error(name: &str, problem: &str) -> PortError {
    PortError::Interface { name: name.into(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_and_is_no_ethernet() {
        let lo = Interface::find("lo").expect("every namespace has one");
        assert_eq!(lo.name(), "lo");
        assert!(lo.mtu().expect("it has one") >= 1500);
        let refused = lo.mac().expect_err("no Ethernet address").to_string();
        assert_eq!(refused, "interface lo: it is no Ethernet interface; use another");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let missing = Interface::find("srnic-missing").expect_err("nobody made it").to_string();
        assert!(missing.starts_with("interface srnic-missing: there is none of this name"), "{missing}");
        for name in ["", "sixteen-letters.", "eth0,qpairs=9"] {
            let refused = Interface::find(name).expect_err(name).to_string();
            assert!(refused.contains("this cannot be the name of one"), "{refused}");
        }
    }
}
