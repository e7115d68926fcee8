//! Objects that programs name by numbers: queues that several queue pairs use.

/// Objects, each under a number; the lowest free one is used next.
#[derive(Debug)]
pub(crate) struct Numbered<T>(Vec<Option<T>>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Numbered<T> {
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.0.get(number as usize)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.0.get_mut(number as usize)?.as_mut()
    }

    /// The lowest number that is free, if it is below `capacity`.
    pub fn free_number(&self, capacity: usize) -> Option<u32> {
        let index = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        u32::try_from(index).ok().filter(|_| index < capacity)
    }

    /// Puts an object under a free number.
    pub fn insert(&mut self, number: u32, object: T) {
        let index = number as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(object);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Numbers that were ever used.
    pub fn numbers(&self) -> usize {
        self.0.len()
    }

    /// Ends an object; false if it does not exist.
    pub fn remove(&mut self, number: u32) -> bool {
        self.0.get_mut(number as usize).is_some_and(|entry| entry.take().is_some())
    }
}
