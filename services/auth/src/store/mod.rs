//! Identity in SQL. One statement reads a caller; admin transactions read and write whole rows.
//!
//! Nothing here judges; rows become domain values and back.

mod entity;
mod reading;
mod rows;

use std::collections::HashSet;

use sea_orm::{
    ColumnTrait as _, Condition, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _, Statement,
    sea_query::OnConflict,
};

pub(crate) use reading::SqlReader;

use crate::{
    domain::{
        identity::{Group, Key, Origin, Tenant, User},
        key::{KeyHash, KeyHasher},
        plan::Snapshot,
    },
    error::Fault,
};
use entity::{admin_token, api_key, group_access, tenant, tenant_user};

/// Values in one `IN (…)`.
const CHUNK: usize = 500;

/// Makes admin transactions run one after the other on PostgreSQL; on SQLite there is one writer anyway.
pub(crate) async fn lock(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    let backend = tx.get_database_backend();
    if backend == DbBackend::Postgres {
        tx.execute_raw(Statement::from_string(
            backend,
            "SELECT pg_advisory_xact_lock(hashtextextended('admin:' || current_schema(), 0))",
        ))
        .await?;
    }
    Ok(())
}

/// Whether the schema is there.
pub(crate) async fn present(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    admin_token::Entity::find().one(db).await.map(drop)
}

/// What is stored, as far as a fragment with these names and secrets concerns it.
pub(crate) async fn snapshot(
    db: &impl ConnectionTrait,
    names: &[(String, String)],
    hashes: &[KeyHash],
) -> Result<Snapshot, Fault> {
    let mut snapshot = Snapshot::default();
    for row in tenant::Entity::find()
        .order_by_asc(tenant::Column::Name)
        .all(db)
        .await?
    {
        snapshot.tenants.push(rows::tenant(row)?);
    }
    for row in tenant_user::Entity::find()
        .order_by_asc(tenant_user::Column::Tenant)
        .order_by_asc(tenant_user::Column::Email)
        .all(db)
        .await?
    {
        snapshot.users.push(rows::user(row)?);
    }
    for row in group_access::Entity::find()
        .order_by_asc(group_access::Column::Name)
        .all(db)
        .await?
    {
        snapshot.groups.push(rows::group(row)?);
    }
    let mut seen = HashSet::new();
    let mut keys = keys_where(
        db,
        Condition::all().add(api_key::Column::Origin.eq(Origin::File.as_str())),
    )
    .await?;
    for chunk in names.chunks(CHUNK) {
        let named = chunk.iter().fold(Condition::any(), |any, (tenant, name)| {
            any.add(
                Condition::all()
                    .add(api_key::Column::Tenant.eq(tenant.as_str()))
                    .add(api_key::Column::Name.eq(name.as_str())),
            )
        });
        keys.extend(keys_where(db, named).await?);
    }
    for chunk in hashes.chunks(CHUNK) {
        let hashes = chunk.iter().map(|hash| hash.as_bytes().to_vec());
        keys.extend(
            keys_where(
                db,
                Condition::all().add(api_key::Column::Hash.is_in(hashes)),
            )
            .await?,
        );
    }
    keys.retain(|key| seen.insert(key.id.clone()));
    snapshot.keys = keys;
    Ok(snapshot)
}

async fn keys_where(db: &impl ConnectionTrait, condition: Condition) -> Result<Vec<Key>, Fault> {
    api_key::Entity::find()
        .filter(condition)
        .order_by_asc(api_key::Column::Tenant)
        .order_by_asc(api_key::Column::Name)
        .all(db)
        .await?
        .into_iter()
        .map(rows::key)
        .collect()
}

/// The keys of a tenant, or all, by tenant and name.
pub(crate) async fn keys(db: &impl ConnectionTrait, tenant: &str) -> Result<Vec<Key>, Fault> {
    let mut condition = Condition::all();
    if !tenant.is_empty() {
        condition = condition.add(api_key::Column::Tenant.eq(tenant));
    }
    keys_where(db, condition).await
}

/// The key with this id.
pub(crate) async fn key_by_id(db: &impl ConnectionTrait, id: &str) -> Result<Option<Key>, Fault> {
    api_key::Entity::find_by_id(id.to_owned())
        .one(db)
        .await?
        .map(rows::key)
        .transpose()
}

/// The key of this tenant with this name.
pub(crate) async fn key_by_name(
    db: &impl ConnectionTrait,
    tenant: &str,
    name: &str,
) -> Result<Option<Key>, Fault> {
    let condition = Condition::all()
        .add(api_key::Column::Tenant.eq(tenant))
        .add(api_key::Column::Name.eq(name));
    Ok(keys_where(db, condition).await?.pop())
}

/// Whether a key has this hash.
pub(crate) async fn hash_taken(db: &impl ConnectionTrait, hash: &KeyHash) -> Result<bool, Fault> {
    let condition = api_key::Column::Hash.eq(hash.as_bytes().to_vec());
    Ok(api_key::Entity::find().filter(condition).count(db).await? > 0)
}

/// A tenant.
pub(crate) async fn tenant(db: &impl ConnectionTrait, name: &str) -> Result<Option<Tenant>, Fault> {
    let row = tenant::Entity::find_by_id(name.to_owned()).one(db).await?;
    Ok(row.map(rows::tenant).transpose()?.map(|(tenant, _)| tenant))
}

/// A tenant's users by e-mail address.
pub(crate) async fn users(db: &impl ConnectionTrait, tenant: &str) -> Result<Vec<User>, Fault> {
    tenant_user::Entity::find()
        .filter(tenant_user::Column::Tenant.eq(tenant))
        .order_by_asc(tenant_user::Column::Email)
        .all(db)
        .await?
        .into_iter()
        .map(|row| rows::user(row).map(|(user, _)| user))
        .collect()
}

