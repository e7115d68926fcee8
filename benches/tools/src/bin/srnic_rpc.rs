//! Rate of requests and responses, each a SEND, between two processes.

fn main() -> std::process::ExitCode {
    srnic_tools::perf::rpc::main()
}
