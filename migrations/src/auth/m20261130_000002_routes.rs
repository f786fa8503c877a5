//! A tenant's choice of accounts (ROUTE-4): JSON text, read whole like its limits. A version that does not know the column leaves
//! it empty.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveMigrationName, MigrationTrait, SchemaManager, Table, async_trait,
};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .alter_table(
                Table::alter()
                    .table("tenant")
                    .add_column(ColumnDef::new("routes").text().not_null().default("{}"))
                    .to_owned(),
            )
            .await
    }
}
