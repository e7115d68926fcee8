//! The device: an engine on a port, and who drives it.

mod attributes;
mod builder;
mod capture;
mod costs;
mod drain;
mod engines;
mod link;
mod thread_devices;

pub use attributes::DeviceAttr;
pub use builder::DeviceBuilder;
pub use drain::{Drained, Owed};
#[cfg(feature = "async")]
pub use link::LinkUp;

use crate::bell::Bell;
use crate::cm::{ConnectionStats, Service};
use crate::completion::{CompletionChannel, CompletionQueue};
use crate::driver::{Driver, EngineThread};
use crate::error::Error;
use crate::memory::ProtectionDomain;
use crate::nic::Hears;
use crate::pool::Lease;
use crate::shared::{Call, Shared};
use crate::spec::DeviceSpec;
use crate::stat::{MetricSource, Sources, StatServer};
use core::net::IpAddr;
use core::time::Duration;
use datapath::counters::Counters;
use datapath::engine::{
    Core, CreateError, EngineConfig, EngineMemory, LatencyReport, ModifyError, QpReport, Turn, Usage,
};
use datapath::memory::ProtectionDomainId;
use datapath::port::fault::FaultStats;
use datapath::port::{Port, PortCaps, PortStats};
use datapath::queue::{self, Handed, SendQueue};
use datapath::sched::{HostReport, TenantId};
use datapath::seed::Numbers;
use memif::FRAME_OVERHEAD;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use wire::Pmtu;

/// An open RDMA device. Clones name the same one; it closes when the last object made from it is
/// gone, which then waits until nobody waits for what this device owes ([`Device::drain`]).
///
/// Any thread may call it. Control calls take turns; of two threads that drive the engine at once,
/// one does and the other returns at once.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    driver: Driver,
    /// The thread that drives the engine, if it has one.
    thread: Option<EngineThread>,
    ip: IpAddr,
    caps: PortCaps,
    window_max: u16,
    /// The MTU that a peer's port must have, too, in bytes.
    link_mtu: Option<u16>,
    /// State of the generator of first PSNs.
    psns: Mutex<Numbers>,
    /// Tells who asks what goes on here.
    stat: Option<StatServer>,
    /// What programs add to that.
    sources: Arc<Sources>,
    /// Tells of asynchronous events, once somebody wants to know.
    bell: OnceLock<Arc<Bell>>,
    /// The connection manager of the device, once it has one.
    connections: Mutex<Option<Arc<Service>>>,
    /// Of its port, if that is of a pool. The port is closed before it is given back.
    lease: OnceLock<Lease>,
}

impl Device {
    /// Opens the device that a string names; [`DeviceSpec`] has the grammar.
    ///
    /// ```
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let device = verbs_api::Device::open("sim:lab,ip=10.77.0.7")?;
    /// assert_eq!(device.ip().to_string(), "10.77.0.7");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Spec`] says which key is wrong and what it may be; else what DPDK refused.
    pub fn open(text: &str) -> Result<Self, Error> {
        Self::builder().open(text)
    }

    /// Opens the device that a parsed string names, with the defaults of [`DeviceBuilder`].
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open_spec(spec: &DeviceSpec) -> Result<Self, Error> {
        Self::builder().open_spec(spec)
    }

