//! Completion channels.

use crate::abi;
use crate::argument::Out;
use crate::context::{Context, ContextState};
use crate::cq::Cq;
use crate::errno::{Errno, Result};
use crate::export::Step;
use crate::object::{Object, Shell, Taken};
use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use verbs_api::{CompletionChannel, Driver};

/// As good as nothing, but the engine hears that its program is about to sleep.
const A_LOOK: Duration = Duration::from_nanos(1);

/// A completion channel.
#[repr(C)]
pub struct Channel {
    c: Shell<abi::CompChannel>,
    state: Arc<ChannelState>,
}

// SAFETY: the structure is its first field.
unsafe impl Object for Channel {
    type C = abi::CompChannel;
}

/// What lives as long as a completion queue on the channel.
pub struct ChannelState {
    pub channel: CompletionChannel,
    /// The completion queues, by their numbers.
    queues: Mutex<HashMap<u32, Listed>>,
    context: Arc<ContextState>,
}

/// A completion queue as the program knows it.
#[derive(Clone, Copy)]
struct Listed(*const Cq);

// SAFETY: it is used under the lock of the list only, and a queue leaves the list before it goes.
unsafe impl Send for Listed {}

impl Channel {
    pub const fn state(&self) -> &Arc<ChannelState> {
        &self.state
    }
}

impl ChannelState {
    fn queues(&self) -> MutexGuard<'_, HashMap<u32, Listed>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, number: u32, queue: *const Cq) {
        self.queues().insert(number, Listed(queue));
    }

    pub fn remove(&self, number: u32) {
        self.queues().remove(&number);
    }

    /// The next event: the queue that it is of, as the program knows it; or what to wait for,
    /// unless the program has made the descriptor non-blocking.
    fn next(&self) -> Result<Step<(*mut abi::Cq, *mut c_void)>> {
        let is_nonblocking = self.is_nonblocking();
        loop {
            let limit = if is_nonblocking { Duration::ZERO } else { A_LOOK };
            let Some(number) = self.channel.wait(limit)? else {
                let is_driven = self.context.engine.device.driver() != Driver::Inline;
                return match (is_nonblocking, is_driven) {
                    (true, _) => Err(Errno::AGAIN),
                    (false, true) => Ok(Step::Once(self.channel.as_raw_fd())),
                    (false, false) => Ok(Step::Again),
                };
            };
            let queues = self.queues();
            if let Some(Listed(queue)) = queues.get(&number) {
                // SAFETY: it is on the list.
                let queue = unsafe { &**queue };
                queue.completion_acks().add();
                return Ok(Step::Done((queue.address().cast(), queue.cq_context())));
            }
        }
    }

    fn is_nonblocking(&self) -> bool {
        // SAFETY: it takes no pointer.
        let flags = unsafe { libc::fcntl(self.channel.as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK != 0
    }

    /// As programs expect a new channel.
    fn make_blocking(&self) {
        let fd = self.channel.as_raw_fd();
        // SAFETY: neither takes a pointer.
        unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK);
        }
    }
}

exports! {
    fn ibv_create_comp_channel(context: &Context) -> *mut abi::CompChannel = pointer {
        let channel = context.device().create_channel()?;
        let c = abi::CompChannel { context: context.address(), fd: channel.as_raw_fd(), refcnt: 0 };
        let context = Arc::clone(context.state());
        let state = ChannelState { channel, queues: Mutex::default(), context };
        state.make_blocking();
        Ok(Channel { c: Shell::new(c), state: Arc::new(state) }.give())
    }

    fn ibv_destroy_comp_channel(channel: Taken<Channel>) -> c_int = both {
        if Arc::strong_count(&channel.get().state) > 1 {
            return Err(Errno::BUSY);
        }
        channel.destroy();
        Ok(())
    }
}

waiting_exports! {
    fn ibv_get_cq_event(channel: &Channel, cq: Out<*mut abi::Cq>, cq_context: Out<*mut c_void>) -> c_int = count {
        Ok(channel.state.next()?.map(|(queue, context)| {
            cq.set(queue);
            cq_context.set(context);
            0
        }))
    }
}
