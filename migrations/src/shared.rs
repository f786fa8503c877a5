//! The two tables that every owner has: its change feed and its audit log (DESIGN §5, ADM-4).
//!
//! Rows are written and read by `switchboard-common`'s `feed` and `audit`; only the shape stands here.

use sea_orm_migration::prelude::{
    ColumnDef, Index, IndexCreateStatement, Table, TableCreateStatement,
};

/// `change(seq, scope, id, at_ms)`: one row per changed thing. `seq` never repeats, also after rows were removed.
#[must_use]
pub fn change_table() -> TableCreateStatement {
    Table::create()
        .table("change")
        .if_not_exists()
        .col(serial("seq"))
        .col(ColumnDef::new("scope").text().not_null())
        .col(ColumnDef::new("id").text().not_null())
        .col(ColumnDef::new("at_ms").big_integer().not_null())
        .to_owned()
}

/// Finds recent changes by time.
#[must_use]
pub fn change_time_index() -> IndexCreateStatement {
    Index::create()
        .name("change_at_ms")
        .table("change")
        .col("at_ms")
        .if_not_exists()
        .to_owned()
}

/// `audit(seq, at_ms, actor, reason, action, detail)`: one row per admin action, in the transaction of what it did.
#[must_use]
pub fn audit_table() -> TableCreateStatement {
    Table::create()
        .table("audit")
        .if_not_exists()
        .col(serial("seq"))
        .col(ColumnDef::new("at_ms").big_integer().not_null())
        .col(ColumnDef::new("actor").text().not_null())
        .col(ColumnDef::new("reason").text().not_null())
        .col(ColumnDef::new("action").text().not_null())
        .col(ColumnDef::new("detail").text().not_null())
        .to_owned()
}

fn serial(name: &'static str) -> ColumnDef {
    ColumnDef::new(name)
        .big_integer()
        .not_null()
        .auto_increment()
        .primary_key()
        .to_owned()
}
