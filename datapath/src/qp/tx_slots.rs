//! Frames to write, wherever they go.

/// Lends frames to write; what queue pairs need of the port and of self-loopback.
pub(crate) trait TxSlots {
    /// A frame to write, from the port or, for self-loopback, from the engine; `None` if there is
    /// none now.
    fn slot(&mut self, loopback: bool) -> Option<&mut [u8]>;
    /// Sends the first `len` bytes of the frame lent last.
    fn commit(&mut self, loopback: bool, len: usize);
    /// Takes the frame lent last back.
    fn cancel(&mut self, loopback: bool);

    /// Lends a frame to `build`, and sends what that wrote: as many bytes as it says, or nothing if
    /// it fails.
    ///
    /// # Errors
    /// [`NotSent`].
    #[inline(always)]
    fn emit<E>(
        &mut self,
        loopback: bool,
        build: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), NotSent<E>> {
        let frame = self.slot(loopback).ok_or(NotSent::PortFull)?;
        match build(frame) {
            Ok(len) => {
                self.commit(loopback, len);
                Ok(())
            }
            Err(error) => {
                self.cancel(loopback);
                Err(NotSent::Failed(error))
            }
        }
    }
}

/// Why a frame was not sent.
pub(crate) enum NotSent<E> {
    /// There is none to write now.
    PortFull,
    /// It could not be written.
    Failed(E),
}
