//! Tables of the scheduler: the catalogue's versions, who keeps which response, its change feed, its audit log.

mod m20261129_000001_first;
mod m20261130_000002_responses;

use sea_orm_migration::{MigrationTrait, MigratorTrait, async_trait::async_trait};

/// All migrations of the scheduler, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Migrator;

#[async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261129_000001_first::Migration),
            Box::new(m20261130_000002_responses::Migration),
        ]
    }
}
