//! An interface of the kernel's: what it is, and whether its link is up.

use crate::error::{Error, NoLink};
use crate::socket::{Socket, check};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Longest name: the kernel's IFNAMSIZ less the terminating NUL.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// An interface of the network namespace that this process was in when it was found. It stays the
/// same one if it is renamed.
#[derive(Debug)]
pub struct Interface {
    /// As it was found.
    name: String,
    index: i32,
    /// Asks the kernel about interfaces; bound to the namespace, not to the interface.
    socket: OwnedFd,
    /// Keeps it listening to multicast addresses.
    groups: Option<Socket>,
}

impl Interface {
    /// Finds it by name.
    ///
    /// # Errors
    /// [`Error::Interface`] if there is none of this name.
    pub fn find(name: &str) -> Result<Self, Error> {
        if name.is_empty()
            || name.len() > NAME_MAX
            || name.contains(|c: char| c == '/' || !c.is_ascii_graphic())
        {
            let problem = "this cannot be the name of one; `ip link` lists those that there are";
            return Err(Error::interface(name, problem));
        }
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
            .map_err(|cause| Error::interface(name, cause.to_string()))?;
        // SAFETY: just made, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut found = Self { name: name.into(), index: 0, socket, groups: None };
        let answer = found.ask(libc::SIOCGIFINDEX, found.by_name()).map_err(|_| {
            let problem =
                "there is none of this name in this network namespace; `ip link` lists those that there are";
            Error::interface(name, problem)
        })?;
        // SAFETY: the request fills in the index.
        found.index = unsafe { answer.ifr_ifru.ifru_ifindex };
        Ok(found)
    }

    /// The name by which it was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's number for it.
    #[must_use]
    pub const fn index(&self) -> i32 {
        self.index
    }

    /// The Ethernet address of the interface.
    ///
    /// # Errors
    /// [`Error::Interface`] if it is gone, or no Ethernet.
    pub fn mac(&self) -> Result<[u8; 6], Error> {
        let answer = self.know(libc::SIOCGIFHWADDR)?;
        // SAFETY: the request fills in the hardware address.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(Error::interface(&self.name, "it is no Ethernet interface; use another"));
        }
        Ok(std::array::from_fn(|index| address.sa_data[index].cast_unsigned()))
    }

    /// Longest IP packet, in bytes.
    ///
    /// # Errors
    /// [`Error::Interface`] if it is gone.
    pub fn mtu(&self) -> Result<u32, Error> {
        let answer = self.know(libc::SIOCGIFMTU)?;
        // SAFETY: the request fills in the MTU.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu }.cast_unsigned())
    }

    /// Returns `true` if frames can pass: it is up, and so is its peer or its cable. Not, once it
    /// is gone.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.no_link().is_none()
    }

    /// Why frames cannot pass; `None` if they can.
    #[must_use]
    pub fn no_link(&self) -> Option<NoLink> {
        let (name, flags) = match self.flags() {
            Ok(known) => known,
            Err(_) => return Some(NoLink::Gone { name: self.name.clone() }),
        };
        if flags & libc::IFF_UP == 0 {
            Some(NoLink::Down { name })
        } else if flags & libc::IFF_RUNNING == 0 {
            Some(NoLink::NoCarrier { name })
        } else {
            None
        }
    }

    /// Lets frames for these Ethernet addresses, of multicast groups, through its filter for as
    /// long as this lives, in place of those of the call before.
    ///
    /// # Errors
    /// [`Error::Interface`] if the kernel refuses: it takes the right to use packet sockets.
    pub fn join(&mut self, groups: &[[u8; 6]]) -> Result<(), Error> {
        let member = || {
            // It receives nothing, as it is of no protocol.
            let socket = Socket::open(libc::SOCK_DGRAM)?;
            groups.iter().try_for_each(|group| socket.join(self.index, libc::PACKET_MR_MULTICAST, *group))?;
            Ok(socket)
        };
        self.groups = match groups {
            [] => None,
            _ => Some(member().map_err(|cause: io::Error| {
                let why =
                    format!("it cannot listen to multicast addresses, which IPv6 and groups need: {cause}");
                Error::interface(&self.name, why)
            })?),
        };
        Ok(())
    }

    /// Its present name, and its flags.
    fn flags(&self) -> io::Result<(String, i32)> {
        let named = self.by_index()?;
        let name = named.ifr_name.iter().take_while(|c| **c != 0).map(|c| char::from(c.cast_unsigned()));
        let name = name.collect();
        let answer = self.ask(libc::SIOCGIFFLAGS, named)?;
        // SAFETY: the request fills in the flags.
        Ok((name, unsafe { answer.ifr_ifru.ifru_flags }.into()))
    }

    fn know(&self, request: libc::c_ulong) -> Result<libc::ifreq, Error> {
        let answer = self.by_index().and_then(|named| self.ask(request, named));
        answer.map_err(|cause| Error::interface(&self.name, cause.to_string()))
    }

    /// A request by its present name.
    fn by_index(&self) -> io::Result<libc::ifreq> {
        // SAFETY: all-zero is a valid request.
        let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
        question.ifr_ifru.ifru_ifindex = self.index;
        self.ask(libc::SIOCGIFNAME, question)
    }

    /// A request by the name by which it is to be found.
    fn by_name(&self) -> libc::ifreq {
        // SAFETY: all-zero is a valid request, and terminates the name.
        let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in question.ifr_name.iter_mut().zip(self.name.bytes().take(NAME_MAX)) {
            *to = from.cast_signed();
        }
        question
    }

    fn ask(&self, request: libc::c_ulong, mut question: libc::ifreq) -> io::Result<libc::ifreq> {
        // SAFETY: the requests used here take an ifreq and fill it in.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut question) })?;
        Ok(question)
    }
}

