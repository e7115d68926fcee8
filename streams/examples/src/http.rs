//! HTTP over streams: a server by axum, and a client by hyper, neither of which knows RDMA.

use crate::Error;
use crate::load::Load;
use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{Request, StatusCode, header};
use axum::routing::{get, post};
use core::net::SocketAddr;
use core::time::Duration;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use srnic_streams::{AsyncListener, AsyncStream, Endpoint};
use std::io;
use std::time::Instant;

/// Longest body that is made.
const BODY_MAX: usize = 64 << 20;
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nobody is accepted once the pool had no room.
const REST: Duration = Duration::from_millis(10);

/// Takes streams in for axum.
struct Incoming(AsyncListener);

impl axum::serve::Listener for Incoming {
    type Io = AsyncStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (AsyncStream, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok(stream) => {
                    if let Ok(peer) = stream.peer_addr() {
                        return (stream, peer);
                    }
                }
                // The peer was told.
                Err(error) => {
                    eprintln!("a stream was not accepted: {error}");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local_addr())
    }
}

/// What the server answers: `GET /`, `GET /bytes/N`, and `POST /echo`.
fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "hello over RDMA\n" }))
        .route(
            "/bytes/{count}",
            get(|Path(count): Path<usize>| async move {
                if count > BODY_MAX { Err(StatusCode::PAYLOAD_TOO_LARGE) } else { Ok(vec![0x5A; count]) }
            }),
        )
        .route("/echo", post(|body: Bytes| async move { body }))
}

/// Serves until the task is dropped.
///
/// # Errors
/// Those of axum.
pub async fn serve(listener: AsyncListener) -> io::Result<()> {
    axum::serve(Incoming(listener), router()).await
}

/// A connection of the client's.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// Those of the stream, and of HTTP.
    pub async fn connect(endpoint: &Endpoint, to: SocketAddr) -> Result<Self, Error> {
        let stream = endpoint.connect_async(to, PATIENCE).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its errors come to who sends.
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Gets a path, or posts a body to it; the body of the answer.
    ///
    /// # Errors
    /// Those of HTTP, and an answer that is no success.
    pub async fn ask(&mut self, path: &str, body: Option<Bytes>) -> Result<Bytes, Error> {
        let request = if body.is_some() { Request::post(path) } else { Request::get(path) };
        let request = request.header(header::HOST, "srnic").body(Full::new(body.unwrap_or_default()))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("{path}: {}", response.status()).into());
        }
        Ok(response.into_body().collect().await?.to_bytes())
    }
}

/// Asks for bodies of `size` bytes over so many connections at once, `requests` over each.
///
/// # Errors
/// Those of a client.
pub async fn load(
    endpoint: &Endpoint,
    to: SocketAddr,
    (connections, requests): (usize, usize),
    size: usize,
) -> Result<Load, Error> {
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let mut client = Client::connect(&endpoint, to).await?;
                let (mut load, begun) = (Load::default(), Instant::now());
                for _ in 0..requests {
                    let asked = Instant::now();
                    let body = client.ask(&format!("/bytes/{size}"), None).await?;
                    if body.len() != size {
                        return Err(format!("{} bytes came instead of {size}", body.len()).into());
                    }
                    load.add(size as u64, asked.elapsed());
                }
                load.elapsed = begun.elapsed();
                Ok::<_, Error>(load)
            })
        })
        .collect();
    let mut all = Load::default();
    for task in tasks {
        all.merge(&task.await??);
    }
    Ok(all)
}
