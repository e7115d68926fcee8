//! What client and server say to each other. Reading needs no words: a GET is an RDMA READ.

use srnic_tools::error::{Error, Result};
use std::str::FromStr;
use verbs_api::{Endpoint, RemoteRegion};

/// Bytes of a PUT before its value: the client's number for it, and the key.
pub const PUT_HEAD: usize = 16;
/// Bytes of an answer: the client's number, and the version; 0 if the bucket is full.
pub const ANSWER: usize = 16;
/// PUTs and READs of one client at once.
pub const LANES: usize = 8;
/// A try lasts 4.096 us x 2^18, about a second: more processes than processors take their time.
pub const TIMEOUT: u8 = 18;

/// What the server tells a client.
pub struct Welcome {
    pub endpoint: Endpoint,
    pub table: RemoteRegion,
}

impl std::fmt::Display for Welcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.endpoint, self.table)
    }
}

impl FromStr for Welcome {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fails = || Error::Unexpected { said: text.to_owned(), expected: "an endpoint and a region" };
        let (endpoint, table) = text.split_once(' ').ok_or_else(fails)?;
        let (endpoint, table) = (endpoint.parse().map_err(|_| fails())?, table.parse().map_err(|_| fails())?);
        Ok(Self { endpoint, table })
    }
}

/// Two numbers, as PUTs begin with them and answers are.
pub fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// The two words that [`pair`] wrote; `None` if there are not sixteen bytes.
pub fn read_pair(bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*rest.first_chunk()?)))
}
