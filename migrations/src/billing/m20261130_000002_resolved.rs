//! What was decided about a dead letter: when, by whom and why. A version that does not know the columns leaves them empty.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveMigrationName, MigrationTrait, SchemaManager, Table, async_trait,
};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = [
            ColumnDef::new("resolved_ms").big_integer().to_owned(),
            ColumnDef::new("resolved_by")
                .text()
                .not_null()
                .default("")
                .to_owned(),
            ColumnDef::new("resolution")
                .text()
                .not_null()
                .default("")
                .to_owned(),
        ];
        // One by one: SQLite adds a single column a statement.
        for column in columns {
            manager
                .alter_table(
                    Table::alter()
                        .table("dead_letter")
                        .add_column(column)
                        .to_owned(),
                )
                .await?;
        }
        Ok(())
    }
}
