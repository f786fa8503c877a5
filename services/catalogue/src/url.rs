//! Upstream addresses: the normal form of `base_url`, and the address of a call (CASES D7).

use crate::accounts::{Account, Provider};
use crate::dialect::{Dialect, Operation};
use crate::template;

/// Paths that people copy together with the host; they say nothing about the base.
const CALLS: [&str; 12] = [
    "/chat/completions",
    "/completions",
    "/responses",
    "/embeddings",
    "/images/generations",
    "/images/edits",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/moderations",
    "/rerank",
    "/messages",
];

/// The normal form: scheme, host, and the path if it is one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    /// `https://host:port`.
    origin: String,
    /// A path that is not the usual `/v1`; taken as it is.
    path: Option<String>,
}

impl BaseUrl {
    /// Reads a `base_url`.
    ///
    /// # Errors
    /// What is wrong with it, and what to do. The text itself is not shown: it might hold a password.
    pub(crate) fn read(text: &str) -> Result<Self, (&'static str, &'static str)> {
        const FORM: &str = "write `https://HOST` or `https://HOST/PATH`";
        let uri: http::Uri = text.parse().map_err(|_| ("this is not an address", FORM))?;
        let scheme = match uri.scheme_str() {
            Some(scheme @ ("http" | "https")) => scheme,
            _ => return Err(("this address does not begin with http:// or https://", FORM)),
        };
        let Some(authority) = uri.authority() else {
            return Err(("this address has no host", FORM));
        };
        if authority.as_str().contains('@') {
            return Err((
                "a user name or password stands in this address",
                "remove it; use `credential`",
            ));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err((
                "this address has a query or a fragment",
                "remove what begins with `?` or `#`; see `url_template`",
            ));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() || (authority.as_str().len() > host.len() && uri.port().is_none()) {
            return Err(("this address has no valid host and port", FORM));
        }
        let mut path = uri.path().trim_end_matches('/');
        for call in CALLS {
            if let Some(base) = path.strip_suffix(call) {
                path = base.trim_end_matches('/');
                break;
            }
        }
        let path = match path {
            "" | "/v1" => None,
            other => Some(other.to_owned()),
        };
        Ok(Self {
            origin: format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()),
            path,
        })
    }

    /// Whether the host is written as an address that no stranger's upstream has (FWD-10).
    pub(crate) fn is_private(&self) -> bool {
        let host = self
            .origin
            .split_once("://")
            .map_or("", |(_, authority)| authority);
        let host = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or(""),
            None => host.split(':').next().unwrap_or(""),
        };
        match host
            .parse::<std::net::IpAddr>()
            .map(|address| address.to_canonical())
        {
            Ok(std::net::IpAddr::V4(v4)) => {
                v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified()
            }
            Ok(std::net::IpAddr::V6(v6)) => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local()
            }
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }

    fn call(&self, version: &str, call: &str) -> String {
        format!(
            "{}{}{call}",
            self.origin,
            self.path.as_deref().unwrap_or(version)
        )
    }
}

impl Account {
    /// Where the account is: its `base_url`, else its provider's public address; `None` where that has none.
    pub fn base_url(&self) -> Option<&str> {
        match (&self.base_url, self.provider) {
            (Some(url), _) => Some(url),
            (None, Provider::Openai) => Some("https://api.openai.com/v1"),
            (None, Provider::Anthropic) => Some("https://api.anthropic.com"),
            (None, Provider::Gemini) => Some("https://generativelanguage.googleapis.com"),
            (None, Provider::OpenaiCompatible | Provider::Switchboard) => None,
        }
    }

    /// The address of a call in a dialect, with `{model}` where the upstream's name of the model stands in it ([`fill`] puts it
    /// there). `None` if the account has no valid `base_url`, which validation refuses, or the dialect has no such call.
    pub fn address(&self, dialect: Dialect, operation: Operation) -> Option<String> {
        if let Some(template) = &self.url_template {
            let whole = || template::form(template, self.base_url().unwrap_or(""));
            return (operation == templated(template, dialect)).then(whole);
        }
        let base = BaseUrl::read(self.base_url()?).ok()?;
        let (version, path) = call(dialect, operation)?;
        Some(base.call(version, path))
    }

