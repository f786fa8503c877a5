//! proto3 JSON of admin answers (CON-1), generic from the descriptor set: the protos' own names, defaults printed, 64-bit
//! integers as strings, enum values by name. An absent optional field is `null`: "not reported" is not zero.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MapKey,
    ReflectMessage as _, Value,
};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use switchboard_proto::{DESCRIPTORS, auth, billing, common, credentials, scheduler};

use super::exit::Error;

/// A generated message that is shown as JSON.
pub(super) trait Answer: Message {
    /// Its full name in the descriptor set.
    const NAME: &'static str;
}

macro_rules! answers {
    ($($message:ty = $name:literal,)+) => {
        $(impl Answer for $message {
            const NAME: &'static str = $name;
        })+

        #[cfg(test)]
        const ANSWERS: &[&str] = &[$($name),+];
    };
}

answers! {
    auth::v1::CreateKeyResponse = "switchboard.auth.v1.CreateKeyResponse",
    auth::v1::ListKeysResponse = "switchboard.auth.v1.ListKeysResponse",
    auth::v1::DisableKeyResponse = "switchboard.auth.v1.DisableKeyResponse",
    auth::v1::User = "switchboard.auth.v1.User",
    auth::v1::IssuedKey = "switchboard.auth.v1.IssuedKey",
    billing::v1::ListUsageResponse = "switchboard.billing.v1.ListUsageResponse",
    billing::v1::UsageRow = "switchboard.billing.v1.UsageRow",
    billing::v1::BudgetState = "switchboard.billing.v1.BudgetState",
    billing::v1::TopUpResponse = "switchboard.billing.v1.TopUpResponse",
    billing::v1::VerifyLedgerResponse = "switchboard.billing.v1.VerifyLedgerResponse",
    billing::v1::ResolveDeadLetterResponse = "switchboard.billing.v1.ResolveDeadLetterResponse",
    common::v1::Limits = "switchboard.common.v1.Limits",
    common::v1::PlannedChange = "switchboard.common.v1.PlannedChange",
    credentials::v1::ListCredentialsResponse = "switchboard.credentials.v1.ListCredentialsResponse",
    scheduler::v1::ApplyResponse = "switchboard.scheduler.v1.ApplyResponse",
    scheduler::v1::ListVersionsResponse = "switchboard.scheduler.v1.ListVersionsResponse",
    scheduler::v1::ResetCooldownsResponse = "switchboard.scheduler.v1.ResetCooldownsResponse",
    scheduler::v1::Decision = "switchboard.scheduler.v1.Decision",
}

/// The descriptors of all messages.
pub(super) struct Protos(DescriptorPool);

impl Protos {
    pub(super) fn load() -> Result<Self, Error> {
        DescriptorPool::decode(DESCRIPTORS)
            .map(Self)
            .map_err(|error| Error::Wrong(format!("this program's own descriptors: {error}")))
    }

    /// A message, ready to be shown.
    pub(super) fn message<A: Answer>(&self, answer: &A) -> Result<Json, Error> {
        let mut message = self.empty::<A>()?;
        message
            .transcode_from(answer)
            .map_err(|error| Error::Wrong(format!("{}: {error}", A::NAME)))?;
        Ok(Json(message))
    }

    /// Messages, ready to be shown.
    pub(super) fn messages<A: Answer>(&self, answers: &[A]) -> Result<Vec<Json>, Error> {
        answers.iter().map(|answer| self.message(answer)).collect()
    }

    /// A message that was kept as proto3 JSON. Fields that this program does not know are left out.
    pub(super) fn read<A: Answer + Default>(&self, text: &str) -> Result<A, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Wrong(format!("{}: {error}", A::NAME));
        let descriptor = self.empty::<A>()?.descriptor();
        let mut source = serde_json::Deserializer::from_str(text);
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        DynamicMessage::deserialize_with_options(descriptor, &mut source, &options)
            .map_err(|error| wrong(&error))?
            .transcode_to()
            .map_err(|error| wrong(&error))
    }

    fn empty<A: Answer>(&self) -> Result<DynamicMessage, Error> {
        self.0
            .get_message_by_name(A::NAME)
            .map(DynamicMessage::new)
            .ok_or_else(|| {
                Error::Wrong(format!("{} is not in this program's descriptors", A::NAME))
            })
    }
}

/// A message in its JSON form.
pub(super) struct Json(DynamicMessage);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields(&self.0).serialize(serializer)
    }
}

struct Fields<'a>(&'a DynamicMessage);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = self.0.descriptor();
        let mut map = serializer.serialize_map(None)?;
        for field in descriptor.fields() {
            if field.supports_presence() && !self.0.has_field(&field) {
                if !is_choice(&field) {
                    map.serialize_entry(field.name(), &())?;
                }
                continue;
            }
            let value = self.0.get_field(&field);
            let shown = Shown {
                value: &value,
                kind: &field.kind(),
            };
            map.serialize_entry(field.name(), &shown)?;
        }
        map.end()
    }
}

/// Whether a field is one of several of which one is set.
fn is_choice(field: &FieldDescriptor) -> bool {
    field
        .containing_oneof()
        .is_some_and(|oneof| !oneof.is_synthetic())
}

struct Shown<'a> {
    value: &'a Value,
    kind: &'a Kind,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::I32(value) => serializer.serialize_i32(*value),
            Value::U32(value) => serializer.serialize_u32(*value),
            Value::I64(value) => serializer.collect_str(value),
            Value::U64(value) => serializer.collect_str(value),
            Value::F32(value) => serializer.serialize_f32(*value),
            Value::F64(value) => serializer.serialize_f64(*value),
            Value::String(value) => serializer.serialize_str(value),
            Value::Bytes(value) => serializer.serialize_str(&BASE64_STANDARD.encode(value)),
            Value::EnumNumber(number) => match self.kind {
                Kind::Enum(descriptor) => match descriptor.get_value(*number) {
                    Some(value) => serializer.serialize_str(value.name()),
                    None => serializer.serialize_i32(*number),
                },
                _ => serializer.serialize_i32(*number),
            },
            Value::Message(message) => Fields(message).serialize(serializer),
            Value::List(values) => serializer.collect_seq(values.iter().map(|value| Shown {
                value,
                kind: self.kind,
            })),
            Value::Map(entries) => {
                let value_kind = match self.kind {
                    Kind::Message(entry) if entry.is_map_entry() => {
                        entry.map_entry_value_field().kind()
                    }
                    other => other.clone(),
                };
                let sorted: BTreeMap<&MapKey, &Value> = entries.iter().collect();
                serializer.collect_map(sorted.into_iter().map(|(key, value)| {
                    let shown = Shown {
                        value,
                        kind: &value_kind,
                    };
                    (key_text(key), shown)
                }))
            }
        }
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

#[cfg(test)]
mod tests;
