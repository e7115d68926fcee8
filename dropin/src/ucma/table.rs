//! All identifiers and all open descriptors of this process.

use super::channel::Channel;
use super::id::Id;
use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Table {
    next: u32,
    ids: BTreeMap<u32, Arc<Id>>,
    channels: Vec<Arc<Channel>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { next: 0, ids: BTreeMap::new(), channels: Vec::new() });
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
    let mut table = table()?;
    loop {
        let handle = table.next;
        table.next = table.next.wrapping_add(1);
        if let Entry::Vacant(free) = table.ids.entry(handle) {
            return Ok(Arc::clone(free.insert(Arc::new(make(handle)))));
        }
    }
}

/// An identifier of a descriptor. ENOENT if it is none of its.
pub fn id(channel: &Arc<Channel>, handle: u32) -> Result<Arc<Id>> {
    let id = table()?.ids.get(&handle).cloned().ok_or(Errno::NO_ENTRY)?;
    if id.is_on(channel) { Ok(id) } else { Err(Errno::NO_ENTRY) }
}

/// Takes an identifier out.
pub fn forget(handle: u32) {
    if let Ok(mut table) = table() {
        let id = table.ids.remove(&handle);
        drop(table);
        drop(id);
    }
}

/// Ends all that was of descriptors that are open nowhere any more.
pub fn sweep() {
    let Ok(mut table) = table() else { return };
    let (closed, open): (Vec<_>, Vec<_>) =
        core::mem::take(&mut table.channels).into_iter().partition(|channel| channel.is_closed());
    table.channels = open;
    let left: Vec<_> =
        table.ids.values().filter(|id| closed.iter().any(|channel| id.is_on(channel))).cloned().collect();
    drop(table);
    for id in left {
        id.end(None);
    }
}

/// The process ends: peers hear of it.
pub fn leave() {
    let Ok(table) = table() else { return };
    let all: Vec<_> = table.ids.values().cloned().collect();
    drop(table);
    for id in all {
        id.end(None);
    }
}
