//! Bandwidth of raw Ethernet frames between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::raw::bandwidth::main()
}
