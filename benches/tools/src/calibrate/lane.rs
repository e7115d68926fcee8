//! Two devices of this process, and what is measured between them.

use crate::error::{Error, Result};
use crate::place::Place;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Device, Driver, MemoryRegion, Pmtu, ProtectionDomain, QueueCaps, QueuePair,
    SendData, SendRequest, WcStatus,
};

/// Requests outstanding.
const DEPTH: u32 = 64;
/// Of READs and atomics.
const READS: u8 = 16;
/// Bytes of the largest message.
const LARGE: usize = 1 << 16;
/// Bytes of a region that is registered and deregistered.
const REGION: usize = 1 << 16;
/// Things done between two looks at the clock.
const LOOK_INTERVAL: u32 = 256;
/// How long a completion may take.
const PATIENCE: Duration = Duration::from_secs(10);

const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A WRITE of 8 bytes.
    Small,
    /// A WRITE of 4 KiB: one packet.
    Packet,
    /// A WRITE of 64 KiB: sixteen packets.
    Large,
    /// A READ of 8 bytes.
    Read,
    /// A FETCH_AND_ADD.
    Atomic,
    /// A turn without work.
    Turn,
    /// A queue pair with a completion queue, made and destroyed.
    Create,
    /// 64 KiB of memory, registered and deregistered.
    Register,
}

impl What {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Small,
        Self::Packet,
        Self::Large,
        Self::Read,
        Self::Atomic,
        Self::Turn,
        Self::Create,
        Self::Register,
    ];
}

/// Two devices on a memif, and a connection between them.
pub struct Lane {
    pair: QueuePair,
    cq: CompletionQueue,
    source: MemoryRegion,
    target: MemoryRegion,
    pd: ProtectionDomain,
    devices: [Device; 2],
    _passive: QueuePair,
    _place: Place,
}

impl Lane {
    /// Opens and connects them.
    ///
    /// # Errors
    /// [`Error::Verbs`], [`Error::File`].
    pub fn open() -> Result<Self> {
        let place = Place::new("calibrate")?;
        let socket = place.path().join("a.sock").display().to_string();
        let builder = Device::builder().driver(Driver::Inline);
        let here = builder.open(&format!("memif:{socket},role=server"))?;
        let there = builder.open(&format!("memif:{socket},role=client"))?;
        let devices = [here, there];
        let since = Instant::now();
        while !devices.iter().all(Device::link_up) {
            for device in &devices {
                device.progress();
            }
            if since.elapsed() > PATIENCE {
                return Err(Error::Late(
                    "the link between two devices of this process did not come up",
                    PATIENCE.as_secs(),
                ));
            }
            std::thread::yield_now();
        }
        let pds = devices.each_ref().map(Device::alloc_pd);
        let caps =
            QueueCaps { max_send_wr: DEPTH, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
        let (cq, its_cq) = (devices[0].create_cq(DEPTH + 16)?, devices[1].create_cq(16)?);
        let builder = |pd: &ProtectionDomain, cq: &CompletionQueue| {
            pd.queue_pair(cq, cq)
                .caps(caps)
                .path_mtu(Pmtu::B4096)
                .access(ALL)
                .max_rd_atomic(READS)
                .max_dest_rd_atomic(READS)
        };
        let (one, two) = (builder(&pds[0], &cq).build()?, builder(&pds[1], &its_cq).build()?);
        let ends = (one.endpoint(), two.endpoint());
        let (pair, passive) = (one.connect(&ends.1)?, two.connect(&ends.0)?);
        let (source, target) = (pds[0].register(LARGE, ALL)?, pds[1].register(LARGE, ALL)?);
        let [pd, _] = pds;
        Ok(Self { pair, cq, source, target, pd, devices, _passive: passive, _place: place })
    }

    /// Nanoseconds that one takes, of both ends together, measured for so long.
    ///
    /// # Errors
    /// [`Error::Verbs`], [`Error::Completion`], [`Error::Late`].
    pub fn nanoseconds(&mut self, what: What, time: Duration) -> Result<f64> {
        let sge = |len| self.source.slice(..len);
        let (to, small) = (self.target.remote().at(0), [sge(8)?]);
        let write = |gather| SendRequest::write(SendData::Gather(gather), to).signaled();
        match what {
            What::Small => busy(&mut self.pair, &mut self.cq, &self.devices, &write(&small), time),
            What::Packet => {
                let gather = [sge(4096)?];
                busy(&mut self.pair, &mut self.cq, &self.devices, &write(&gather), time)
            }
            What::Large => {
                let gather = [sge(LARGE)?];
                busy(&mut self.pair, &mut self.cq, &self.devices, &write(&gather), time)
            }
            What::Read => {
                let read = SendRequest::read(&small, to).signaled();
                busy(&mut self.pair, &mut self.cq, &self.devices, &read, time)
            }
            What::Atomic => {
                let add = SendRequest::fetch_and_add(small[0], to, 1).signaled();
                busy(&mut self.pair, &mut self.cq, &self.devices, &add, time)
            }
            What::Turn => repeated(time, || {
                self.devices[0].progress();
                Ok(())
            }),
            What::Create => repeated(time, || {
                let cq = self.devices[0].create_cq(16)?;
                self.pd.queue_pair(&cq, &cq).build().map(drop)
            }),
            What::Register => repeated(time, || self.pd.register(REGION, ALL).map(drop)),
        }
    }
}

/// Nanoseconds of a call, over and over again.
fn repeated(
    time: Duration,
    mut call: impl FnMut() -> std::result::Result<(), verbs_api::Error>,
) -> Result<f64> {
    let (since, mut count) = (Instant::now(), 0_u32);
    while since.elapsed() < time {
        for _ in 0..LOOK_INTERVAL {
            call()?;
        }
        count += LOOK_INTERVAL;
    }
    Ok(each(since.elapsed(), count))
}

/// Nanoseconds of a request, with as many outstanding as there may be.
fn busy(
    pair: &mut QueuePair,
    cq: &mut CompletionQueue,
    devices: &[Device; 2],
    request: &SendRequest<'_>,
    time: Duration,
) -> Result<f64> {
    let (since, mut posted, mut done) = (Instant::now(), 0_u32, 0_u32);
    let mut over = false;
    while !over || done < posted {
        over |= since.elapsed() >= time;
        let more = if over { 0 } else { DEPTH - (posted - done) };
        for _ in 0..more {
            pair.post_send(request)?;
        }
        posted += more;
        for device in devices {
            device.progress();
        }
        while let Some(completion) = cq.poll() {
            if completion.status != WcStatus::Success {
                return Err(Error::Completion {
                    what: "a request to the other device",
                    status: completion.status,
                });
            }
            done += 1;
        }
        if since.elapsed() > time + PATIENCE {
            return Err(Error::Late("a request to the other device did not complete", PATIENCE.as_secs()));
        }
    }
    Ok(each(since.elapsed(), done))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52 nanoseconds")]
fn each(time: Duration, count: u32) -> f64 {
    time.as_nanos() as f64 / f64::from(count.max(1))
}