    /// A device over a port of the caller's, such as one of a simulated network. The same
    /// `config.seed` gives the same queue-pair numbers and first PSNs.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn from_port<P: Port + Send + 'static>(port: P, config: EngineConfig) -> Result<Self, Error> {
        Self::builder().from_port(port, config)
    }

    /// A builder for a device with other options than the defaults: who drives it, and how much it
    /// holds.
    pub fn builder() -> DeviceBuilder {
        DeviceBuilder::default()
    }

    /// Runs one turn of the engine: takes what arrived, lets timers fire, sends what may be sent.
    /// Returns at once with nothing done if another thread is in a turn, or if the device has
    /// [`Driver::Thread`].
    #[inline]
    pub fn progress(&self) -> Turn {
        if self.inner.driver.is_polled() { self.inner.shared.try_turn() } else { Turn::default() }
    }

    /// Adds metrics of the program's to those that the device tells at `stat=`, for as long as
    /// their source exists. Without `stat=` nobody asks for them.
    pub fn add_metrics(&self, source: Weak<dyn MetricSource>) {
        self.inner.sources.add(source);
    }

    /// Says that nobody will poll for a while: a device with [`Driver::Hybrid`] has its thread
    /// drive the engine at once, and not after the time that it takes to notice. Calls that wait
    /// say so themselves ([`CompletionChannel::wait`]). Another driver takes no notice.
    pub fn stop_polling(&self) {
        if let (Some(hand_over), Some(thread)) = (self.inner.shared.hand_over(), &self.inner.thread) {
            hand_over.note_stop();
            thread.unpark();
            if !hand_over.is_taken() {
                // It may wait for frames beside who polled.
                self.inner.shared.wake_thread();
            }
        }
    }

    /// Sleeps until frames come or the engine has something to do, `limit` at most: for a program
    /// that polls and has found nothing for a while. A port without interrupts does not tell, and
    /// then it is 1 ms at most; only memifs and packet sockets by the native driver have some. If
    /// the device has a thread of its own, that drives the engine, and this sleeps for `limit`.
    pub fn rest(&self, limit: Duration) {
        self.stop_polling();
        self.inner.shared.rest(limit);
    }

    /// Sends what `hand_over` posts, unless many queue pairs wait for their turn, and the
    /// acknowledgements that were held back for it. False, and nothing is posted, if the engine is
    /// not at hand.
    #[inline]
    pub(crate) fn push(&self, hand_over: impl FnOnce() -> Option<Handed>) -> bool {
        self.inner.driver.is_polled() && self.inner.shared.try_push(hand_over)
    }

    /// A request was staged: if it is sampled, it was posted now.
    #[inline]
    pub(crate) fn note_post(&self, queue: &SendQueue, request: &queue::SendRequest<'_>) {
        self.inner.shared.note_post(queue, request);
    }

    /// Completions before `head` were taken from a completion queue.
    #[inline]
    pub(crate) fn note_poll(&self, cq: u32, head: u32) {
        self.inner.shared.note_poll(cq, head);
    }

    /// Where the time of sampled operations goes (docs/observability.md); `None` if the device was
    /// not opened with `latency=`. Times are in nanoseconds.
    #[must_use]
    pub fn latency(&self) -> Option<LatencyReport> {
        let mut nic = self.nic()?;
        let now = nic.now();
        nic.core().latency(now)
    }

    /// The hosts that queue pairs of this device send to, and the rates of those that do not keep
    /// up; none unless hosts may have rates
    /// ([`DeviceBuilder::host_rates`](crate::DeviceBuilder::host_rates)).
    #[must_use]
    pub fn hosts(&self) -> Vec<HostReport> {
        self.nic().map(|nic| nic.core().hosts()).unwrap_or_default()
    }

    /// Sends the acknowledgements that were held back.
    #[inline]
    pub(crate) fn settle(&self) {
        self.inner.shared.settle();
    }

    /// Sends the acknowledgements that a turn left, unless they may wait for a post. A caller that
    /// found a completion in its own turn calls this: it may go away with the completion.
    #[inline]
    pub(crate) fn settle_at_once(&self) {
        self.inner.shared.settle_at_once();
    }

    /// A new protection domain.
    #[must_use]
    pub fn alloc_pd(&self) -> ProtectionDomain {
        // In a process that was forked nothing can be made of it: no engine has as many.
        let id = self.nic().map_or(ProtectionDomainId(u32::MAX), |mut nic| nic.core_mut().allocate_pd());
        ProtectionDomain::new(self.clone(), id)
    }

    /// A new completion queue of at least `entries` entries, 1 to 2^22. It must have room for every
    /// completion that can wait at once: one that finds it full ends its queue pair.
    ///
    /// # Errors
    /// [`Error::Create`].
    pub fn create_cq(&self, entries: u32) -> Result<CompletionQueue, Error> {
        self.create_cq_of(TenantId::DEFAULT, None, entries)
    }

    /// A completion channel: a file descriptor that tells of completions.
    ///
    /// # Errors
    /// [`Error::Channel`] if the system has no descriptor to spare.
    pub fn create_channel(&self) -> Result<CompletionChannel, Error> {
        CompletionChannel::new(self.clone())
    }

    /// Makes a completion queue as [`Device::create_cq`] does, on a channel of this device: the
    /// queue can be armed.
    ///
    /// # Errors
    /// [`Error::Create`], [`Error::OtherDevice`].
    pub fn create_cq_on(&self, channel: &CompletionChannel, entries: u32) -> Result<CompletionQueue, Error> {
        self.create_cq_of(TenantId::DEFAULT, Some(channel), entries)
    }

    /// A completion queue of a tenant, on a channel if there is one.
    pub(crate) fn create_cq_of(
        &self,
        tenant: TenantId,
        channel: Option<&CompletionChannel>,
        entries: u32,
    ) -> Result<CompletionQueue, Error> {
        if channel.is_some_and(|channel| !channel.device().is(self)) {
            return Err(Error::OtherDevice { what: "completion channel" });
        }
        let hears = channel.map(|channel| Hears::Channel(Arc::clone(channel.shared())));
        let listening = hears.is_some();
        let (number, ring) = self.nic_for(|_| tenant)?.create_cq(tenant, entries, hears)?;
        Ok(CompletionQueue::new(self.clone(), number, ring, listening))
    }

    /// Ethernet address of another host on the link that has the device's IP address and had it
    /// first, so that this device finds no neighbor and answers none (docs/protocol.md 1.13). It is
    /// asked for again every ten seconds. The event
    /// [`AddressConflict`](datapath::engine::AsyncEvent::AddressConflict) tells when this begins.
    #[must_use]
    pub fn address_holder(&self) -> Option<[u8; 6]> {
        self.nic()?.core().address_holder()
    }

    /// IP address of the device.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.inner.ip
    }

    /// Ethernet address of the device.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.inner.caps.mac
    }

    /// The MTU that a peer's port must have, too, in bytes: on a memif pair.
    pub(crate) fn link_mtu(&self) -> Option<u16> {
        self.inner.link_mtu
    }

    /// The largest path MTU of the SRNIC dialect whose packets fit the port. Plain RoCEv2 has
    /// [`in_dialect`](Pmtu::in_dialect) of it.
    #[must_use]
    pub fn path_mtu_max(&self) -> Pmtu {
        let ip_packet = self.inner.caps.max_frame.saturating_sub(FRAME_OVERHEAD.into());
        // The engine refuses a port that is too small for the smallest.
        Pmtu::largest_for(u32::try_from(ip_packet).unwrap_or(u32::MAX)).unwrap_or(Pmtu::B256)
    }

    /// The error that says why a path MTU does not fit.
    pub(crate) fn path_mtu_error(&self, path_mtu: Pmtu) -> ModifyError {
        let pmtu = path_mtu.bytes();
        let needed = (pmtu + Pmtu::OVERHEAD_MAX) as usize + usize::from(FRAME_OVERHEAD);
        ModifyError::PathMtu { pmtu, needed, max_frame: self.inner.caps.max_frame }
    }

    /// The largest window of a queue pair, in packets.
    #[must_use]
    pub fn window_max(&self) -> u16 {
        self.inner.window_max
    }

    /// Memory of the engine, in total and by what it is for. Walks over all queue pairs.
    #[must_use]
    pub fn engine_memory(&self) -> EngineMemory {
        self.nic().map(|nic| nic.core().memory_used()).unwrap_or_default()
    }

    /// Bytes that the fast path touches of one queue pair, idle or not: at most 256.
    #[must_use]
    pub fn memory_per_qp(&self) -> usize {
        self.engine_memory().hot_per_qp()
    }

    /// The counters of the engine since the device was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.nic().map(|nic| *nic.core().counters()).unwrap_or_default()
    }

    /// Every queue pair as it is now, and what keeps it from sending more. Walks over all of them.
    #[must_use]
    pub fn reports(&self) -> Vec<QpReport> {
        let Some(mut nic) = self.nic() else { return Vec::new() };
        let now = nic.now();
        nic.core().reports(now)
    }

    /// How many objects of each kind the device has, and the most that it can have.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.nic().map(|nic| nic.core().usage()).unwrap_or_default()
    }

    /// The driver that runs the engine.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.inner.driver
    }

    /// The counters of the device's connection manager; zeros if nothing was connected or listened
    /// to by address.
    #[must_use]
    pub fn connection_stats(&self) -> ConnectionStats {
        let connections = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.as_ref().map(|service| service.stats()).unwrap_or_default()
    }

    /// The counters of the port.
    #[must_use]
    pub fn port_stats(&self) -> PortStats {
        self.nic().map(|nic| nic.port_stats()).unwrap_or_default()
    }

    /// The counters of the faults that a `fault:` device injected; zeros for every other device.
    #[must_use]
    pub fn fault_stats(&self) -> FaultStats {
        self.nic().map(|nic| nic.fault_stats()).unwrap_or_default()
    }

    /// Fails if nobody drives the engine while tasks wait.
    #[cfg(feature = "async")]
    pub(crate) fn needs_thread(&self) -> Result<(), Error> {
        if self.driver() != Driver::Inline {
            return Ok(());
        }
        Err(Error::Unsupported(
            "nobody drives the engine of this device while tasks wait; open it with Driver::THREAD or poll=thread, Driver::Hybrid or poll=hybrid",
        ))
    }

    /// The descriptor that reports asynchronous events; made when it is first asked for.
    pub(crate) fn bell(&self) -> Result<&Arc<Bell>, Error> {
        if let Some(bell) = self.inner.bell.get() {
            return Ok(bell);
        }
        let bell = Arc::new(Bell::new().map_err(Error::Events)?);
        let mut nic = self.own_nic()?;
        let bell = self.inner.bell.get_or_init(|| bell);
        nic.ring_with(Arc::clone(bell));
        Ok(bell)
    }

    /// The engine, its lock and its clock.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The connection manager, which takes queue pair 1; made when it is first asked for.
    pub(crate) fn connections(&self) -> Result<Arc<Service>, Error> {
        self.check_process()?;
        let mut connections = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = &*connections {
            return Ok(Arc::clone(service));
        }
        let service = Service::start(self)?;
        Ok(Arc::clone(connections.insert(service)))
    }

    /// The engine, for a call of the control path that cannot fail; `None` in a process that was
    /// forked, where the call does nothing.
    pub(crate) fn nic(&self) -> Option<Call<'_>> {
        self.inner.shared.call()
    }

    /// The engine, for a call of the control path that can fail.
    pub(crate) fn own_nic(&self) -> Result<Call<'_>, Error> {
        self.nic().ok_or(Error::Forked)
    }

    /// The engine, for a call that creates, registers or changes something of a tenant's, once the
    /// tenant may make one more. Drives the engine while it waits for that.
    pub(crate) fn nic_for(&self, tenant: impl Fn(&Core) -> TenantId) -> Result<Call<'_>, Error> {
        loop {
            let mut nic = self.own_nic()?;
            let (tenant, now) = (tenant(nic.core()), nic.now());
            match nic.core_mut().admit_call(tenant, now) {
                Ok(()) => return Ok(nic),
                Err(CreateError::ControlRate { wait_ns, .. }) => {
                    drop(nic);
                    self.progress();
                    self.rest(Duration::from_nanos(wait_ns));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// As [`Device::nic_for`], for something of a protection domain.
    pub(crate) fn nic_of(&self, domain: ProtectionDomainId) -> Result<Call<'_>, Error> {
        self.nic_for(|core| core.tenant_of(domain))
    }

    /// Fails in a process that was forked from the one that opened the device.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.inner.shared.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Returns `true` if `other` is this device.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A first PSN that no late packet of another connection is likely to fit, and that nobody
    /// guesses.
    pub(crate) fn new_psn(&self) -> u32 {
        let mut psns = self.inner.psns.lock().unwrap_or_else(PoisonError::into_inner);
        psns.next_u32() & 0x00FF_FFFF
    }
}
