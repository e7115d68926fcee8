//! Completions as futures, for any executor that can wait for a file descriptor (feature `async`).
//!
//! A [`Completions`] is a completion queue on a channel. One task of the program drives it; every
//! other task awaits [`Operation`]s, or the [`Receives`] of an [`AsyncQueuePair`]. With the feature
//! `tokio` that task is `tokio::spawn(completions.drive())`, and `Device::next_event` waits for
//! events. For another executor it is a loop that waits until the descriptor of the [`Completions`]
//! is readable, and calls [`Completions::process`].
//!
//! # Cancellation
//! An operation owns its [`Buffer`]. A future that is dropped leaves it with the engine, until the
//! work request completes: then it goes back to its pool, and not before. What a dropped receive
//! takes in is lost with it, so who cancels receives, as `select!` does, takes them from
//! [`Receives`], where messages wait until they are asked for.
//!
//! # Ends
//! What was not done when a connection by address was ended, by either side
//! ([`AsyncQueuePair::disconnect`], or dropping the queue pair), ends with [`Error::Disconnected`].
//! What a failure cut short ends with a completion of status
//! [`WrFlushErr`](crate::WcStatus::WrFlushErr), and the completion before it that failed says why.
//!
//! # What it costs
//! A lock, an entry of a hash table and a wake-up for each operation, and an event of the channel
//! for each batch of completions. A service that waits uses some 2 % of a core, which its device's
//! thread takes to look at the port a thousand times a second; a frame that finds it asleep waits 1
//! ms at most. Who counts microseconds polls, by
//! [`CompletionQueue::poll`](crate::CompletionQueue::poll).

mod buffer;
mod completions;
mod pair;
mod receives;
#[cfg(feature = "tokio")]
mod tokio;

pub use buffer::{Buffer, BufferPool};
pub use completions::{Completions, Done, Operation};
pub use pair::AsyncQueuePair;
pub use receives::Receives;

#[cfg(doc)]
use crate::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic while a lock was held has shown itself, and leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
