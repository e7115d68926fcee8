//! gRPC over streams, by tonic: hello, and notes that go both ways at once.

use crate::Error;
use crate::load::Load;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use futures_util::{Stream, StreamExt as _, stream};
use greeter_client::GreeterClient;
use greeter_server::{Greeter, GreeterServer};
use hyper_util::rt::TokioIo;
use srnic_streams::{AsyncListener, AsyncStream, Endpoint};
use std::io;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint as Target, Server, Uri};
use tonic::{Request, Response, Status, Streaming};

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Notes that wait to be sent.
const NOTES: usize = 32;

#[expect(clippy::pedantic, clippy::nursery, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/srnic.example.Greeter.rs"));
}
use generated::{greeter_client, greeter_server};

/// Who says hello.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HelloRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// What it is told.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HelloReply {
    /// A greeting with its name.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// A note of a chat.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Note {
    /// Counts up.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Any bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// The service.
struct Greets;

#[tonic::async_trait]
impl Greeter for Greets {
    type ChatStream = Pin<Box<dyn Stream<Item = Result<Note, Status>> + Send>>;

    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let HelloRequest { name } = request.into_inner();
        if name.is_empty() {
            return Err(Status::invalid_argument("who says hello has a name"));
        }
        Ok(Response::new(HelloReply { message: format!("hello {name}") }))
    }

    /// Sends each note back as it comes.
    async fn chat(&self, request: Request<Streaming<Note>>) -> Result<Response<Self::ChatStream>, Status> {
        Ok(Response::new(Box::pin(request.into_inner())))
    }
}

/// A stream, as tonic's server takes it.
struct Io(AsyncStream);

impl Connected for Io {
    type ConnectInfo = Option<SocketAddr>;

    fn connect_info(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Serves until the task is dropped.
///
/// # Errors
/// Those of tonic.
pub async fn serve(listener: AsyncListener) -> Result<(), Error> {
    let incoming = stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(Io);
        Some((accepted, listener))
    });
    Ok(Server::builder().add_service(GreeterServer::new(Greets)).serve_with_incoming(incoming).await?)
}

/// A client of the service.
pub struct Client(GreeterClient<Channel>);

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// Those of the stream, and of tonic.
    pub async fn connect(endpoint: &Endpoint, to: SocketAddr) -> Result<Self, Error> {
        let endpoint = endpoint.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let endpoint = endpoint.clone();
            async move { endpoint.connect_async(to, PATIENCE).await.map(TokioIo::new) }
        });
        // The name is not looked up.
        let channel = Target::from_static("http://srnic").connect_with_connector(connector).await?;
        Ok(Self(GreeterClient::new(channel)))
    }

    /// Says hello.
    ///
    /// # Errors
    /// The status of the call.
    pub async fn hello(&mut self, name: &str) -> Result<String, Status> {
        let reply = self.0.say_hello(HelloRequest { name: name.to_owned() }).await?;
        Ok(reply.into_inner().message)
    }

    /// Sends `count` notes of `size` bytes, and hears each back while others are on their way.
    ///
    /// # Errors
    /// The status of the call; a note that is not the one that was sent.
    pub async fn chat(&mut self, count: u64, size: usize) -> Result<Load, Error> {
        let (notes, outgoing) = mpsc::channel(NOTES);
        let outgoing = stream::unfold(outgoing, |mut notes: mpsc::Receiver<(Instant, Note)>| async move {
            let (_, note) = notes.recv().await?;
            Some((note, notes))
        });
        let begun = Instant::now();
        let sends = tokio::spawn(async move {
            for number in 0..count {
                let note = Note { number, payload: vec![number.to_le_bytes()[0]; size] };
                if notes.send((Instant::now(), note)).await.is_err() {
                    return;
                }
            }
        });
        let mut back = self.0.chat(outgoing).await?.into_inner();
        let mut load = Load::default();
        let mut last = begun;
        for number in 0..count {
            let note = back.next().await.ok_or("the chat ended early")??;
            if note.number != number || note.payload != vec![number.to_le_bytes()[0]; size] {
                return Err(format!("note {} came as {number}", note.number).into());
            }
            let now = Instant::now();
            load.add(2 * size as u64, now.duration_since(last));
            last = now;
        }
        sends.await?;
        load.elapsed = begun.elapsed();
        Ok(load)
    }
}
