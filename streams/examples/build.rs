//! Makes the client and the server of the gRPC service from its description in Rust, which takes no
//! protoc.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let codec = "tonic_prost::ProstCodec";
    let hello = Method::builder()
        .name("say_hello")
        .route_name("SayHello")
        .input_type("crate::grpc::HelloRequest")
        .output_type("crate::grpc::HelloReply")
        .codec_path(codec)
        .build();
    let chat = Method::builder()
        .name("chat")
        .route_name("Chat")
        .input_type("crate::grpc::Note")
        .output_type("crate::grpc::Note")
        .codec_path(codec)
        .client_streaming()
        .server_streaming()
        .build();
    let service =
        Service::builder().name("Greeter").package("srnic.example").method(hello).method(chat).build();
    Builder::new().compile(&[service]);
}
