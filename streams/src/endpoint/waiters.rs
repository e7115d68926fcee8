//! Tasks and threads that wait for something to happen to a stream.

use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// Bytes of this stream, or its end.
    Read(u64),
    /// Room to write to this stream.
    Write(u64),
    /// That the endpoint has no connection any more.
    Empty,
}

/// Who may wait for one thing at once without being woken for nothing. A task whose future was
/// dropped stays until then.
const MOST: usize = 64;

/// Who waits for one thing: any tasks and threads.
#[derive(Default)]
pub struct Waiters(Vec<Waker>);

impl Waiters {
    /// A task or a thread more. Where there are too many, those before go to `wakers` and look
    /// again.
    pub fn add(&mut self, waker: &Waker, wakers: &mut Vec<Waker>) {
        if self.0.iter().any(|known| known.will_wake(waker)) {
            return;
        }
        if self.0.len() >= MOST {
            wakers.append(&mut self.0);
        }
        self.0.push(waker.clone());
    }

    /// All of them, who wait no more.
    pub fn take(&mut self) -> impl Iterator<Item = Waker> {
        self.0.drain(..)
    }
}

/// Ends a thread's sleep.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the calling thread from [`thread::park`]. It is the same one each time.
pub fn thread_waker() -> Waker {
    thread_local! {
        static OWN: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    OWN.with(Waker::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_there_once_and_is_woken() {
        let (mut waiters, mut woken) = (Waiters::default(), Vec::new());
        waiters.add(&thread_waker(), &mut woken);
        waiters.add(&thread_waker(), &mut woken);
        let other = thread::spawn(thread_waker).join().expect("no panic");
        waiters.add(&other, &mut woken);
        let wakers: Vec<Waker> = waiters.take().collect();
        assert_eq!(wakers.len(), 2);
        wakers.into_iter().for_each(Waker::wake);
        // Returns at once; without the waking the test would hang.
        thread::park();
        assert_eq!(waiters.take().count(), 0);
    }
}
