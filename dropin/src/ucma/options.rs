//! What programs set, and what they have heard.

use super::command::Command;
use super::id::{Role, State};
use super::user;
use crate::abi::ucm::{Notify, SetOption, option};
use crate::errno::{Errno, Result};

/// The largest code of a time.
const TIMEOUT_MAX: u8 = 31;
/// `IBV_EVENT_COMM_EST`: the peer's first packet came.
const COMM_EST: u32 = crate::abi::event::COMM_EST;

pub fn set_option(command: &Command) -> Result<()> {
    let asked: SetOption = command.get()?;
    let id = command.id(asked.id)?;
    if asked.level != option::LEVEL_ID {
        // Paths, which programs set that have asked a subnet manager for one.
        return Err(Errno(libc::ENOSYS));
    }
    let len = usize::try_from(asked.optlen).unwrap_or(usize::MAX);
    if !matches!((asked.optname, len), (option::TOS | option::ACK_TIMEOUT, 1) | (_, 4)) {
        return Err(Errno::INVALID);
    }
    let value = user::read(asked.optval, len)?;
    set(&mut id.state(), asked.optname, &value)
}

fn set(state: &mut State, name: u32, value: &[u8]) -> Result<()> {
    let is_on = value.iter().any(|byte| *byte != 0);
    match name {
        option::TOS => state.options.tos = value[0],
        option::REUSEADDR => state.options.shares_port = is_on,
        // Each device has one address, so nobody gets another family's.
        option::AFONLY => {}
        option::ACK_TIMEOUT if value[0] <= TIMEOUT_MAX => state.options.ack_timeout = Some(value[0]),
        option::ACK_TIMEOUT => return Err(Errno::INVALID),
        _ => return Err(Errno(libc::ENOSYS)),
    }
    Ok(())
}

/// The program has heard from the peer, which may be before this end has.
pub fn notify(command: &Command) -> Result<()> {
    let asked: Notify = command.get()?;
    let id = command.id(asked.id)?;
    // The peer's RTU is still to come, or to be asked for again: nothing is to be done meanwhile.
    if asked.event == COMM_EST && matches!(id.state().role, Role::Passive(..) | Role::Active(..)) {
        return Ok(());
    }
    Err(Errno::INVALID)
}