/// How many keys a tenant has.
pub(crate) async fn key_count(db: &impl ConnectionTrait, tenant: &str) -> Result<u64, Fault> {
    Ok(api_key::Entity::find()
        .filter(api_key::Column::Tenant.eq(tenant))
        .count(db)
        .await?)
}

/// All groups by name.
pub(crate) async fn groups(db: &impl ConnectionTrait) -> Result<Vec<Group>, Fault> {
    group_access::Entity::find()
        .order_by_asc(group_access::Column::Name)
        .all(db)
        .await?
        .into_iter()
        .map(|row| rows::group(row).map(|(group, _)| group))
        .collect()
}

/// Inserts or replaces tenants that came from a file.
pub(crate) async fn put_tenants(
    tx: &DatabaseTransaction,
    now_ms: i64,
    tenants: &[Tenant],
) -> Result<(), Fault> {
    for tenant in tenants {
        tenant::Entity::insert(rows::tenant_row(tenant, Origin::File, now_ms)?)
            .on_conflict(
                OnConflict::column(tenant::Column::Name)
                    .update_columns([
                        tenant::Column::Status,
                        tenant::Column::Prepaid,
                        tenant::Column::StrictHold,
                        tenant::Column::ServeWithoutBilling,
                        tenant::Column::AbandonedFree,
                        tenant::Column::LogContent,
                        tenant::Column::Limits,
                        tenant::Column::Routes,
                        tenant::Column::UpdatedAtMs,
                    ])
                    .to_owned(),
            )
            .exec_without_returning(tx)
            .await?;
    }
    Ok(())
}

/// Inserts or replaces users that came from a file.
pub(crate) async fn put_users(
    tx: &DatabaseTransaction,
    now_ms: i64,
    users: &[User],
) -> Result<(), Fault> {
    for user in users {
        tenant_user::Entity::insert(rows::user_row(user, Origin::File, now_ms)?)
            .on_conflict(
                OnConflict::columns([tenant_user::Column::Tenant, tenant_user::Column::Email])
                    .update_columns([
                        tenant_user::Column::Role,
                        tenant_user::Column::Multiplier,
                        tenant_user::Column::Limits,
                        tenant_user::Column::Status,
                        tenant_user::Column::UpdatedAtMs,
                    ])
                    .to_owned(),
            )
            .exec_without_returning(tx)
            .await?;
    }
    Ok(())
}

/// Inserts or replaces groups that came from a file.
pub(crate) async fn put_groups(
    tx: &DatabaseTransaction,
    now_ms: i64,
    groups: &[Group],
) -> Result<(), Fault> {
    for group in groups {
        group_access::Entity::insert(rows::group_row(group, Origin::File, now_ms)?)
            .on_conflict(
                OnConflict::column(group_access::Column::Name)
                    .update_columns([
                        group_access::Column::Status,
                        group_access::Column::AllowIps,
                        group_access::Column::Limits,
                        group_access::Column::UserLimits,
                        group_access::Column::Multiplier,
                        group_access::Column::UpdatedAtMs,
                    ])
                    .to_owned(),
            )
            .exec_without_returning(tx)
            .await?;
    }
    Ok(())
}

/// Inserts a key.
pub(crate) async fn insert_key(
    tx: &DatabaseTransaction,
    now_ms: i64,
    key: &Key,
) -> Result<(), Fault> {
    api_key::Entity::insert(rows::key_row(key, now_ms)?)
        .exec_without_returning(tx)
        .await?;
    Ok(())
}

/// Replaces stored keys. Secrets may move among them, so all hashes are set aside first.
pub(crate) async fn replace_keys(
    tx: &DatabaseTransaction,
    now_ms: i64,
    keys: &[Key],
    hasher: &KeyHasher,
) -> Result<(), Fault> {
    for key in keys {
        let aside = api_key::ActiveModel {
            id: sea_orm::ActiveValue::Unchanged(key.id.clone()),
            hash: sea_orm::ActiveValue::Set(hasher.retired(&key.id).as_bytes().to_vec()),
            ..Default::default()
        };
        api_key::Entity::update(aside).validate()?.exec(tx).await?;
    }
    for key in keys {
        api_key::Entity::update(rows::key_row(key, now_ms)?)
            .validate()?
            .exec(tx)
            .await?;
    }
    Ok(())
}

/// All admin tokens: name and hash. There are few.
pub(crate) async fn admin_tokens(
    db: &impl ConnectionTrait,
) -> Result<Vec<(String, KeyHash)>, Fault> {
    let rows = admin_token::Entity::find().all(db).await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| Some((row.name, KeyHash::from_stored(&row.hash)?)))
        .collect())
}

/// Stores an admin token's hash under a name.
pub(crate) async fn put_admin_token(
    tx: &DatabaseTransaction,
    now_ms: i64,
    name: &str,
    hash: &KeyHash,
) -> Result<(), Fault> {
    let row = admin_token::ActiveModel {
        name: sea_orm::ActiveValue::Set(name.to_owned()),
        hash: sea_orm::ActiveValue::Set(hash.as_bytes().to_vec()),
        updated_at_ms: sea_orm::ActiveValue::Set(now_ms),
    };
    admin_token::Entity::insert(row)
        .on_conflict(
            OnConflict::column(admin_token::Column::Name)
                .update_columns([admin_token::Column::Hash, admin_token::Column::UpdatedAtMs])
                .to_owned(),
        )
        .exec_without_returning(tx)
        .await?;
    Ok(())
}