/// The MTU of a port over the interface `name`, whose own is `theirs`: `asked`, or as much as the
/// interface and the port, which takes `most`, both have.
///
/// # Errors
/// [`Error::Interface`] if more is asked for.
pub fn mtu_within(name: &str, asked: Option<u16>, theirs: u32, most: u16) -> Result<u16, Error> {
    let both = u16::try_from(theirs).unwrap_or(u16::MAX).min(most);
    match asked {
        None => Ok(both),
        Some(mtu) if mtu <= both => Ok(mtu),
        Some(mtu) if mtu > most => Err(Error::interface(
            name,
            format!("mtu={mtu} is more than the {most} bytes that this kind of socket takes; lower it"),
        )),
        Some(mtu) => Err(Error::interface(
            name,
            format!("mtu={mtu} is more than its own, {theirs}; lower it, or `ip link set {name} mtu {mtu}`"),
        )),
    }
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
        for name in ["", "sixteen-letters.", "eth/0", "eth 0"] {
            let refused = Interface::find(name).expect_err(name).to_string();
            assert!(refused.contains("this cannot be the name of one"), "{refused}");
        }
    }

    #[test]
    fn the_mtu_is_the_interfaces_as_far_as_the_socket_takes_it() {
        let mtu = |asked, theirs| mtu_within("eth1", asked, theirs, 9216).map_err(|error| error.to_string());
        assert_eq!(mtu(None, 1500), Ok(1500));
        assert_eq!(mtu(Some(1400), 1500), Ok(1400));
        assert_eq!(mtu(None, 65_536), Ok(9216));
        let lower =
            "interface eth1: mtu=4200 is more than its own, 1500; lower it, or `ip link set eth1 mtu 4200`";
        assert_eq!(mtu(Some(4200), 1500).expect_err("too long"), lower);
        let jumbo = mtu(Some(9217), 65_536).expect_err("too long");
        assert!(jumbo.contains("mtu=9217 is more than the 9216 bytes"), "{jumbo}");
    }
}
