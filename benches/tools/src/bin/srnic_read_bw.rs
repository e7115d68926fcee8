//! Bandwidth of RDMA READs between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::bandwidth::read_main()
}
