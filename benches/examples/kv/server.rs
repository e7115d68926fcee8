//! The server: it applies PUTs to the table, one after the other; GETs it never sees.

use crate::protocol::{LANES, PUT_HEAD, TIMEOUT, Welcome, pair, read_pair};
use crate::slot::{BUCKET, Entry, SLOT, Slot, VALUE_MAX, bucket_of, place};
use srnic_benches::blocking::{Waiter, hear, say};
use srnic_tools::error::{Error, Result};
use srnic_tools::interrupt;
use std::collections::HashMap;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use verbs_api::{
    Access, Completion, Device, Endpoint, MemoryRegion, ProtectionDomain, QueuePair, RecvRequest, SendData,
    SendRequest, SharedReceiveQueue, SrqCaps, WcStatus,
};

/// Receives for all clients together.
const RECEIVES: usize = 512;
/// Bytes of one.
const RECEIVE: usize = PUT_HEAD + VALUE_MAX;
/// Marks the completion of an answer.
const ANSWERED: u64 = u64::MAX;
/// How long a client may wait to be let in, and Ctrl-C to be seen.
const LOOK: Duration = Duration::from_millis(50);

/// What clients do at the listener.
enum Visit {
    /// A client that has said where it is.
    Comes(TcpStream, Endpoint),
    /// The client at this address has left, or died.
    Leaves(SocketAddr),
}

struct Server {
    pd: ProtectionDomain,
    waiter: Waiter,
    /// Takes PUTs of all clients.
    srq: SharedReceiveQueue,
    requests: MemoryRegion,
    table: MemoryRegion,
    buckets: u64,
    /// By queue pair; and where each client connected from.
    clients: HashMap<u32, (QueuePair, SocketAddr)>,
    puts: u64,
}

/// Serves until Ctrl-C.
pub fn serve(device: &Device, address: SocketAddr, buckets: u64) -> Result<()> {
    let fails = |source| Error::Channel { address, doing: "listen", source };
    let listener = TcpListener::bind(address).map_err(fails)?;
    let mut server = Server::new(device, buckets)?;
    let (tell, visits) = channel();
    // It ends with the process.
    thread::spawn(move || accept_visits(&listener, &tell));
    println!("serving {buckets} buckets at {address}");
    server.run(&visits)?;
    println!("{} PUTs", server.puts);
    Ok(())
}

/// Lets clients in, each with a thread that learns when it leaves.
fn accept_visits(listener: &TcpListener, tell: &Sender<Visit>) {
    for mut stream in listener.incoming().flatten() {
        let tell = tell.clone();
        thread::spawn(move || {
            let (Ok(said), Ok(address), Ok(copy)) = (hear(&stream), stream.peer_addr(), stream.try_clone())
            else {
                return;
            };
            let Ok(endpoint) = said.parse() else { return };
            // The server may have ended, and then nobody listens.
            let _ = tell.send(Visit::Comes(copy, endpoint));
            let _ = stream.set_read_timeout(None);
            let _ = stream.read(&mut [0]);
            let _ = tell.send(Visit::Leaves(address));
        });
    }
}

impl Server {
    fn new(device: &Device, buckets: u64) -> Result<Self> {
        let pd = device.alloc_pd();
        let waiter = Waiter::new(device, 1 << 14)?;
        let table_len = usize::try_from(buckets).unwrap_or(usize::MAX).saturating_mul(BUCKET);
        let table = pd.register(table_len, Access::LOCAL_WRITE | Access::REMOTE_READ)?;
        let requests = pd.register(RECEIVES * RECEIVE, Access::LOCAL_WRITE)?;
        let max_wr = u32::try_from(RECEIVES).unwrap_or(u32::MAX);
        let srq = pd.create_srq(SrqCaps { max_wr, max_sge: 1 })?;
        let clients = HashMap::new();
        let mut server = Self { pd, waiter, srq, requests, table, buckets, clients, puts: 0 };
        (0..RECEIVES).try_for_each(|index| server.post_recv(index))?;
        Ok(server)
    }

