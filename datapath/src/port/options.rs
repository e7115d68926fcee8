//! Options as people write them: `key=value` pairs with commas between.

/// The keys that a text may hold, and how to speak of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// What the keys are options of, such as `fault`.
    pub of: &'static str,
    /// Their names.
    pub names: &'static [&'static str],
    /// A pair as it may be written.
    pub example: &'static str,
}

/// Why options make no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionError {
    /// An item without `=`.
    #[error("`{item}` is not of the form key=value, as in `{example}`")]
    NotKeyValue {
        /// The item.
        item: String,
        /// A pair that is.
        example: &'static str,
    },
    /// No such key.
    #[error("unknown {} key `{key}`; keys are {}", keys.of, keys.names.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
        /// Those that there are.
        keys: Keys,
    },
    /// A key given twice.
    #[error("{of} key `{key}` is given twice")]
    Repeated {
        /// What it is an option of.
        of: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A value outside what the key takes.
    #[error("`{key}={value}`: {key} must be {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
}

impl Keys {
    /// Calls `set` with each pair of `items`; its error says what the value may be.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read<'a>(
        &self,
        items: impl Iterator<Item = &'a str>,
        mut set: impl FnMut(&'static str, &str) -> Result<(), &'static str>,
    ) -> Result<(), OptionError> {
        let mut given = vec![false; self.names.len()];
        for item in items {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| OptionError::NotKeyValue { item: item.to_owned(), example: self.example })?;
            let index = self.names.iter().position(|known| *known == key);
            let index = index.ok_or_else(|| OptionError::UnknownKey { key: key.to_owned(), keys: *self })?;
            let key = self.names[index];
            if core::mem::replace(&mut given[index], true) {
                return Err(OptionError::Repeated { of: self.of, key });
            }
            set(key, value).map_err(|allowed| OptionError::Value {
                key,
                value: value.to_owned(),
                allowed,
            })?;
        }
        Ok(())
    }
}

const DURATION: &str = "a whole number of ns, us, ms or s, as in 20us";

/// A time as people write it, in nanoseconds.
///
/// # Errors
/// What it may be.
pub fn duration_ns(value: &str) -> Result<u64, &'static str> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ns = match &value[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(DURATION),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_ns)).ok_or(DURATION)
}
