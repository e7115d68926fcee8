//! Counters: every drop and every event of the engine has one.

macro_rules! counters {
    ($(#[doc = $about:literal])+ pub struct $counters:ident { $($(#[doc = $doc:literal])+ $name:ident,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl $counters {
            /// What each counter counts, in the order of declaration: its documentation.
            pub const HELP: &'static [&'static str] = &[$(concat!($($doc),+).trim_ascii_start(),)+];

            /// Adds others to them.
            pub const fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// What was counted since they were `earlier`.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)+ }
            }

            /// Name and value of each counter, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

/// Counts an event of a queue pair, for its engine and for itself.
macro_rules! count {
    ($units:expr, $queue_pair:expr, $name:ident) => {{
        $units.counters.$name += 1;
        $queue_pair.counters.$name += 1;
    }};
}
pub(crate) use count;

counters! {
    /// The counters of a queue pair since it was created. Ordinary events are counted for the
    /// engine only. The names are those of [`Counters`].
    pub struct QpCounters {
        /// Request and response packets sent again.
        tx_retransmits,
        /// RNR NAKs sent.
        tx_rnr_naks,
        /// Request packets placed out of order.
        rx_out_of_order,
        /// Request and response packets that had been received before.
        rx_duplicates,
        /// NACKs applied.
        rx_nacks,
        /// RNR NAKs applied.
        rx_rnr_naks,
        /// Retransmission timers that fired.
        rto_fired,
        /// Response timers that fired: a request was sent again because its response did not come.
        response_timeouts,
    }
}

counters! {
    /// The counters of an engine since it was made. They are plain numbers; only the engine writes
    /// them.
    pub struct Counters {
        /// Request packets sent for the first time.
        tx_requests,
        /// Response packets sent for the first time.
        tx_responses,
        /// Request and response packets sent again.
        tx_retransmits,
        /// Packets sent again as probes: RTO, tail and RNR.
        tx_probes,
        /// Acknowledgements sent, of every kind.
        tx_acks,
        /// NACKs sent, which are among the acknowledgements.
        tx_nacks,
        /// RNR NAKs sent, which are among the acknowledgements.
        tx_rnr_naks,
        /// Error NAKs sent, which are among the acknowledgements.
        tx_error_naks,
        /// READ-ACKs sent, which acknowledge responses and are among the acknowledgements.
        tx_read_acks,
        /// Acknowledgements repeated after the end of a queue pair, whose peer had not heard the
        /// last.
        tx_last_acks,
        /// Acknowledgements that were not sent because their queue was full.
        tx_acks_dropped,
        /// Congestion notifications sent (wire mode Plain).
        tx_cnps,
        /// ARP and ICMP frames sent.
        tx_neighbor,
        /// Frames received that say that the device's address is another host's.
        address_disputes,
        /// Frames received for this engine's UDP port.
        rx_packets,
        /// Request packets placed in order.
        rx_in_order,
        /// Request packets placed out of order.
        rx_out_of_order,
        /// Request and response packets that had been received before.
        rx_duplicates,
        /// READs executed.
        rx_reads,
        /// Atomics executed.
        rx_atomics,
        /// Response packets placed, in order or not.
        rx_responses,
        /// Request and response packets marked CE.
        rx_ce_marked,
        /// Request and response packets that this host marked itself, as it falls behind.
        rx_host_marked,
        /// Acknowledgements applied.
        rx_acks,
        /// Acknowledgements applied that bring marks of the peer's host, which falls behind.
        rx_acks_host,
        /// NACKs applied, which are among the acknowledgements.
        rx_nacks,
        /// RNR NAKs applied, which are among the acknowledgements.
        rx_rnr_naks,
        /// Error NAKs applied, which are among the acknowledgements.
        rx_error_naks,
        /// Congestion notifications taken (wire mode Plain).
        rx_cnps,
        /// Packets of UC and UD queue pairs sent.
        tx_unreliable,
        /// Packets of UC and UD queue pairs placed.
        rx_unreliable,
        /// UC messages that had begun and that a hole ended.
        uc_messages_lost,
        /// Frames that are neither ours nor of the neighbor protocols.
        drop_not_ours,
        /// Frames whose Ethernet, IP or UDP header is malformed.
        drop_encapsulation,
        /// Packets that are truncated, or of an unknown version or opcode.
        drop_malformed,
        /// Packets whose ICRC is wrong.
        drop_icrc,
        /// Packets for a queue pair that does not exist.
        drop_unknown_qp,
        /// Packets of the other wire mode.
        drop_wire_mode,
        /// Packets whose opcode the queue pair does not take.
        drop_opcode_class,
        /// Datagrams to a multicast group that no queue pair here is a member of.
        drop_group,
        /// Copies of datagrams to a multicast group, for members on the sender's host, that found
        /// no room.
        drop_group_copy,
        /// Packets from or to an address that is not the queue pair's, or in another VLAN.
        drop_address,
        /// Packets of another partition.
        drop_pkey,
        /// Datagrams with another Q_Key.
        drop_qkey,
        /// UC and UD packets whose message found no receive.
        drop_no_receive,
        /// UC and UD packets that the receive has no room for.
        drop_receive_too_short,
        /// UC packets that do not go on where the message stopped.
        drop_uc_sequence,
        /// UC WRITEs that may not go where they say, or are not as long as they say.
        drop_uc_access,
        /// Packets that the queue pair's state does not take.
        drop_qp_state,
        /// Requests behind the end of the window.
        drop_beyond_window,
        /// Requests whose MSN cannot be.
        drop_msn,
        /// Requests whose SSN was consumed before.
        drop_ssn,
        /// Requests out of order that could not be placed.
        drop_unplaceable,
        /// Requests out of order that would have left too few receives of a shared queue to others.
        drop_srq_share,
        /// Requests out of order for which the metadata ring had no room.
        drop_metadata_full,
        /// Requests out of order for which no recovery context was free.
        drop_no_context,
        /// Requests and responses out of order whose recovery would have taken what is left to
        /// other tenants.
        drop_tenant_share,
        /// Requests and responses out of order that go-back-N does not keep.
        drop_go_back_n,
        /// Requests out of order that strict placement does not keep.
        drop_strict_placement,
        /// Acknowledgements older than one applied before.
        drop_stale_ack,
        /// Acknowledgements of what was never sent, or malformed.
        drop_bad_ack,
        /// Responses that fit no request under way.
        drop_unexpected_response,
        /// Responses that are not what their request asked for, or find its memory gone: the
        /// request fails.
        drop_bad_response,
        /// Completions that their queue had no room for.
        drop_cq_overflow,
        /// Records for the slow path that their ring had no room for.
        records_lost,
        /// Small out-of-order WRITEs parked until their turn.
        parked_writes,
        /// Recovery episodes entered.
        recoveries,
        /// Retransmission timers that fired.
        rto_fired,
        /// Response timers that fired: a request was sent again because its response did not come.
        response_timeouts,
        /// Tail probes sent.
        tail_probes,
        /// Keepalive probes sent, by idle queue pairs: a peer counts each as a duplicate.
        tx_keepalives,
        /// Queue pairs that gave up: retries exhausted.
        retry_exceeded,
        /// Send requests that completed with an error of their own.
        req_cqe_error,
        /// Send requests that failed because the peer grants no access to the memory that they
        /// name.
        req_remote_access_errors,
        /// Send requests that failed because the peer calls them no valid request.
        req_remote_invalid_request,
        /// Send requests that were flushed.
        req_cqe_flush_error,
        /// Receive requests that completed with an error of their own.
        resp_cqe_error,
        /// Receive requests that failed because their memory was too short.
        resp_local_length_error,
        /// Receive requests that were flushed.
        resp_cqe_flush_error,
        /// Requests of the peer's that may not access the memory that they name.
        resp_remote_access_errors,
        /// Doorbells taken.
        doorbells,
        /// Turns of the scheduler granted to a queue pair.
        sched_grants,
        /// Scheduling turns that ended because the port had no transmit slot.
        tx_ring_full,
        /// Scheduling turns that ended because a device with tenants keeps the transmit ring short.
        tx_ring_bounded,
    }
}
