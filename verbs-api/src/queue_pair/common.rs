//! The methods of queue pairs of every kind.

/// The calls of a type with a field `owned`; `state` says what its states are.
macro_rules! common_calls {
    ($pair:ident, state: $state:literal) => {
        impl $pair {
            /// Posts a receive request, for one SEND, WRITE with immediate or datagram of a peer's.
            ///
            /// # Errors
            /// [`Error::Post`](crate::Error::Post), also in a state that takes none; nothing was
            /// posted then.
            pub fn post_recv(
                &mut self,
                request: &datapath::queue::RecvRequest<'_>,
            ) -> Result<(), crate::Error> {
                self.owned.post_recv(request)
            }

            /// Posts several receive requests, in order.
            ///
            /// # Errors
            /// [`Error::Batch`](crate::Error::Batch) has the index of the first request that was
            /// not posted; those before it were.
            pub fn post_recv_batch(
                &mut self,
                requests: &[datapath::queue::RecvRequest<'_>],
            ) -> Result<(), crate::Error> {
                self.owned.post_recv_batch(requests)
            }

            /// Begins a batch of receive requests, which the engine sees when the batch is dropped.
            /// Each is written as it is added, so that no list of them is needed.
            pub fn recv_batch(&mut self) -> crate::RecvBatch<'_> {
                self.owned.recv_batch()
            }

            /// Send requests posted whose place in the queue is not free again.
            #[must_use]
            pub fn outstanding(&self) -> u32 {
                self.owned.send.outstanding()
            }

            #[doc = concat!("Its state: ", $state)]
            #[must_use]
            pub fn state(&self) -> datapath::qp::state::QpState {
                self.owned.send.state()
            }

            /// Changes the attributes that `mask` names, and the state if it names that
            /// (`ibv_modify_qp`; protocol.md 1.9 has the transitions and their masks).
            ///
            /// # Errors
            /// [`Error::Connect`](crate::Error::Connect) says what the mask lacks or must not hold,
            /// or which value is wrong; nothing has changed then.
            pub fn modify(
                &mut self,
                attr: &datapath::qp::attr::QpAttr,
                mask: datapath::qp::attr::QpAttrMask,
            ) -> Result<(), crate::Error> {
                self.owned.life.modify(attr, mask)
            }

            /// Pauses it: nothing that is posted is sent, nothing is sent again, and the peer's
            /// READs and atomics are not answered, until [`Self::resume`], RESET or ERR. What comes
            /// in is taken and acknowledged. A peer that awaits a response asks again, and gives up
            /// when its retries are used up.
            ///
            /// # Errors
            /// [`Error::Forked`](crate::Error::Forked).
            pub fn pause(&mut self) -> Result<(), crate::Error> {
                self.owned.life.set_paused(true)
            }

            /// Lets it go on after [`Self::pause`]. Its timers begin anew. Without effect if it is
            /// not paused.
            ///
            /// # Errors
            /// [`Error::Forked`](crate::Error::Forked).
            pub fn resume(&mut self) -> Result<(), crate::Error> {
                self.owned.life.set_paused(false)
            }

            /// Whether it is paused.
            #[must_use]
            pub fn is_paused(&self) -> bool {
                self.owned.life.is_paused()
            }

            /// The attributes of this queue pair and its state (`ibv_query_qp`). The PSNs are those
            /// that it began with.
            #[must_use]
            pub fn query(&self) -> datapath::qp::attr::QpAttr {
                self.owned.life.query()
            }

            /// Sizes of its queues, as they were asked for (`ibv_query_qp`).
            #[must_use]
            pub const fn caps(&self) -> datapath::queue::QueueCaps {
                self.owned.life.caps()
            }

            /// The number of this queue pair.
            #[must_use]
            pub fn qpn(&self) -> u32 {
                self.owned.life.qpn()
            }
        }
    };
}
