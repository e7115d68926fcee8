//! All identifiers and all open descriptors of this process.

use super::channel::Channel;
use super::groups::Membership;
use super::id::Id;
use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Table {
    ids: Numbered<Arc<Id>>,
    /// Each with its identifier.
    memberships: Numbered<(Arc<Id>, Arc<Membership>)>,
    channels: Vec<Arc<Channel>>,
}

/// Values by numbers of which the next is given to the next.
struct Numbered<T> {
    next: u32,
    values: BTreeMap<u32, T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T> Numbered<T> {
    const NONE: Self = Self { next: 0, values: BTreeMap::new() };

    fn add(&mut self, make: impl FnOnce(u32) -> T) -> &T {
        while self.values.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.values.entry(number).or_insert_with(|| make(number))
    }
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { ids: Numbered::NONE, memberships: Numbered::NONE, channels: Vec::new() });
/// The process whose table it is: a child that was forked has its own.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn table() -> Result<MutexGuard<'static, Table>> {
    if OWNER.load(Ordering::Acquire) != std::process::id() {
        return Err(Errno(libc::EPERM));
    }
    Ok(TABLE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A new descriptor.
pub fn open(flags: core::ffi::c_int) -> Result<RawFd> {
    if OWNER.swap(std::process::id(), Ordering::AcqRel) != std::process::id() {
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        // The parent's, whose devices are none of this process's.
        core::mem::forget(core::mem::take(&mut *table));
    }
    sweep();
    let (channel, fd) = Channel::open(flags)?;
    table()?.channels.push(Arc::new(channel));
    Ok(fd)
}

/// The descriptor with this inode. EBADF if it is none.
pub fn channel(inode: u64) -> Result<Arc<Channel>> {
    let table = table()?;
    let found = table.channels.iter().find(|channel| channel.inode() == inode);
    found.cloned().ok_or(Errno(libc::EBADF))
}

/// Adds an identifier, which `make` is given the number of.
pub fn add(make: impl FnOnce(u32) -> Id) -> Result<Arc<Id>> {
    Ok(Arc::clone(table()?.ids.add(|handle| Arc::new(make(handle)))))
}

/// Adds what an identifier has of a multicast group; `uid` is the program's name of it.
pub fn join(id: &Arc<Id>, uid: u64) -> Result<Arc<Membership>> {
    let make = |handle| (Arc::clone(id), Arc::new(Membership::new(handle, uid)));
    Ok(Arc::clone(&table()?.memberships.add(make).1))
}

/// Takes that out; ENOENT if there is none of that number, EINVAL if it is another descriptor's.
pub fn leave_group(channel: &Arc<Channel>, handle: u32) -> Result<Arc<Membership>> {
    let mut table = table()?;
    let (id, _) = table.memberships.values.get(&handle).ok_or(Errno::NO_ENTRY)?;
    if !id.is_on(channel) {
        return Err(Errno::INVALID);
    }
    let (_, membership) = table.memberships.values.remove(&handle).ok_or(Errno::NO_ENTRY)?;
    Ok(membership)
}

/// An identifier of a descriptor. ENOENT if it is none of its.
pub fn id(channel: &Arc<Channel>, handle: u32) -> Result<Arc<Id>> {
    let id = table()?.ids.values.get(&handle).cloned().ok_or(Errno::NO_ENTRY)?;
    if id.is_on(channel) { Ok(id) } else { Err(Errno::NO_ENTRY) }
}

/// Takes an identifier out.
pub fn forget(handle: u32) {
    if let Ok(mut table) = table() {
        let id = table.ids.values.remove(&handle);
        let memberships = core::mem::take(&mut table.memberships.values);
        let (left, kept) =
            memberships.into_iter().partition::<BTreeMap<_, _>, _>(|(_, (of, _))| of.handle == handle);
        table.memberships.values = kept;
        drop(table);
        drop((id, left));
    }
}

/// Ends all that was of descriptors that are open nowhere any more.
pub fn sweep() {
    let Ok(mut table) = table() else { return };
    let (closed, open): (Vec<_>, Vec<_>) =
        core::mem::take(&mut table.channels).into_iter().partition(|channel| channel.is_closed());
    table.channels = open;
    let left: Vec<_> = table
        .ids
        .values
        .values()
        .filter(|id| closed.iter().any(|channel| id.is_on(channel)))
        .cloned()
        .collect();
    drop(table);
    for id in left {
        id.end(None);
    }
}

/// The process ends: peers hear of it.
pub fn leave() {
    let Ok(table) = table() else { return };
    let all: Vec<_> = table.ids.values.values().cloned().collect();
    drop(table);
    for id in all {
        id.end(None);
    }
}
