//! Which queues have queue pairs.

/// How many queue pairs use each queue of a kind, by its number: a queue in use is not destroyed.
#[derive(Default)]
pub(in crate::engine) struct Users(Vec<u32>);

impl Users {
    /// One more uses a queue.
    pub fn add(&mut self, number: u32) {
        let index = number as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
    }

    /// One fewer.
    pub fn remove(&mut self, number: u32) {
        if let Some(count) = self.0.get_mut(number as usize) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether a queue pair uses it.
    pub fn has(&self, number: u32) -> bool {
        self.0.get(number as usize).is_some_and(|count| *count > 0)
    }
}
