//! The device of a tool whose other end is another process.

use verbs_api::{DeviceSpec, SpecError, Transport};

/// Reads it, for clap.
///
/// # Errors
/// That of the device string, or that other processes do not reach the device.
pub fn processes(text: &str) -> Result<DeviceSpec, String> {
    let spec: DeviceSpec = text.parse().map_err(|error: SpecError| error.to_string())?;
    if matches!(spec.transport, Transport::Sim { .. }) {
        return Err("a network of `sim:` is inside one process, and this tool's other end is another \
                    process; memif:/tmp/a.sock joins two"
            .to_owned());
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_inside_one_process_is_refused_with_one_that_joins_two() {
        for text in ["sim:a", "fault:loss=1%:sim:a"] {
            let refused = processes(text).expect_err("nobody is there");
            assert!(refused.contains("memif:/tmp/a.sock joins two"), "{refused}");
        }
        assert!(processes("fault:loss=1%:memif:/tmp/a.sock").is_ok());
        assert!(processes("memif:").expect_err("no socket").contains("names no socket"));
    }
}
