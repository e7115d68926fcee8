//! The side that measures.

use crate::request::{Request, Seen};
use crate::{ClientArgs, Outcome, config};
use hdrhistogram::Histogram;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::CertificateDer;
use quinn::{ClientConfig, Endpoint, RecvStream, SendStream, TokioRuntime, VarInt};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Round trips before those that count.
const WARM_UP: u64 = 10;

pub async fn run(args: &ClientArgs) -> Outcome<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let endpoint = Endpoint::new(config::endpoint(&args.common)?, None, socket, Arc::new(TokioRuntime))?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(fs::read(&args.common.cert)?))?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(config::transport(&args.common));
    let connection = endpoint.connect_with(client, args.connect, "localhost")?.await?;
    let (mut to, mut from) = connection.open_bi().await?;
    let request = Request { size: args.size, echo: args.latency };
    to.write_all(&request.to_bytes()).await?;
    let result = if args.latency {
        latency(args, &mut to, &mut from).await?
    } else {
        bandwidth(args, &mut to, &mut from).await?
    };
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    fs::write(&args.json, format!("{result:#}\n"))?;
    Ok(())
}

/// The server says how many bytes came, and in what time.
async fn bandwidth(args: &ClientArgs, to: &mut SendStream, from: &mut RecvStream) -> Outcome<Value> {
    let message = vec![0x5A; args.size as usize];
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut sent = 0;
    while end.map_or(sent < args.iters, |end| Instant::now() < end) {
        to.write_all(&message).await?;
        sent += 1;
    }
    to.finish()?;
    let mut said = [0; Seen::BYTES];
    from.read_exact(&mut said).await?;
    let seen = Seen::from_bytes(&said);
    if seen.bytes != sent * u64::from(args.size) {
        return Err(format!("{sent} messages were sent, and {} bytes came", seen.bytes).into());
    }
    let gbps = seen.bytes as f64 * 8.0 / seen.nanos as f64;
    Ok(json!({ "bytes": seen.bytes, "bw_avg_gbps": gbps }))
}

async fn latency(args: &ClientArgs, to: &mut SendStream, from: &mut RecvStream) -> Outcome<Value> {
    let (message, mut back) = (vec![0x5A; args.size as usize], vec![0; args.size as usize]);
    let mut nanos = Histogram::<u64>::new(3)?;
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut round = 0;
    while round <= WARM_UP || end.map_or(round < WARM_UP + args.iters, |end| Instant::now() < end) {
        let begun = Instant::now();
        to.write_all(&message).await?;
        from.read_exact(&mut back).await?;
        if round >= WARM_UP {
            nanos.record(u64::try_from(begun.elapsed().as_nanos())?)?;
        }
        round += 1;
    }
    to.finish()?;
    // The server has read the end: what closes the connection would overtake it.
    while from.read(&mut back).await?.is_some() {}
    let half = |quantile: f64| nanos.value_at_quantile(quantile) as f64 / 2000.0;
    let bytes = (round - WARM_UP) * u64::from(args.size);
    Ok(json!({ "bytes": bytes, "lat_us": { "p50": half(0.5), "p99": half(0.99) } }))
}
