//! The passive end of probes of a peer: it has memory for them, and runs its engine.

use super::measure::{LARGE, TARGET};
use crate::error::{Error, Result};
use crate::program;
use crate::pump::wait_until;
use verbs_api::{Connecting, Device, Listener, QueuePair};

/// Completions that each connection may have: those of a failure.
const CQ_ENTRIES: u32 = 16;

/// Answers every client of `port` until Ctrl-C.
///
/// # Errors
/// [`Error::Verbs`].
pub fn answer(device: &Device, port: u16) -> Result<()> {
    let pd = device.alloc_pd();
    let cq = device.create_cq(CQ_ENTRIES)?;
    let target = pd.register(LARGE, TARGET)?;
    let listener = Listener::bind(device, port)?;
    program::say(format_args!("answering probes at {}", listener.local_addr()));
    let (mut coming, mut there): (Vec<Connecting>, Vec<QueuePair>) = (Vec::new(), Vec::new());
    let mut what = "no client came";
    loop {
        let request = wait_until(device, what, None, || {
            arrive(&mut coming, &mut there);
            Ok(listener.poll())
        });
        let request = match request {
            Err(Error::Interrupted) => return Ok(()),
            request => request?,
        };
        what = "no other client came";
        let pair = pd.queue_pair(&cq, &cq).access(TARGET).build()?;
        // A client that left meanwhile is nobody's failure.
        coming.extend(request.with_private_data(&target.remote().to_bytes()).accept(pair));
    }
}

/// Who has connected stays until it leaves; who went away again is forgotten.
fn arrive(coming: &mut Vec<Connecting>, there: &mut Vec<QueuePair>) {
    coming.retain_mut(|connecting| match connecting.poll() {
        Ok(Some(pair)) => {
            there.push(pair);
            false
        }
        Ok(None) => true,
        Err(_) => false,
    });
    there.retain(|pair| !pair.is_disconnected());
}
