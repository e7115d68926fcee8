//! Bandwidth of RDMA WRITEs between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::bandwidth::write_main()
}
