//! The passive side.

use crate::request::{Request, Seen};
use crate::{Outcome, ServerArgs, config};
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{Endpoint, RecvStream, SendStream, ServerConfig, TokioRuntime, VarInt};
use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nobody may come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes read at once.
const BUFFER: usize = 256 << 10;

/// Serves one connection.
pub async fn run(args: &ServerArgs) -> Outcome<()> {
    let endpoint = bind(args)?;
    eprintln!("listens at {}", endpoint.local_addr()?);
    serve(&endpoint).await
}

/// Listens, and writes the certificate.
pub fn bind(args: &ServerArgs) -> Outcome<Endpoint> {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    server.transport_config(config::transport(&args.common));
    let socket = UdpSocket::bind(args.listen)?;
    let endpoint =
        Endpoint::new(config::endpoint(&args.common)?, Some(server), socket, Arc::new(TokioRuntime))?;
    fs::write(&args.common.cert, own.cert.der())?;
    Ok(endpoint)
}

/// Takes one connection to its end.
pub async fn serve(endpoint: &Endpoint) -> Outcome<()> {
    let coming = tokio::time::timeout(PATIENCE, endpoint.accept()).await?;
    let connection = coming.ok_or("the endpoint is closed")?.await?;
    let (mut to, mut from) = connection.accept_bi().await?;
    let mut request = [0; Request::BYTES];
    from.read_exact(&mut request).await?;
    let request = Request::from_bytes(request);
    if request.echo {
        echo(request, &mut to, &mut from).await?;
    } else {
        let seen = count(&mut from).await?;
        to.write_all(&seen.to_bytes()).await?;
        to.finish()?;
    }
    // The client closes it once it has heard the last word.
    connection.closed().await;
    endpoint.close(VarInt::from_u32(0), b"");
    Ok(())
}

async fn count(from: &mut RecvStream) -> Outcome<Seen> {
    let mut buffer = vec![0; BUFFER];
    let (mut first, mut last) = (None, Instant::now());
    let mut bytes = 0;
    while let Some(len) = from.read(&mut buffer).await? {
        last = Instant::now();
        first.get_or_insert(last);
        bytes += len as u64;
    }
    let elapsed = first.map_or(Duration::ZERO, |first| last.duration_since(first));
    Ok(Seen { bytes, nanos: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) })
}

/// Sends back what comes, a message at a time.
async fn echo(request: Request, to: &mut SendStream, from: &mut RecvStream) -> Outcome<()> {
    let mut message = vec![0; request.size as usize];
    loop {
        match from.read_exact(&mut message).await {
            Ok(()) => to.write_all(&message).await?,
            // The client is done.
            Err(quinn::ReadExactError::FinishedEarly(0)) => return Ok(to.finish()?),
            Err(error) => return Err(error.into()),
        }
    }
}
