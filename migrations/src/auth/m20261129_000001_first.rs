//! Tenants, their users and keys, the groups' access side, admin tokens.
//!
//! Names are ids. Lists, limits and tags are JSON text: they are read whole and never searched.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveMigrationName, Index, MigrationTrait, SchemaManager, Table,
    TableCreateStatement, async_trait,
};

use crate::shared;

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(shared::change_table()).await?;
        manager.create_index(shared::change_time_index()).await?;
        manager.create_table(shared::audit_table()).await?;
        for table in [
            tenant(),
            tenant_user(),
            group_access(),
            api_key(),
            admin_token(),
        ] {
            manager.create_table(table).await?;
        }
        for (name, column, unique) in [
            ("api_key_hash", "hash", true),
            ("api_key_previous_hash", "previous_hash", false),
        ] {
            let mut index = Index::create()
                .name(name)
                .table("api_key")
                .col(column)
                .to_owned();
            if unique {
                index.unique();
            }
            manager.create_index(index).await?;
        }
        manager
            .create_index(
                Index::create()
                    .name("api_key_name")
                    .table("api_key")
                    .col("tenant")
                    .col("name")
                    .unique()
                    .to_owned(),
            )
            .await
    }
}

fn text(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().not_null().to_owned()
}

fn flag(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).boolean().not_null().to_owned()
}

fn integer(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().not_null().to_owned()
}

fn tenant() -> TableCreateStatement {
    Table::create()
        .table("tenant")
        .col(ColumnDef::new("name").text().not_null().primary_key())
        .col(text("status"))
        .col(flag("prepaid"))
        .col(flag("strict_hold"))
        .col(flag("serve_without_billing"))
        .col(flag("abandoned_free"))
        .col(flag("log_content"))
        .col(text("limits"))
        .col(text("origin"))
        .col(integer("updated_at_ms"))
        .to_owned()
}

/// Not called `user`: that word is reserved on PostgreSQL.
fn tenant_user() -> TableCreateStatement {
    Table::create()
        .table("tenant_user")
        .col(text("tenant"))
        .col(text("email"))
        .col(text("role"))
        .col(integer("multiplier"))
        .col(text("limits"))
        .col(text("status"))
        .col(text("origin"))
        .col(integer("updated_at_ms"))
        .primary_key(Index::create().col("tenant").col("email"))
        .to_owned()
}

fn group_access() -> TableCreateStatement {
    Table::create()
        .table("group_access")
        .col(ColumnDef::new("name").text().not_null().primary_key())
        .col(text("status"))
        .col(text("allow_ips"))
        .col(text("limits"))
        .col(text("user_limits"))
        .col(integer("multiplier"))
        .col(text("origin"))
        .col(integer("updated_at_ms"))
        .to_owned()
}

fn api_key() -> TableCreateStatement {
    Table::create()
        .table("api_key")
        .col(ColumnDef::new("id").text().not_null().primary_key())
        .col(text("tenant"))
        .col(text("name"))
        .col(ColumnDef::new("hash").binary().not_null())
        // The hash that a rotation replaced; it is good until `previous_until_ms`.
        .col(ColumnDef::new("previous_hash").binary().null())
        .col(ColumnDef::new("previous_until_ms").big_integer().null())
        .col(text("prefix"))
        .col(text("group_name"))
        // Empty: the key belongs to no user.
        .col(text("user_email"))
        .col(text("models"))
        .col(ColumnDef::new("expires_at_ms").big_integer().null())
        .col(text("limits"))
        .col(text("allow_ips"))
        .col(flag("reject_unsupported"))
        .col(text("cost_center"))
        .col(text("tags"))
        .col(text("status"))
        // Who disabled it: `file` (it left the file) or `admin`; empty: it is active.
        .col(text("disabled_by"))
        .col(text("origin"))
        .col(integer("created_at_ms"))
        .col(integer("updated_at_ms"))
        .to_owned()
}

fn admin_token() -> TableCreateStatement {
    Table::create()
        .table("admin_token")
        .col(ColumnDef::new("name").text().not_null().primary_key())
        .col(ColumnDef::new("hash").binary().not_null())
        .col(integer("updated_at_ms"))
        .to_owned()
}
