//! Rows as they lie in SQL; the tables are made by the migrations of auth.

/// Customers.
pub(super) mod tenant {
    use sea_orm::entity::prelude::{
        ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
        EnumIter, PrimaryKeyTrait,
    };

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "tenant")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        pub status: String,
        pub prepaid: bool,
        pub strict_hold: bool,
        pub serve_without_billing: bool,
        pub abandoned_free: bool,
        pub log_content: bool,
        pub limits: String,
        pub routes: String,
        pub origin: String,
        pub updated_at_ms: i64,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Their people.
pub(super) mod tenant_user {
    use sea_orm::entity::prelude::{
        ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
        EnumIter, PrimaryKeyTrait,
    };

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "tenant_user")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub email: String,
        pub role: String,
        pub multiplier: i64,
        pub limits: String,
        pub status: String,
        pub origin: String,
        pub updated_at_ms: i64,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// The groups' access side.
pub(super) mod group_access {
    use sea_orm::entity::prelude::{
        ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
        EnumIter, PrimaryKeyTrait,
    };

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "group_access")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        pub status: String,
        pub allow_ips: String,
        pub limits: String,
        pub user_limits: String,
        pub multiplier: i64,
        pub origin: String,
        pub updated_at_ms: i64,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Keys. No `Debug` of the hashes leaves this module.
pub(super) mod api_key {
    use sea_orm::entity::prelude::{
        ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
        EnumIter, PrimaryKeyTrait,
    };

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "api_key")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub tenant: String,
        pub name: String,
        pub hash: Vec<u8>,
        pub previous_hash: Option<Vec<u8>>,
        pub previous_until_ms: Option<i64>,
        pub prefix: String,
        pub group_name: String,
        pub user_email: String,
        pub models: String,
        pub expires_at_ms: Option<i64>,
        pub limits: String,
        pub allow_ips: String,
        pub reject_unsupported: bool,
        pub cost_center: String,
        pub tags: String,
        pub status: String,
        pub disabled_by: String,
        pub origin: String,
        pub created_at_ms: i64,
        pub updated_at_ms: i64,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Who may administer.
pub(super) mod admin_token {
    use sea_orm::entity::prelude::{
        ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
        EnumIter, PrimaryKeyTrait,
    };

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "admin_token")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        pub hash: Vec<u8>,
        pub updated_at_ms: i64,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
