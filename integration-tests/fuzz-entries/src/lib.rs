//! What fuzzing calls: one function a target, each with everything that must hold for any bytes.
//!
//! A target is more than "no panic": however the bytes are split the same comes out, what goes out is well-formed, what need
//! not change is the same bytes, memory stays within its bound. The targets under `integration-tests/fuzz` call [`TARGETS`]
//! with what libFuzzer makes up (nightly); this crate's test calls the same functions with the committed corpus and seeded
//! mutations of it (stable).
//!
//! Inputs are texts that people can write: a dialect's is a request, a line `----`, an answer; a first line `# word` chooses
//! among a dialect's calls. Where bytes are cut follows from the bytes themselves, so an input always does the same.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a broken invariant is told by panicking"
)]

mod catalogue;
mod dialect;
mod dialects;
mod errors;
// These files and `upstream` are pure, their crates bring half of the workspace along; compiled by themselves they keep a
// fuzz build, which has to instrument everything, small.
#[path = "../../sample-adapter/src/event_stream.rs"]
mod event_stream;
mod framing;
mod http1;
mod input;
mod json;
#[path = "../../../services/auth/src/domain/key/form.rs"]
mod key_form;
mod keys;
mod parameters;
mod sse;
mod translate;
#[path = "../../../services/upstream-forwarder/src/upstream"]
mod upstream {
    #[expect(
        dead_code,
        unused_imports,
        reason = "the forwarder needs more of it than is fuzzed"
    )]
    #[path = "http1/answer/mod.rs"]
    pub(crate) mod answer;
}

/// A target of fuzzing.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its corpus and of its file in `integration-tests/fuzz`.
    pub name: &'static str,
    /// Panics when something does not hold.
    pub entry: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("sse", sse::sse),
    target("objects", framing::objects),
    target("event_stream", framing::event_stream),
    target("http1", http1::http1),
    target("chat", dialects::chat),
    target("whole", dialects::whole),
    target("anthropic", dialects::anthropic),
    target("gemini", dialects::gemini),
    target("media", dialects::media),
    target("responses", dialects::responses),
    target("translate", translate::translate),
    target("errors", errors::errors),
    target("parameters", parameters::parameters),
    target("catalogue", catalogue::catalogue),
    target("keys", keys::keys),
];

const fn target(name: &'static str, entry: fn(&[u8])) -> Target {
    Target { name, entry }
}

/// Calls the target of this name.
///
/// # Panics
/// When something does not hold, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target's name").entry)(bytes);
}
