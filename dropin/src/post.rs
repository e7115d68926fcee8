//! Posting lists of work requests.

use crate::abi::{RecvWr, SendWr};
use crate::argument::{Chain, Linked, Out, array};
use crate::errno::{Errno, Result};
use crate::qp::Qp;
use crate::request::with_request;
use core::ffi::c_int;
use verbs_api::RecvRequest;

impl Linked for RecvWr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

/// Takes requests off a list until one is refused, which `bad` tells.
#[inline]
fn each<T: Linked>(
    mut list: Chain<T>,
    bad: Option<Out<*mut T>>,
    mut post: impl FnMut(&T) -> Result<()>,
) -> Result<()> {
    while let Some((at, wr)) = list.pop() {
        if let Err(errno) = post(&wr) {
            if let Some(bad) = bad {
                bad.set(at);
            }
            return Err(errno);
        }
    }
    Ok(())
}

/// Posts receives by `post`.
#[inline]
pub fn post_receives(
    list: Chain<RecvWr>,
    bad: Option<Out<*mut RecvWr>>,
    mut post: impl FnMut(&RecvRequest<'_>) -> Result<()>,
) -> Result<()> {
    each(list, bad, |wr| {
        let count = usize::try_from(wr.num_sge).map_err(|_| Errno::INVALID)?;
        // SAFETY: the program's contract.
        let scatter = unsafe { array(wr.sg_list, count) };
        post(&RecvRequest { wr_id: wr.wr_id, scatter })
    })
}

calls! {
    fn post_send(qp: &Qp, list: Chain<SendWr>, bad: Option<Out<*mut SendWr>>) -> c_int = code {
        let mut queue = qp.pair().send();
        each(list, bad, |wr| {
            // SAFETY: the program's contract.
            unsafe { with_request(qp, wr, |request| Ok(queue.post(request)?)) }
        })
    }

    fn post_recv(qp: &Qp, list: Chain<RecvWr>, bad: Option<Out<*mut RecvWr>>) -> c_int = code {
        let mut queue = qp.pair().recv();
        post_receives(list, bad, |request| Ok(queue.post(request)?))
    }
}
