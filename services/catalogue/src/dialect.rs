//! The wire formats, by the names that catalogue, services and rows use for them.

use crate::accounts::Provider;
use crate::notation::words;

words! {
    /// A wire format that a caller or an upstream speaks.
    Dialect {
        OpenaiChat = "openai.chat": "`POST /v1/chat/completions`.",
        OpenaiResponses = "openai.responses": "`POST /v1/responses`.",
        OpenaiEmbeddings = "openai.embeddings": "`POST /v1/embeddings`.",
        OpenaiCompletions = "openai.completions": "`POST /v1/completions`.",
        OpenaiImages = "openai.images": "`POST /v1/images/generations` and `/v1/images/edits`.",
        OpenaiAudio = "openai.audio": "`POST /v1/audio/speech`, `/v1/audio/transcriptions` and `/v1/audio/translations`.",
        OpenaiModerations = "openai.moderations": "`POST /v1/moderations`.",
        Rerank = "rerank": "`POST /v1/rerank`.",
        AnthropicMessages = "anthropic.messages": "`POST /v1/messages`.",
        GeminiGenerate = "gemini.generate": "`POST /v1beta/models/{model}:generateContent`.",
    }
}

/// What is asked of a dialect; most have one call only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The dialect's own: an answer is made.
    Create,
    /// The same, streamed, where that has an address of its own (Gemini).
    Stream,
    /// Counting the tokens of a request.
    CountTokens,
    /// Text to audio.
    Speech,
    /// Audio to text.
    Transcription,
    /// One text's vector, where that has an address of its own (Gemini).
    Embed,
    /// Many texts' vectors, there.
    EmbedBatch,
    /// Audio to English text.
    Translation,
    /// Images to other images.
    Edit,
}

impl Operation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Create,
        Self::Stream,
        Self::CountTokens,
        Self::Speech,
        Self::Transcription,
        Self::Embed,
        Self::EmbedBatch,
        Self::Translation,
        Self::Edit,
    ];
}

impl Dialect {
    /// Whether a caller of this dialect can in principle be served by an upstream of the other: the same dialect, or both of
    /// the set that DIAL-1 translates within.
    pub fn reaches(self, upstream: Self) -> bool {
        self == upstream || (self.is_conversation() && upstream.is_conversation())
    }

    /// One of chat, responses, messages, gemini: what DIAL-1 translates between.
    pub const fn is_conversation(self) -> bool {
        matches!(
            self,
            Self::OpenaiChat
                | Self::OpenaiResponses
                | Self::AnthropicMessages
                | Self::GeminiGenerate
        )
    }

    /// What an account of this provider speaks when its `dialects` is absent.
    pub const fn defaults_of(provider: Provider) -> &'static [Self] {
        match provider {
            Provider::Openai => &[
                Self::OpenaiChat,
                Self::OpenaiResponses,
                Self::OpenaiEmbeddings,
                Self::OpenaiCompletions,
                Self::OpenaiImages,
                Self::OpenaiAudio,
                Self::OpenaiModerations,
            ],
            Provider::OpenaiCompatible => &[Self::OpenaiChat, Self::OpenaiEmbeddings],
            Provider::Anthropic => &[Self::AnthropicMessages],
            Provider::Gemini => &[Self::GeminiGenerate],
            Provider::Switchboard => Self::ALL,
        }
    }
}
