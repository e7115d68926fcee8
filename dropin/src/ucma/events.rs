//! Events on their way to the program.

use super::channel::{self, Subject, Told};
use super::command::Command;
use super::table;
use crate::abi::ucm::{EventResp, GetEvent, MigrateId};
use crate::errno::{Errno, Result};
use core::mem::offset_of;
use std::sync::Arc;

/// Fails with EAGAIN if there is none yet.
pub fn get_event(command: &Command) -> Result<()> {
    let asked: GetEvent = command.get()?;
    command.channel.pop(command.fd, |told| deliver(command, &asked, told))
}

fn deliver(command: &Command, asked: &GetEvent, told: &Told) -> Result<()> {
    let mut inbox = told.about.inbox();
    let (uid, id) = match &told.of {
        Subject::Itself => (inbox.uid, told.about.handle),
        // The number is the new connection's, and the name the listener's.
        Subject::Connection(fresh) => (inbox.uid, fresh.handle),
        Subject::Group(membership) => (membership.uid, membership.handle),
    };
    let resp = EventResp { uid, id, ..told.event };
    command.answer_first(asked.response, &resp, offset_of!(EventResp, reserved))?;
    match &told.of {
        Subject::Group(membership) => membership.note_reported(),
        _ => inbox.reported += 1,
    }
    Ok(())
}

/// An identifier moves from another descriptor to this one, with its events.
pub fn migrate_id(command: &Command) -> Result<()> {
    let asked: MigrateId = command.get()?;
    let fd = i32::try_from(asked.fd).map_err(|_| Errno(libc::EBADF))?;
    let from = table::channel(channel::inode_of(fd)?)?;
    let id = table::id(&from, asked.id)?;
    id.inbox().channel = Arc::downgrade(&command.channel);
    for told in from.remove(Some(fd), |told| told.is_of(&id)) {
        if let Subject::Connection(fresh) = &told.of {
            fresh.inbox().channel = Arc::downgrade(&command.channel);
        }
        command.channel.push(told);
    }
    let reported = id.inbox().reported;
    command.answer(asked.response, &reported)
}
