//! Which account keeps a response (SCHED-6): a row per response that its upstream stores, swept when it has expired.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveMigrationName, Index, MigrationTrait, SchemaManager, Table, async_trait,
};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("response")
                    .col(ColumnDef::new("tenant").text().not_null())
                    .col(ColumnDef::new("response_id").text().not_null())
                    .col(ColumnDef::new("account").text().not_null())
                    .col(ColumnDef::new("public_model").text().not_null())
                    // What is settled once the end of a background response is seen; empty: nothing.
                    .col(ColumnDef::new("unsettled").blob().not_null())
                    .col(ColumnDef::new("expires_at_ms").big_integer().not_null())
                    .primary_key(Index::create().col("tenant").col("response_id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("response_expires_at_ms")
                    .table("response")
                    .col("expires_at_ms")
                    .to_owned(),
            )
            .await
    }
}
