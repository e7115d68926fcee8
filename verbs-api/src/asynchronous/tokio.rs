//! Waits for file descriptors on tokio (feature `tokio`).

use super::completions::Completions;
use crate::device::Device;
use crate::error::Error;
use datapath::engine::AsyncEvent;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that tokio watches.
struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    fn new(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        // One of its own: tokio watches each only once.
        let own = descriptor.try_clone_to_owned()?;
        // SAFETY: an `OwnedFd` is open until it is dropped and names the same file all the time,
        // and nobody replaces it here.
        Ok(Self(unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?))
    }

    /// Waits until there is something that was not there when this was called last.
    async fn changed(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

impl Completions {
    /// Wakes the tasks whose operations have ended, for as long as there are clones of this, queue
    /// pairs or operations that complete here: `tokio::spawn(completions.drive())`. Without it no
    /// operation ends. When the last of them goes this is ready.
    ///
    /// ```
    /// use verbs_api::{Completions, Device, Driver};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::builder().driver(Driver::THREAD).open("sim:drive")?;
    /// let completions = Completions::new(&device, 1024)?;
    /// let driver = tokio::spawn(completions.drive());
    /// // Here come queue pairs, and what they do.
    /// drop(completions);
    /// driver.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Channel`] if the system has no descriptor to spare, or tokio cannot watch it.
    ///
    /// # Panics
    /// As whatever waits on tokio does: when polled outside of a runtime, or on one that was built
    /// without `enable_io`.
    pub fn drive(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (readable, completions) = (self.as_fd().try_clone_to_owned(), self.downgrade());
        async move {
            let watched = readable.and_then(|own| Readable::new(own.as_fd())).map_err(Error::Channel)?;
            while let Some(completions) = completions.upgrade() {
                completions.process()?;
                drop(completions);
                watched.changed().await.map_err(Error::Channel)?;
            }
            Ok(())
        }
    }
}

impl Device {
    /// Waits on tokio for the next asynchronous event (`ibv_get_async_event`). Who stops waiting
    /// loses none.
    ///
    /// ```
    /// use verbs_api::{AsyncEvent, Device, Driver};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), verbs_api::Error> {
    /// # let place = std::env::temp_dir().join(format!("next-event-{}", std::process::id()));
    /// # let open = |role| Device::builder().driver(Driver::THREAD)
    /// #     .open(&format!("memif:{},role={role}", place.display()));
    /// let device = open("server")?;
    /// # let peer = open("client")?;
    /// while !device.link_up() {
    ///     println!("{:?}", device.next_event().await?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a device that nobody drives while tasks wait; [`Error::Events`]
    /// if the system has no descriptor to spare, or tokio cannot watch it.
    ///
    /// # Panics
    /// As whatever waits on tokio does: when polled outside of a runtime, or on one that was built
    /// without `enable_io`.
    pub async fn next_event(&self) -> Result<AsyncEvent, Error> {
        self.needs_thread()?;
        let readable = Readable::new(self.event_fd()?).map_err(Error::Events)?;
        loop {
            if let Some(event) = self.poll_event() {
                return Ok(event);
            }
            readable.changed().await.map_err(Error::Events)?;
        }
    }
}
