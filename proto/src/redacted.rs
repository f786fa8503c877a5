//! `Debug` of messages that hold a secret: everything else of them, and `***` in its place (never in a log, an error or a trace).
//!
//! Which messages those are stands in `build.rs`; the test below finds fields whose names sound like secrets in the descriptors,
//! so that a new one is not forgotten.

use std::fmt::{Debug, Formatter, Result};

use crate::{auth, credentials, inference};

/// What is shown of a secret: whether there is one.
struct Hidden(bool);

impl Debug for Hidden {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(if self.0 { "***" } else { "\"\"" })
    }
}

/// Names every field, so that a new one does not go missing.
macro_rules! redacted {
    ($type:path { $($shown:ident),* ; $($hidden:ident),+ }) => {
        impl Debug for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                let Self { $($shown,)* $($hidden,)+ } = self;
                let name = stringify!($type).rsplit("::").next().unwrap_or_default().trim();
                f.debug_struct(name)
                    $(.field(stringify!($shown), $shown))*
                    $(.field(stringify!($hidden), &Hidden(!$hidden.is_empty())))+
                    .finish()
            }
        }
    };
}

redacted!(auth::v1::AuthenticateRequest { ; credential });
redacted!(auth::v1::AuthenticateAdminRequest { ; token });
redacted!(auth::v1::Key {
    name, group, user, models, expires_at_ms, limits, allow_ips, reject_unsupported, cost_center, tags, status; secret
});
redacted!(auth::v1::IssuedKey { tenant, name, key_id; secret });
redacted!(credentials::v1::GetResponse { generation, expires_at_ms; secret });
redacted!(credentials::v1::AccountCredential { account; secret });
// A caller's header may carry a token of its own.
redacted!(inference::v1::Header { name; value });
redacted!(inference::v1::RelayHead {
    dialect, request_id, client_request_id, peer, headers, resource, content_length, tags, hops, arrived_us, endpoint,
    content_type, query; credential
});

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    const SECRET: &str = "sk-very-secret";

    #[test]
    fn no_secret_is_in_the_debug_text_of_a_message() {
        let secret = || SECRET.to_owned();
        let key = auth::v1::Key {
            name: "laptop".to_owned(),
            secret: secret(),
            ..auth::v1::Key::default()
        };
        let issued = auth::v1::IssuedKey {
            name: "laptop".to_owned(),
            secret: secret(),
            ..auth::v1::IssuedKey::default()
        };
        let head = inference::v1::RelayHead {
            request_id: "laptop".to_owned(),
            credential: secret(),
            headers: vec![inference::v1::Header {
                name: "x-token".to_owned(),
                value: secret().into(),
            }],
            ..inference::v1::RelayHead::default()
        };
        let texts = [
            format!(
                "laptop {:?}",
                auth::v1::AuthenticateRequest {
                    credential: secret()
                }
            ),
            format!(
                "laptop {:?}",
                auth::v1::AuthenticateAdminRequest { token: secret() }
            ),
            format!(
                "laptop {:?}",
                credentials::v1::GetResponse {
                    secret: secret(),
                    ..credentials::v1::GetResponse::default()
                }
            ),
            // Inside of others, too.
            format!(
                "{:?}",
                credentials::v1::ApplyRequest {
                    actor: None,
                    credentials: vec![credentials::v1::AccountCredential {
                        account: "laptop".to_owned(),
                        secret: secret(),
                    }],
                }
            ),
            format!(
                "{:?}",
                auth::v1::CreateKeyRequest {
                    key: Some(key),
                    ..auth::v1::CreateKeyRequest::default()
                }
            ),
            format!(
                "{:?}",
                auth::v1::CreateKeyResponse {
                    issued: Some(issued)
                }
            ),
            format!(
                "{:?}",
                inference::v1::RelayRequest {
                    head: Some(head),
                    ..inference::v1::RelayRequest::default()
                }
            ),
        ];
        for text in texts {
            assert!(!text.contains(SECRET), "{text}");
            // Not a list of its bytes either.
            assert!(!text.contains("115, 107"), "{text}");
            assert!(text.contains("***") && text.contains("laptop"), "{text}");
        }
        let none = auth::v1::AuthenticateRequest::default();
        assert_eq!(
            format!("{none:?}"),
            "AuthenticateRequest { credential: \"\" }"
        );
    }

    #[test]
    fn every_field_that_sounds_like_a_secret_is_redacted() {
        let files = FileDescriptorSet::decode(crate::DESCRIPTORS).unwrap();
        let mut found = Vec::new();
        for file in &files.file {
            for message in &file.message_type {
                let secret = message.field.iter().any(|field| {
                    matches!(field.name(), "secret" | "credential" | "token" | "password")
                        && matches!(field.r#type.unwrap(), 9 | 12)
                });
                // There it is the name of one.
                let named = message.name() == "Proxy";
                if secret && !named {
                    found.push(format!("{}.{}", file.package(), message.name()));
                }
            }
        }
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "switchboard.auth.v1.AuthenticateAdminRequest",
                "switchboard.auth.v1.AuthenticateRequest",
                "switchboard.auth.v1.IssuedKey",
                "switchboard.auth.v1.Key",
                "switchboard.credentials.v1.AccountCredential",
                "switchboard.credentials.v1.GetResponse",
                "switchboard.inference.v1.RelayHead",
            ]
        );
    }
}
