//! Encrypted upstream credentials, by account and generation.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveMigrationName, Index, MigrationTrait, SchemaManager, Table, async_trait,
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
        manager
            .create_table(
                Table::create()
                    .table("credential")
                    .col(ColumnDef::new("account").text().not_null())
                    .col(ColumnDef::new("generation").big_integer().not_null())
                    .col(ColumnDef::new("nonce").binary().not_null())
                    .col(ColumnDef::new("ciphertext").binary().not_null())
                    // Which master key sealed it; rotation re-encrypts row by row.
                    .col(ColumnDef::new("key_id").text().not_null())
                    .col(ColumnDef::new("status").text().not_null())
                    .col(ColumnDef::new("origin").text().not_null())
                    .col(ColumnDef::new("updated_at_ms").big_integer().not_null())
                    .primary_key(Index::create().col("account").col("generation"))
                    .to_owned(),
            )
            .await
    }
}
