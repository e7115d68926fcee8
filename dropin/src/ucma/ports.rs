//! Ports of this process: which are taken.

use crate::errno::{Errno, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The dynamic ones (RFC 6335).
const EPHEMERAL: core::ops::RangeInclusive<u16> = 49_152..=u16::MAX;

/// How many have each port of a port space; with more than one, all said that they may share it.
static TAKEN: Mutex<BTreeMap<(u16, u16), Holders>> = Mutex::new(BTreeMap::new());

struct Holders {
    count: usize,
    share: bool,
}

/// A port, for as long as this value is there.
#[derive(Debug)]
pub struct Port {
    space: u16,
    pub number: u16,
}

impl Port {
    /// Takes a port; 0: any that is free.
    pub fn take(space: u16, number: u16, shares: bool) -> Result<Self> {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = if number == 0 {
            let free = |number: &u16| !taken.contains_key(&(space, *number));
            // From somewhere on: a peer may remember the port of the process before.
            let first = *EPHEMERAL.start() | u16::try_from(random() & 0x3FFF).unwrap_or(0);
            let mut all = (first..=*EPHEMERAL.end()).chain(EPHEMERAL);
            all.find(free).ok_or(Errno(libc::EADDRNOTAVAIL))?
        } else {
            number
        };
        let holders = taken.entry((space, number)).or_insert(Holders { count: 0, share: shares });
        if holders.count > 0 && !(holders.share && shares) {
            return Err(Errno(libc::EADDRINUSE));
        }
        holders.count += 1;
        Ok(Self { space, number })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.space, self.number);
        if let Some(holders) = taken.get_mut(&key) {
            holders.count -= 1;
            if holders.count == 0 {
                taken.remove(&key);
            }
        }
    }
}

/// A number that nobody guesses; 0 without the kernel's random numbers.
pub fn random() -> u32 {
    let mut number = 0_u32;
    // SAFETY: four bytes are written to `number`.
    unsafe { libc::getrandom((&raw mut number).cast(), size_of::<u32>(), 0) };
    number
}
