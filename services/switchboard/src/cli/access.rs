//! `keys`: auth's keys.

use switchboard_common::grpc::Rpc;
use switchboard_proto::{
    auth::v1::{
        CreateKeyRequest, DisableKeyRequest, Key, KeyInfo, ListKeysRequest, Status,
        auth_admin_client::AuthAdminClient,
    },
    common::v1::{Actor, Limits},
};

use super::{
    args::{CreateKey, Keys},
    exit::{Error, Exit},
    screen::Screen,
    table::{Table, moment},
};

pub(super) async fn keys(
    mut auth: AuthAdminClient<Rpc>,
    actor: Actor,
    command: Keys,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    match command {
        Keys::Create(flags) => {
            let answer = auth.create_key(request(actor, *flags)).await?.into_inner();
            if screen.is_json() {
                screen.answer(&answer)?;
            } else if let Some(key) = &answer.issued {
                screen.line(&key.secret)?;
                screen.note(format_args!(
                    "key {}/{} ({}); its secret is shown this once",
                    key.tenant, key.name, key.key_id
                ));
            }
        }
        Keys::List { tenant } => {
            let tenant = tenant.unwrap_or_default();
            let answer = auth
                .list_keys(ListKeysRequest { tenant })
                .await?
                .into_inner();
            if screen.is_json() {
                screen.answer(&answer)?;
            } else {
                screen.table(&table(&answer.keys), "no keys")?;
            }
        }
        Keys::Disable { key } => {
            let request = DisableKeyRequest {
                actor: Some(actor),
                key,
            };
            let answer = auth.disable_key(request).await?.into_inner();
            if screen.is_json() {
                screen.answer(&answer)?;
            } else {
                screen.table(&table(answer.key.as_slice()), "no key")?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn request(actor: Actor, flags: CreateKey) -> CreateKeyRequest {
    let limits = Limits {
        requests_per_second: flags.requests_per_second,
        requests_per_minute: flags.requests_per_minute,
        tokens_per_minute: flags.tokens_per_minute,
        concurrency: flags.concurrency,
        burst: None,
    };
    let expires_at_ms = flags.expires.map(|last_day| {
        let end_ms = last_day.end().unix_timestamp_nanos() / 1_000_000;
        i64::try_from(end_ms).unwrap_or(i64::MAX)
    });
    CreateKeyRequest {
        actor: Some(actor),
        tenant: flags.tenant,
        key: Some(Key {
            name: flags.name,
            secret: String::new(),
            group: flags.group,
            user: flags.user,
            models: flags.models,
            expires_at_ms,
            limits: (limits != Limits::default()).then_some(limits),
            allow_ips: flags.allow_ips.iter().map(ToString::to_string).collect(),
            reject_unsupported: flags.reject_unsupported,
            cost_center: flags.cost_center,
            tags: flags.tags.into_iter().collect(),
            status: Status::Active.into(),
        }),
    }
}

fn table(keys: &[KeyInfo]) -> Table {
    let mut table = Table::new(&[
        "TENANT", "NAME", "STATUS", "GROUP", "USER", "PREFIX", "EXPIRES", "CREATED", "ORIGIN", "ID",
    ]);
    for key in keys {
        table.row([
            key.tenant.clone(),
            key.name.clone(),
            key.status.clone(),
            key.group.clone(),
            key.user.clone(),
            key.prefix.clone(),
            key.expires_at_ms.map(moment).unwrap_or_default(),
            moment(key.created_at_ms),
            key.origin.clone(),
            key.key_id.clone(),
        ]);
    }
    table
}
