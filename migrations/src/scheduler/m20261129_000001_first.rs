//! The catalogue's versions (ROUTE-1). A row is written once and never changed; the newest is the current one.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveMigrationName, MigrationTrait, SchemaManager, Table, async_trait,
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
                    .table("catalogue_version")
                    .col(
                        ColumnDef::new("version")
                            .big_integer()
                            .not_null()
                            .primary_key(),
                    )
                    // JSON: supply side, and the price and cost sheets it was made with.
                    .col(ColumnDef::new("document").text().not_null())
                    // One line per difference from the version before.
                    .col(ColumnDef::new("diff").text().not_null())
                    .col(ColumnDef::new("actor").text().not_null())
                    .col(ColumnDef::new("reason").text().not_null())
                    .col(ColumnDef::new("created_at_ms").big_integer().not_null())
                    .to_owned(),
            )
            .await
    }
}
