//! Tables of billing.

mod m20261129_000001_first;
mod m20261130_000002_resolved;

use sea_orm_migration::{MigrationTrait, MigratorTrait, async_trait::async_trait};

/// All migrations of billing, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Migrator;

#[async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261129_000001_first::Migration),
            Box::new(m20261130_000002_resolved::Migration),
        ]
    }
}
