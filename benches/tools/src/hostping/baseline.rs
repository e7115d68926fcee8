//! What probes measured when all was well, in a file.

use super::measure::Measured;
use super::path::{Outcome, Path};
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;

/// What is usual for each way.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Baseline(BTreeMap<String, Measured>);

impl Baseline {
    /// What these probes measured is usual; those without an answer tell nothing.
    #[must_use]
    pub fn of_probes(probes: &[Outcome]) -> Self {
        Self(probes.iter().filter_map(|(path, measured)| Some((path.to_string(), (*measured)?))).collect())
    }

    /// What is usual for a way, if it is known.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<Measured> {
        self.0.get(&path.to_string()).copied()
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Options`] if it is no such file.
    pub fn read(path: &FilePath) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        let refused = || Error::Options(format!("{}: no baseline; make one by --save", path.display()));
        Self::parse(&text).ok_or_else(refused)
    }

    fn parse(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let number = |of: &Value, key: &str| of.get(key)?.as_f64().filter(|number| *number > 0.0);
        let measured =
            |of: &Value| Some(Measured { latency_ns: number(of, "latency_ns")?, gbps: number(of, "gbps")? });
        let probes = document.get("probes")?.as_object()?;
        probes.iter().map(|(path, of)| Some((path.clone(), measured(of)?))).collect::<Option<_>>().map(Self)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &FilePath) -> Result<()> {
        fs::write(path, self.text()).map_err(Error::file("write", path))
    }

    fn text(&self) -> String {
        let probe = |(path, of): (&String, &Measured)| {
            (path.clone(), json!({ "latency_ns": of.latency_ns, "gbps": of.gbps }))
        };
        let probes: Map<String, Value> = self.0.iter().map(probe).collect();
        format!("{:#}\n", json!({ "probes": probes }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::Memory;
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let path = Path { cpu: 3, memory: Memory::Huge, peer: Some([10, 77, 0, 1].into()) };
        let other = Path { peer: None, ..path };
        let usual = Measured { latency_ns: 1234.5, gbps: 99.25 };
        let baseline = Baseline::of_probes(&[(path, Some(usual)), (other, None)]);
        let read = Baseline::parse(&baseline.text()).expect("its own text");
        assert_eq!((read.of(&path), read.of(&other)), (Some(usual), None));
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "{}", r#"{"probes":[]}"#, r#"{"probes":{"x":{"latency_ns":0,"gbps":1}}}"#] {
            assert_eq!(Baseline::parse(text), None, "{text}");
        }
    }
}