    fn run(&mut self, visits: &Receiver<Visit>) -> Result<()> {
        while interrupt::check().is_ok() {
            for visit in visits.try_iter() {
                match visit {
                    // A client that goes wrong is no reason to stop.
                    Visit::Comes(stream, endpoint) => drop(self.admit(&stream, &endpoint)),
                    Visit::Leaves(address) => self.clients.retain(|_, (_, of)| *of != address),
                }
            }
            if let Some(completion) = self.waiter.next_within(LOOK)? {
                self.complete(&completion)?;
            }
        }
        Ok(())
    }

    fn admit(&mut self, stream: &TcpStream, endpoint: &Endpoint) -> Result<()> {
        let cq = self.waiter.cq();
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        let prepared = self.pd.queue_pair(cq, cq).srq(&self.srq).access(access).timeout(TIMEOUT).build()?;
        let welcome = Welcome { endpoint: prepared.endpoint(), table: self.table.remote() };
        let pair = prepared.connect(endpoint)?;
        let address = stream.peer_addr();
        let fails =
            |source| Error::Channel { address: SocketAddr::from(([0, 0, 0, 0], 0)), doing: "answer", source };
        let address = address.map_err(fails)?;
        self.clients.insert(pair.qpn(), (pair, address));
        say(stream, &welcome.to_string()).map_err(fails)
    }

    fn complete(&mut self, completion: &Completion) -> Result<()> {
        if completion.status != WcStatus::Success {
            self.clients.remove(&completion.qpn);
        }
        if completion.wr_id == ANSWERED {
            return Ok(());
        }
        let index = usize::try_from(completion.wr_id).unwrap_or(0);
        if completion.status == WcStatus::Success {
            let len = (completion.byte_len as usize).min(RECEIVE);
            let mut request = vec![0; len];
            self.requests.read(index * RECEIVE, &mut request)?;
            self.answer(completion.qpn, &request)?;
        }
        self.post_recv(index)
    }

    /// Applies a PUT, and only then answers.
    fn answer(&mut self, qpn: u32, request: &[u8]) -> Result<()> {
        let Some((number, key)) = read_pair(request) else { return Ok(()) };
        let version = self.put(key, &request[PUT_HEAD..])?;
        let Some((pair_to, _)) = self.clients.get_mut(&qpn) else { return Ok(()) };
        let answer = pair(number, version.unwrap_or(0));
        let send = SendRequest::send(SendData::Inline(&answer)).id(ANSWERED).signaled();
        if pair_to.post_send(&send).is_err() {
            // It does not take its answers.
            self.clients.remove(&qpn);
        }
        Ok(())
    }

    /// The version that the key has now; `None` if its bucket is full.
    fn put(&mut self, key: u64, value: &[u8]) -> Result<Option<u64>> {
        let base = usize::try_from(bucket_of(key, self.buckets)).unwrap_or(0) * BUCKET;
        let mut bucket = [0; BUCKET];
        self.table.read(base, &mut bucket)?;
        let Some((index, slot)) = place(&bucket, key) else { return Ok(None) };
        let version = if let Slot::Entry(entry) = slot { entry.version + 1 } else { 1 };
        let entry = Entry { version, key, value: value.to_vec() };
        self.table.write(base + index * SLOT, &entry.encode())?;
        self.puts += 1;
        Ok(Some(version))
    }

    fn post_recv(&mut self, index: usize) -> Result<()> {
        let scatter = [self.requests.slice(index * RECEIVE..(index + 1) * RECEIVE)?];
        Ok(self.srq.post_recv(&RecvRequest { wr_id: index as u64, scatter: &scatter })?)
    }
}

const _: () = assert!(RECEIVES >= 16 * LANES, "sixteen clients at full load find receives");
