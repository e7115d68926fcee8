//! A child that a program forks while it has a device: each call ends, those that can fail say why,
//! and the parent goes on.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::thread::sleep;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Device, Driver, Error, Listener, MemoryRegion, ProtectionDomain, QueuePair,
    RecvRequest, SendData, SendRequest, StatAddress, Usage,
};

/// One end of a connection.
struct End {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
    pair: QueuePair,
}

fn ends(texts: [String; 2], driver: Driver) -> [End; 2] {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let parts = texts.map(|text| {
        let device = Device::builder().driver(driver).open(&text).expect("a device");
        let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
        let memory = pd.register(4096, access).expect("memory");
        let prepared = pd.queue_pair(&cq, &cq).access(access).build().expect("a queue pair");
        (device, pd, cq, memory, prepared)
    });
    let mut peers = [parts[1].4.endpoint(), parts[0].4.endpoint()].into_iter();
    parts.map(|(device, pd, cq, memory, prepared)| {
        let pair = prepared.connect(&peers.next().expect("two")).expect("connected");
        End { device, pd, cq, memory, pair }
    })
}

impl End {
    fn write_to(&mut self, other: &Self) {
        let write = SendRequest::write(SendData::Inline(b"hello"), other.memory.remote().at(0));
        self.pair.post_send(&write.signaled()).expect("posted");
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.cq.poll().is_none() {
            other.device.progress();
            assert!(Instant::now() < deadline, "the WRITE does not complete");
        }
    }

    /// What a child tries. Fails with the number of the first call that does not say why it fails.
    fn use_as_child(mut self, listener: &Listener) -> Result<(), u8> {
        let limit = Duration::from_secs(60);
        let send = SendRequest::send(SendData::Inline(b"hello"));
        let recv = RecvRequest { wr_id: 0, scatter: &[] };
        let forked = |number: u8, result: Result<(), Error>| match result {
            Err(Error::Forked) => Ok(()),
            _ => Err(number),
        };
        forked(1, self.pair.post_send(&send))?;
        forked(2, self.pair.batch().post_send(&send))?;
        forked(3, self.pair.post_recv(&recv))?;
        forked(4, self.device.create_cq(1).map(drop))?;
        forked(5, self.pd.register(64, Access::empty()).map(drop))?;
        forked(6, self.pd.queue_pair(&self.cq, &self.cq).build().map(drop))?;
        forked(7, self.pair.abort())?;
        forked(8, self.device.wait_link(limit))?;
        forked(9, listener.get_request(limit).map(drop))?;
        forked(10, Listener::bind(&self.device, 0).map(drop))?;
        forked(11, self.cq.resize(128))?;
        if self.cq.poll().is_some() || self.device.progress().sent > 0 || self.device.link_up() {
            return Err(20);
        }
        if self.device.usage() != Usage::default() || !self.device.reports().is_empty() {
            return Err(21);
        }
        Ok(())
    }
}

/// Runs `child` in a child. What it returned; `None` if it did not end.
fn in_child(child: impl FnOnce() -> u8) -> Option<i32> {
    // SAFETY: the child goes on as a program would, and ends by `_exit`. It has this thread alone;
    // what other threads hold, it does not need, and the allocator is seen to by the C library.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends the process, without destructors, which are the parent's.
        unsafe { libc::_exit(status.into()) };
    }
    let pid = Pid::from_raw(pid);
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if let Some((_, status)) = waitpid(pid, WaitOptions::NOHANG).expect("it is ours") {
            return status.exit_status();
        }
        sleep(Duration::from_millis(10));
    }
    kill_process(pid.expect("forked"), Signal::KILL).expect("it is ours");
    waitpid(pid, WaitOptions::empty()).expect("it is ours");
    None
}

#[test]
fn a_child_hears_that_its_parents_device_is_not_its_own() {
    for (driver, name) in [(Driver::Inline, "inline"), (Driver::THREAD, "thread")] {
        let base = std::env::temp_dir().join(format!("srnic-fork-{name}-{}", std::process::id()));
        let (socket, stat) = (base.with_extension("sock"), base.with_extension("stat"));
        let memif = format!("memif:{}", socket.display());
        let server = format!("{memif},role=server,ip=10.77.0.1,stat={}", stat.display());
        let [one, two] = ends([server, format!("{memif},role=client,ip=10.77.0.2")], driver);
        // Long enough for the lock to know who drives the engine.
        for _ in 0..5000 {
            one.device.progress();
            two.device.progress();
        }
        let listener = Listener::bind(&one.device, 7471).expect("free");
        let mut both = Some((one, listener));
        let status = in_child(|| {
            let (one, listener) = both.take().expect("the child's");
            let result = one.use_as_child(&listener);
            drop(listener);
            // A device of its own works.
            let texts = ["sim:fork-child,ip=10.77.0.1", "sim:fork-child,ip=10.77.0.2"];
            let [mut one, two] = ends(texts.map(str::to_owned), Driver::Inline);
            one.write_to(&two);
            result.err().unwrap_or(0)
        });
        assert_eq!(status, Some(0), "{name}: the number of what went wrong, 99 for a panic, none if it hung");
        // The parent has everything still.
        let (mut one, _listener) = both.take().expect("the parent's");
        assert!(StatAddress::Unix(stat).read().is_ok() && socket.exists());
        one.write_to(&two);
    }
}
