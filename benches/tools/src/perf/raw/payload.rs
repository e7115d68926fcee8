//! What `--copy` and `--crc` do with each frame: the work that no reliable transport can do
//! without.

use super::frame::HEADER;

/// Bytes of the CRC at the end of a frame.
const CRC: usize = 4;

/// The user's buffer, which stays in the cache, and what is done with it.
#[derive(Clone)]
pub struct Payload {
    user: Vec<u8>,
    copy: bool,
    crc: bool,
}

impl Payload {
    /// For payloads of up to `size` bytes.
    pub fn new(size: usize, copy: bool, crc: bool) -> Self {
        let user = (0..=u8::MAX).cycle().take(size).collect();
        Self { user, copy, crc }
    }

    /// Returns `true` if payloads are looked at.
    pub const fn is_used(&self) -> bool {
        self.copy || self.crc
    }

    /// Which byte of a frame is best placed on a cache line's start.
    pub const fn align_at(&self) -> usize {
        if self.copy { HEADER } else { 0 }
    }

    /// Fills a payload that is to be sent: the user's bytes, and their CRC at the end.
    #[inline]
    pub fn send(&self, payload: &mut [u8]) {
        let (data, tail) = payload.split_at_mut(payload.len() - CRC);
        if self.copy {
            data.copy_from_slice(&self.user[..data.len()]);
        }
        if self.crc {
            let hashed = if self.copy { &self.user[..data.len()] } else { &*data };
            tail.copy_from_slice(&crc32fast::hash(hashed).to_le_bytes());
        }
    }

    /// Takes a payload that was received; false if its CRC is wrong.
    #[inline]
    pub fn receive(&mut self, payload: &[u8]) -> bool {
        let Some((data, tail)) = payload.split_last_chunk::<CRC>() else { return false };
        let data = if self.copy {
            let Some(user) = self.user.get_mut(..data.len()) else { return false };
            user.copy_from_slice(data);
            // Who may not look at the bytes may leave the copy out.
            std::hint::black_box(&*user)
        } else {
            data
        };
        !self.crc || crc32fast::hash(data).to_le_bytes() == *tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanged(copy: bool, crc: bool) -> (Vec<u8>, Payload) {
        let mut payload = vec![0xAA; 1000];
        Payload::new(1000, copy, crc).send(&mut payload);
        let mut receiver = Payload::new(1000, copy, crc);
        receiver.user.fill(0);
        (payload, receiver)
    }

    #[test]
    fn a_copy_arrives_in_the_user_s_buffer() {
        let (payload, mut receiver) = exchanged(true, true);
        assert!(receiver.receive(&payload));
        assert_eq!(receiver.user[..996], payload[..996]);
        assert_eq!(payload[..4], [0, 1, 2, 3]);
    }

    #[test]
    fn a_wrong_bit_is_seen_wherever_it_is() {
        for copy in [false, true] {
            for at in [0, 500, 995, 996, 999] {
                let (mut payload, mut receiver) = exchanged(copy, true);
                assert!(receiver.receive(&payload));
                payload[at] ^= 4;
                assert!(!receiver.receive(&payload), "byte {at}");
            }
        }
    }

    #[test]
    fn without_a_crc_nothing_is_wrong() {
        let (mut payload, mut receiver) = exchanged(true, false);
        payload[500] ^= 4;
        assert!(receiver.receive(&payload));
        assert!(!receiver.receive(&[0; 3]), "shorter than any frame");
    }
}
