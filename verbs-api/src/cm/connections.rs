//! Connections by their numbers, for who keeps queue pairs and events by itself.

use super::connector::GRACE;
use super::error::ConnectionError;
use super::service::{ConnectionSink, Service};
use crate::device::Device;
use crate::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use rdma_cm::{Agreed, CmError, CommId, Service as DatagramService, Terms};
use std::sync::Arc;
use wire::cm::RejReason;

/// The connection manager of a device, for a program that names connections by their numbers,
/// brings the attributes of its queue pairs as [`Terms`], and modifies them by itself
/// (`rdma_cm` of the kernel is used so). [`Listener`](crate::Listener) and
/// [`Connector`](crate::Connector) do all this for others.
///
/// A [`ConnectionSink`] is told of what happens. A connection is there until it is
/// [released](Self::release).
#[derive(Clone)]
pub struct Connections {
    device: Device,
    service: Arc<Service>,
}

impl Connections {
    /// That of a device; it takes the device's queue pair 1.
    ///
    /// # Errors
    /// [`Error::Create`] if queue pair 1 is in use, [`Error::Forked`].
    pub fn of(device: &Device) -> Result<Self, Error> {
        Ok(Self { device: device.clone(), service: device.connections()? })
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Takes requests for `port`; those that wait for the program are `backlog` at most.
    ///
    /// # Errors
    /// [`ConnectionError::Call`] if the port has a listener.
    pub fn listen(&self, port: u16, backlog: usize, sink: Arc<dyn ConnectionSink>) -> Result<(), Error> {
        self.call(|service, device| {
            service.call(device, |state, _| {
                state.manager.listen(port, backlog)?;
                state.open_port_to(port, sink);
                Ok(())
            })
        })
    }

    /// Takes no more. Requests that the sink knows of can still be accepted.
    pub fn unlisten(&self, port: u16) {
        drop(self.service.call(&self.device, |state, now| state.close_port(now, port)));
    }

    /// Asks for a connection with the port of a peer.
    /// [`Event::Replied`](crate::raw::Event::Replied) or
    /// [`Event::Failed`](crate::raw::Event::Failed) follows. A peer that nobody answers for, or
    /// that has no listener, is asked again for `patience`, 1 s at least.
    ///
    /// # Errors
    /// [`ConnectionError::Call`].
    pub fn connect(
        &self,
        to: SocketAddr,
        terms: &Terms,
        private_data: &[u8],
        patience: Duration,
        sink: Arc<dyn ConnectionSink>,
    ) -> Result<CommId, Error> {
        self.call(|service, device| {
            service.call(device, |state, now| {
                let id = state.manager.connect(now, to.ip(), to.port(), terms, private_data)?;
                state.manager.persist(id, now.saturating_add(patience.max(GRACE)));
                state.watch(id, sink);
                Ok(id)
            })
        })
    }

    /// Active: the queue pair is in RTS, and the peer learns that it can begin.
    ///
    /// # Errors
    /// [`ConnectionError::Call`] if the peer has ended it, or has not granted it.
    pub fn established(&self, id: CommId) -> Result<(), Error> {
        self.call(|service, device| service.call(device, |state, _| state.manager.established(id)))
    }

    /// Passive: what a queue pair is to be given for this request. Take it to RTS, and then
    /// [`accept`](Self::accept).
    ///
    /// # Errors
    /// [`ConnectionError::Call`] if the peer has given up, or does not go with these terms.
    pub fn agree(&self, id: CommId, terms: &Terms) -> Result<Agreed, Error> {
        self.call(|service, device| service.agree(device, id, terms))
    }

    /// Passive: grants the connection. [`Event::Established`](crate::raw::Event::Established) or
    /// [`Event::Failed`](crate::raw::Event::Failed) follows.
    ///
    /// # Errors
    /// As [`agree`](Self::agree), and for more private data than 196 bytes.
    pub fn accept(&self, id: CommId, terms: &Terms, private_data: &[u8]) -> Result<Agreed, Error> {
        self.call(|service, device| {
            service.call(device, |state, now| state.manager.accept(now, id, terms, private_data))
        })
    }

    /// Passive: rejects a request that waits.
    ///
    /// # Errors
    /// [`ConnectionError::Call`] if the peer has given up, and for more private data than 148
    /// bytes.
    pub fn reject(&self, id: CommId, private_data: &[u8]) -> Result<(), Error> {
        self.call(|service, device| {
            service
                .call(device, |state, now| state.manager.reject(now, id, RejReason::CONSUMER, private_data))
        })
    }

    /// Takes questions for the service of datagrams at `port`; those that wait for the program are
    /// `backlog` at most. Ports of connections are others.
    ///
    /// # Errors
    /// [`ConnectionError::Call`] if the port has a listener.
    pub fn listen_for_datagrams(
        &self,
        port: u16,
        backlog: usize,
        sink: Arc<dyn ConnectionSink>,
    ) -> Result<(), Error> {
        self.call(|service, device| {
            service.call(device, |state, _| {
                state.manager.listen_for_datagrams(port, backlog)?;
                state.open_service(port, sink);
                Ok(())
            })
        })
    }

    /// Takes no more. Questions that the sink knows of can still be answered.
    pub fn unlisten_for_datagrams(&self, port: u16) {
        self.service.call(&self.device, |state, _| state.close_service(port));
    }

    /// Asks for the service of datagrams at the port of a peer, as from `src_port`.
    /// [`Event::Found`](crate::raw::Event::Found) or [`Event::Failed`](crate::raw::Event::Failed)
    /// follows. A peer that nobody answers for, or that has no such service, is asked again for
    /// `patience`.
    ///
    /// # Errors
    /// [`ConnectionError::Call`].
    pub fn look_up(
        &self,
        to: SocketAddr,
        src_port: u16,
        private_data: &[u8],
        patience: Duration,
        sink: Arc<dyn ConnectionSink>,
    ) -> Result<CommId, Error> {
        self.call(|service, device| {
            service.call(device, |state, now| {
                let until = now.saturating_add(patience);
                let id = state.manager.look_up(now, to, src_port, private_data, until)?;
                state.watch(id, sink);
                Ok(id)
            })
        })
    }

    /// Answers a question for a service of datagrams: `found` is where it is.
    ///
    /// # Errors
    /// [`ConnectionError::Call`] if the question waits no more, and for more private data than 136
    /// bytes.
    pub fn serve(&self, id: CommId, found: DatagramService, private_data: &[u8]) -> Result<(), Error> {
        self.call(|service, device| {
            service.call(device, |state, now| state.manager.serve(now, id, found, private_data))
        })
    }

    /// Answers a question for a service of datagrams: the program does not want to.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn refuse(&self, id: CommId, private_data: &[u8]) -> Result<(), Error> {
        self.call(|service, device| {
            service.call(device, |state, now| state.manager.refuse(now, id, private_data))
        })
    }

    /// Ends the connection, or the attempt at one. Of one that was established,
    /// [`Event::Disconnected`](crate::raw::Event::Disconnected) follows.
    pub fn disconnect(&self, id: CommId) {
        self.service.call(&self.device, |state, now| state.manager.close(now, id));
        self.device.progress();
    }

    /// Forgets the connection, which ends if it has not: its sink is told of nothing any more.
    pub fn release(&self, id: CommId) {
        self.service.call(&self.device, |state, now| state.unwatch(now, id));
        self.device.progress();
    }

    fn call<R>(&self, call: impl FnOnce(&Service, &Device) -> Result<R, CmError>) -> Result<R, Error> {
        self.device.check_process()?;
        let result = call(&self.service, &self.device).map_err(ConnectionError::from)?;
        // What that has posted leaves at once, if nobody else drives the engine.
        self.device.progress();
        Ok(result)
    }
}
