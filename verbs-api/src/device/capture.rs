//! `pcap=`: the file that takes a copy of every frame.

use crate::error::Error;
use crate::trace;
use datapath::port::Port;
use datapath::port::pcap_tap::PcapTap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A port whose frames go to the file at `path`, too. A disk that is full already is found out by
/// the header.
pub(super) fn tap<P: Port>(port: P, path: &Path) -> Result<PcapTap<P, Capture>, Error> {
    let fails = |doing| move |source| Error::File { path: path.to_owned(), doing, source };
    let file = BufWriter::new(File::create(path).map_err(fails("create"))?);
    let mut tap = PcapTap::new(port, Capture { path: path.to_owned(), file, error: None });
    tap.flush_pcap().map_err(fails("write"))?;
    Ok(tap)
}

/// The file. Its last bytes are written when the device closes, when nobody can be given an error
/// any more: it is told then.
pub(super) struct Capture {
    path: PathBuf,
    file: BufWriter<File>,
    /// The first error, behind which nothing is recorded.
    error: Option<io::Error>,
}

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            self.error.get_or_insert_with(|| error.kind().into());
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(error) = self.error.take().or(self.file.flush().err()) {
            trace::unrecorded(&self.path, &error);
        }
    }
}
