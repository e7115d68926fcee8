//! The threads of a run. Each has a shard at a time, which it gets and gives back by value.

use super::shard::Shard;
use crate::clock::Ps;
use crate::host::HostError;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Threads that wait for shards.
#[derive(Debug)]
pub struct Crew(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    /// Shards, and until when they are to run; `None` once the thread is to end.
    jobs: Option<Sender<(Shard, Ps)>>,
    done: Receiver<(Shard, Result<(), HostError>)>,
    thread: Option<JoinHandle<()>>,
}

impl Crew {
    /// So many threads, beside the caller's.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn new(threads: u32) -> io::Result<Self> {
        (0..threads).map(|_| Worker::new()).collect::<io::Result<_>>().map(Self)
    }

    /// Lets all shards run until `until`: the first one in this thread. A window in which only one
    /// has something to do is not worth waking a thread for.
    ///
    /// # Errors
    /// [`HostError`] of the first shard that has one.
    pub fn run(&mut self, shards: &mut Vec<Shard>, until: Ps) -> Result<(), HostError> {
        let busy = shards.iter().filter(|shard| shard.next_at().is_some_and(|at| at < until)).count();
        if self.0.is_empty() || busy < 2 {
            return shards.iter_mut().try_for_each(|shard| shard.run(until));
        }
        for (worker, shard) in self.0.iter().zip(shards.drain(1..)) {
            worker.start(shard, until);
        }
        let mut all = shards.iter_mut().try_for_each(|shard| shard.run(until));
        for worker in &mut self.0 {
            let (shard, result) = worker.finish();
            shards.push(shard);
            all = all.and(result);
        }
        all
    }
}

impl Worker {
    fn new() -> io::Result<Self> {
        let (jobs, todo) = channel::<(Shard, Ps)>();
        let (report, done) = channel();
        let work = move || {
            for (mut shard, until) in todo {
                let result = shard.run(until);
                if report.send((shard, result)).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("fabric".to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), done, thread: Some(thread) })
    }

    fn start(&self, shard: Shard, until: Ps) {
        if let Some(jobs) = &self.jobs {
            // If the thread has panicked, `finish` says so.
            let _ = jobs.send((shard, until));
        }
    }

    /// The shard, when it has run. A panic of the thread goes on here.
    fn finish(&mut self) -> (Shard, Result<(), HostError>) {
        match self.done.recv() {
            Ok(done) => done,
            Err(ended) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => resume_unwind(Box::new(ended)),
            },
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with was told when its shard was waited for.
            let _ = thread.join();
        }
    }
}