    /// The final address of a call.
    pub fn url_for(&self, dialect: Dialect, operation: Operation, model: &str) -> Option<String> {
        Some(fill(&self.address(dialect, operation)?, model))
    }
}

/// Which call of the dialect a template is the address of: the one whose usual path it ends with, else its answers'.
fn templated(template: &str, dialect: Dialect) -> Operation {
    let path = template.split('?').next().unwrap_or("");
    let own = |operation: &&Operation| {
        // An address of whole answers serves those who stream too.
        !matches!(operation, Operation::Create | Operation::Stream)
            && call(dialect, **operation).is_some_and(|(_, usual)| {
                let tail = usual.trim_start_matches("/models/{model}");
                path.ends_with(tail)
            })
    };
    let operation = Operation::ALL.iter().find(own).copied();
    operation.unwrap_or(Operation::Create)
}

/// The usual path of a call, behind the version that stands before it where the base has no path of its own.
const fn call(dialect: Dialect, operation: Operation) -> Option<(&'static str, &'static str)> {
    Some(match (dialect, operation) {
        (Dialect::OpenaiChat, Operation::Create) => ("/v1", "/chat/completions"),
        (Dialect::OpenaiResponses, Operation::Create) => ("/v1", "/responses"),
        (Dialect::OpenaiResponses, Operation::CountTokens) => ("/v1", "/responses/input_tokens"),
        (Dialect::OpenaiEmbeddings, Operation::Create) => ("/v1", "/embeddings"),
        (Dialect::OpenaiCompletions, Operation::Create) => ("/v1", "/completions"),
        (Dialect::OpenaiImages, Operation::Create) => ("/v1", "/images/generations"),
        (Dialect::OpenaiAudio, Operation::Create | Operation::Speech) => ("/v1", "/audio/speech"),
        (Dialect::OpenaiImages, Operation::Edit) => ("/v1", "/images/edits"),
        (Dialect::OpenaiAudio, Operation::Transcription) => ("/v1", "/audio/transcriptions"),
        (Dialect::OpenaiAudio, Operation::Translation) => ("/v1", "/audio/translations"),
        (Dialect::OpenaiModerations, Operation::Create) => ("/v1", "/moderations"),
        (Dialect::Rerank, Operation::Create) => ("/v1", "/rerank"),
        (Dialect::AnthropicMessages, Operation::Create) => ("/v1", "/messages"),
        (Dialect::AnthropicMessages, Operation::CountTokens) => ("/v1", "/messages/count_tokens"),
        (Dialect::GeminiGenerate, Operation::Create) => {
            ("/v1beta", "/models/{model}:generateContent")
        }
        (Dialect::GeminiGenerate, Operation::Stream) => {
            ("/v1beta", "/models/{model}:streamGenerateContent?alt=sse")
        }
        (Dialect::GeminiGenerate, Operation::CountTokens) => {
            ("/v1beta", "/models/{model}:countTokens")
        }
        (Dialect::GeminiGenerate, Operation::Embed) => ("/v1beta", "/models/{model}:embedContent"),
        (Dialect::GeminiGenerate, Operation::EmbedBatch) => {
            ("/v1beta", "/models/{model}:batchEmbedContents")
        }
        _ => return None,
    })
}

/// An [`Account::address`] with the model's name in its place.
pub fn fill(address: &str, model: &str) -> String {
    if address.contains(template::MODEL) {
        address.replace(template::MODEL, &in_path(model))
    } else {
        address.to_owned()
    }
}

