//! Byte streams with the habits of sockets, on RDMA: [`Endpoint`], [`Listener`], [`Stream`].
//!
//! ```
//! use srnic_streams::{Config, Endpoint};
//! use std::io::{Read, Write};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Endpoint::open("sim:streams", Config::default())?;
//! let listener = server.listen(7471)?;
//! let addr = listener.local_addr();
//! let echo = std::thread::spawn(move || -> std::io::Result<()> {
//!     let mut stream = listener.accept()?;
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text)?;
//!     stream.write_all(text.as_bytes())
//! });
//!
//! let client = Endpoint::open("sim:streams", Config::default())?;
//! let mut stream = client.connect(addr, Duration::from_secs(60))?;
//! stream.write_all(b"hello")?;
//! stream.shutdown_write()?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "hello");
//! # echo.join().expect("no panic")?;
//! # Ok(()) }
//! ```
//!
//! docs/streams.md has the format, and how to read and write in place.

mod acceptor;
mod buffer;
mod config;
mod deadline;
mod endpoint;
mod error;
mod lent;
mod listener;
mod pool;
pub mod protocol;
mod received;
mod stream;
#[cfg(feature = "tokio")]
mod tokio;

pub use buffer::Buffer;
pub use config::Config;
pub use endpoint::{Endpoint, Stats, Transport, Way};
pub use error::{Error, Setup};
pub use listener::Listener;
pub use received::Received;
pub use stream::{ReadHalf, Stream, WriteHalf};
#[cfg(feature = "tokio")]
pub use tokio::{AsyncListener, AsyncStream};
