//! Compiles the protos with a pure-Rust compiler, so that building needs no `protoc`.
use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

/// Messages that hold a secret: `src/redacted.rs` says what is shown of them.
const SECRET: &[&str] = &[
    "switchboard.auth.v1.AuthenticateRequest",
    "switchboard.auth.v1.AuthenticateAdminRequest",
    "switchboard.auth.v1.Key",
    "switchboard.auth.v1.IssuedKey",
    "switchboard.credentials.v1.GetResponse",
    "switchboard.credentials.v1.AccountCredential",
    "switchboard.inference.v1.Header",
    "switchboard.inference.v1.RelayHead",
];

const FILES: &[&str] = &[
    "switchboard/common/v1/common.proto",
    "switchboard/common/v1/reason.proto",
    "switchboard/inference/v1/service.proto",
    "switchboard/inference/v1/messages.proto",
    "switchboard/inference/v1/relay.proto",
    "switchboard/auth/v1/service.proto",
    "switchboard/auth/v1/messages.proto",
    "switchboard/scheduler/v1/service.proto",
    "switchboard/scheduler/v1/catalogue.proto",
    "switchboard/scheduler/v1/messages.proto",
    "switchboard/credentials/v1/service.proto",
    "switchboard/credentials/v1/messages.proto",
    "switchboard/billing/v1/service.proto",
    "switchboard/billing/v1/messages.proto",
    "switchboard/billing/v1/settlement.proto",
];

/// The service that callers with an API key call; of its methods one is the edge's, with a file of its own.
const CALLERS: &str = "switchboard/inference/v1/service.proto";
const EDGES: (&str, &str) = ("Relay", "switchboard/inference/v1/relay.proto");

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=switchboard");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // `compile_fds` writes no descriptor set itself; reflection and the CLI need one.
    fs::write(out.join("switchboard.bin"), descriptors.encode_to_vec())?;
    fs::write(
        out.join("callers.bin"),
        for_callers(&descriptors)?.encode_to_vec(),
    )?;
    tonic_prost_build::configure()
        .bytes(".")
        .skip_debug(SECRET)
        .codec_path("crate::codec::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}

/// What callers with an API key can call, and all that it refers to.
fn for_callers(all: &FileDescriptorSet) -> Result<FileDescriptorSet, Box<dyn Error>> {
    let mut kept = FileDescriptorSet::default();
    let mut wanted = vec![CALLERS.to_owned()];
    while let Some(name) = wanted.pop() {
        if kept.file.iter().any(|file| file.name() == name) {
            continue;
        }
        let found = all.file.iter().find(|file| file.name() == name);
        let mut file = found.ok_or_else(|| format!("no proto {name}"))?.clone();
        let (method, relays) = EDGES;
        for service in &mut file.service {
            service.method.retain(|rpc| rpc.name() != method);
        }
        file.dependency.retain(|file| file != relays);
        // Its comments are addressed by position.
        file.source_code_info = None;
        wanted.extend(file.dependency.iter().cloned());
        kept.file.push(file);
    }
    Ok(kept)
}
