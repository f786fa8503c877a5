//! Dialect `openai.audio`: POST /v1/audio/speech, /v1/audio/transcriptions and /v1/audio/translations (PROTOCOLS §9).
//!
//! Speech goes out as the bytes that come; audio that comes in is a form, kept whole so that an attempt can be repeated
//! (SPEC FWD-13), of which nothing but the model's name is changed.

mod length;
mod speech;
#[cfg(test)]
mod tests;
mod transcript;
mod transcription;

pub use speech::SpeechRequest;
pub use transcription::TranscriptionRequest;