/// A model's name as one part of a path.
fn in_path(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(provider: &str, base_url: &str) -> Account {
        serde_json::from_value(
            serde_json::json!({"name": "a", "provider": provider, "base_url": base_url}),
        )
        .unwrap()
    }

    #[test]
    fn all_six_forms_give_the_address_that_was_meant() {
        for (base, root) in [
            ("https://host", "https://host/v1"),
            ("https://host/", "https://host/v1"),
            ("https://host/v1", "https://host/v1"),
            ("https://host/v1/", "https://host/v1"),
            ("https://host/v1/chat/completions", "https://host/v1"),
            ("https://host/api/paas/v4", "https://host/api/paas/v4"),
            ("http://127.0.0.1:8001/v2/", "http://127.0.0.1:8001/v2"),
            (
                "https://host/api/v4/chat/completions",
                "https://host/api/v4",
            ),
        ] {
            let account = account("openai_compatible", base);
            let url = |dialect| account.url_for(dialect, Operation::Create, "m").unwrap();
            assert_eq!(
                url(Dialect::OpenaiChat),
                format!("{root}/chat/completions"),
                "{base}"
            );
            assert_eq!(
                url(Dialect::OpenaiEmbeddings),
                format!("{root}/embeddings"),
                "{base}"
            );
            assert_eq!(
                url(Dialect::AnthropicMessages),
                format!("{root}/messages"),
                "{base}"
            );
        }
    }

    #[test]
    fn gemini_has_its_model_in_the_path() {
        let account = account("gemini", "https://host/");
        assert_eq!(
            account
                .url_for(Dialect::GeminiGenerate, Operation::Create, "gemini/2 x")
                .unwrap(),
            "https://host/v1beta/models/gemini%2F2%20x:generateContent"
        );
        assert_eq!(
            account
                .url_for(Dialect::GeminiGenerate, Operation::Stream, "g")
                .unwrap(),
            "https://host/v1beta/models/g:streamGenerateContent?alt=sse"
        );
    }

    #[test]
    fn a_template_replaces_the_usual_path_and_encodes_the_model() {
        let mut account = account("openai_compatible", "http://127.0.0.1:8001/v1/");
        account.url_template = Some("{base_url}/at/{deployment}/chat?v=1&m={model}".to_owned());
        assert_eq!(
            account
                .url_for(Dialect::OpenaiChat, Operation::Create, "qwen/3 &x")
                .unwrap(),
            "http://127.0.0.1:8001/v1/at/qwen%2F3%20%26x/chat?v=1&m=qwen%2F3%20%26x"
        );
    }

    #[test]
    fn a_template_is_the_address_of_one_call() {
        let of = |template: &str, dialect| -> Vec<Operation> {
            let mut account = account("openai_compatible", "http://127.0.0.1:8001/v1/");
            account.url_template = Some(format!("{{base_url}}{template}"));
            let all = Operation::ALL.iter().copied();
            all.filter(|operation| account.address(dialect, *operation).is_some())
                .collect()
        };
        for (template, dialect, expected) in [
            ("/x/chat", Dialect::OpenaiChat, Operation::Create),
            (
                "/x?v=/messages/count_tokens",
                Dialect::AnthropicMessages,
                Operation::Create,
            ),
            (
                "/x/messages/count_tokens?v=1",
                Dialect::AnthropicMessages,
                Operation::CountTokens,
            ),
            (
                "/x/audio/transcriptions?v=1",
                Dialect::OpenaiAudio,
                Operation::Transcription,
            ),
            ("/x/audio/speech", Dialect::OpenaiAudio, Operation::Speech),
            ("/x/images/edits", Dialect::OpenaiImages, Operation::Edit),
            (
                "/x/{model}:countTokens",
                Dialect::GeminiGenerate,
                Operation::CountTokens,
            ),
            (
                "/x/{model}:streamGenerateContent?alt=sse",
                Dialect::GeminiGenerate,
                Operation::Create,
            ),
        ] {
            assert_eq!(of(template, dialect), [expected], "{template}");
        }
    }

    #[test]
    fn refuses_what_is_no_base() {
        for base in [
            "",
            "host",
            "ftp://host",
            "https://",
            "https://u:p@host",
            "https://host?x=1",
            "https://host/#f",
            "https://host:port",
        ] {
            assert!(BaseUrl::read(base).is_err(), "{base}");
        }
        assert!(BaseUrl::read("http://[::1]:80/v1").unwrap().is_private());
        assert!(BaseUrl::read("http://10.1.2.3").unwrap().is_private());
        assert!(
            !BaseUrl::read("https://api.example.com")
                .unwrap()
                .is_private()
        );
    }
}
