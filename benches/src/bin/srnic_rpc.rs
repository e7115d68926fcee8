//! Rate of requests and responses, each a SEND, between two processes.

fn main() -> std::process::ExitCode {
    srnic_benches::perf::rpc::main()
}
