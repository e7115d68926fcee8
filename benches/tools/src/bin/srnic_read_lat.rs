//! Latency of RDMA READs between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::fetch::read_main()
}
