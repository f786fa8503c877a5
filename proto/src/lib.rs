//! Generated gRPC types of every Switchboard service, the descriptor set and the closed set of error reasons.
//!
//! No logic lives here but what `Debug` shows of messages with secrets. Building needs no `protoc`. Services meet through these clients and servers alone.

mod redacted;

/// The serialized `FileDescriptorSet` of all protos, for proto3 JSON.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/switchboard.bin"));

/// The serialized `FileDescriptorSet` of what callers with an API key can call, for reflection.
pub const CALLER_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/callers.bin"));

pub mod codec;

pub mod common {
    pub mod v1 {
        tonic::include_proto!("switchboard.common.v1");
    }
}
pub mod inference {
    pub mod v1 {
        tonic::include_proto!("switchboard.inference.v1");
    }
}
pub mod auth {
    pub mod v1 {
        tonic::include_proto!("switchboard.auth.v1");
    }
}
pub mod scheduler {
    pub mod v1 {
        tonic::include_proto!("switchboard.scheduler.v1");
    }
}
pub mod credentials {
    pub mod v1 {
        tonic::include_proto!("switchboard.credentials.v1");
    }
}
pub mod billing {
    pub mod v1 {
        tonic::include_proto!("switchboard.billing.v1");
    }
}
