use std::collections::BTreeMap;

use secrecy::SecretString;
use switchboard_common::secret::{MasterKey, Purpose};

use super::*;
use crate::domain::{
    identity::{KeySecret, Limits, TIMES_ONE, UserRole},
    validate::{Draft, KeyDraft, TenantDraft, fragment},
};

const OWN: &str = "own-key-of-an-operator-0123456789-";

fn hasher() -> KeyHasher {
    KeyHasher::new(&MasterKey::from_bytes([3; 32]).subkey(Purpose::ApiKeyHash))
}

fn group(name: &str) -> Group {
    Group {
        name: name.to_owned(),
        status: Status::Active,
        allow_ips: Vec::new(),
        limits: Limits::default(),
        user_limits: Limits::default(),
        multiplier: TIMES_ONE,
    }
}

fn tenant(name: &str) -> Tenant {
    Tenant {
        name: name.to_owned(),
        status: Status::Active,
        prepaid: true,
        strict_hold: true,
        serve_without_billing: false,
        abandoned_free: false,
        log_content: false,
        limits: Limits::default(),
        routes: BTreeMap::new(),
    }
}

fn user(email: &str) -> User {
    User {
        tenant: "acme".to_owned(),
        email: email.to_owned(),
        role: UserRole::Member,
        multiplier: TIMES_ONE,
        limits: Limits::default(),
        status: Status::Active,
    }
}

fn key(name: &str, secret: &str) -> KeyDraft {
    KeyDraft {
        secret: SecretString::from(secret),
        terms: KeyTerms {
            tenant: "acme".to_owned(),
            name: name.to_owned(),
            group: "standard".to_owned(),
            user: String::new(),
            models: Vec::new(),
            expires_at_ms: None,
            limits: Limits::default(),
            allow_ips: Vec::new(),
            reject_unsupported: false,
            cost_center: String::new(),
            tags: BTreeMap::new(),
            status: Status::Active,
        },
    }
}

fn draft(users: Vec<User>, keys: Vec<KeyDraft>) -> Draft {
    Draft {
        groups: vec![group("standard")],
        tenants: vec![TenantDraft {
            tenant: tenant("acme"),
            users,
            keys,
        }],
    }
}

fn own(number: u32) -> String {
    format!("{OWN}{number}")
}

/// A store in memory that does what a plan says.
#[derive(Default)]
struct Shelf(Snapshot);

impl Shelf {
    fn plan(&self, draft: Draft) -> Result<Plan, Problem> {
        let hasher = hasher();
        let terms = Terms {
            now_ms: 1_000,
            overlap_ms: 60_000,
            hasher: &hasher,
        };
        plan(&self.0, fragment(draft, &hasher)?, &terms)
    }

    fn apply(&mut self, draft: Draft) -> Vec<String> {
        let plan = self.plan(draft).unwrap();
        let Snapshot {
            tenants,
            users,
            groups,
            keys,
        } = &mut self.0;
        for new in plan.tenants {
            tenants.retain(|(old, _)| old.name != new.name);
            tenants.push((new, Origin::File));
        }
        for new in plan.users {
            users.retain(|(old, _)| old.email != new.email);
            users.push((new, Origin::File));
        }
        for new in plan.groups {
            groups.retain(|(old, _)| old.name != new.name);
            groups.push((new, Origin::File));
        }
        for new in plan.keys {
            keys.retain(|old| old.id != new.id);
            keys.push(new);
        }
        for new in plan.new_keys {
            let number = keys.len();
            keys.push(Key {
                id: format!("id-{number}"),
                disabled_by: None,
                secret: new.secret.unwrap_or_else(|| KeySecret {
                    hash: hasher().key(&format!("generated {number}")),
                    prefix: "sk-sb-abcd".to_owned(),
                }),
                terms: new.terms,
                previous: None,
                origin: Origin::File,
                created_at_ms: 0,
            });
        }
        let hashes: std::collections::HashSet<_> = keys.iter().map(|key| key.secret.hash).collect();
        assert_eq!(hashes.len(), keys.len(), "every key has its own hash");
        plan.differences
            .iter()
            .map(|difference| {
                format!(
                    "{} {} {}",
                    difference.verb(),
                    difference.section,
                    difference.name
                )
            })
            .collect()
    }

    fn key(&self, name: &str) -> &Key {
        self.0
            .keys
            .iter()
            .find(|key| key.terms.name == name)
            .unwrap()
    }

    fn find(&self, text: &str) -> Option<&str> {
        let hash = hasher().key(text);
        self.0
            .keys
            .iter()
            .find(|key| key.secret.hash == hash && key.terms.status == Status::Active)
            .map(|key| key.terms.name.as_str())
    }
}

#[test]
fn the_same_file_twice_is_no_difference() {
    let mut shelf = Shelf::default();
    let file = || {
        draft(
            vec![user("ana@acme.example")],
            vec![key("ci", &own(1)), key("made", "")],
        )
    };
    assert_eq!(
        shelf.apply(file()),
        [
            "add group standard",
            "add tenant acme",
            "add user acme/ana@acme.example",
            "add key acme/ci",
            "add key acme/made",
        ]
    );
    let again = shelf.plan(file()).unwrap();
    assert!(again.is_empty() && again.changes.is_empty());
}

#[test]
fn what_left_the_file_is_disabled_once_and_comes_back() {
    let mut shelf = Shelf::default();
    let file = || draft(vec![user("ana@acme.example")], vec![key("ci", &own(1))]);
    shelf.apply(file());
    assert_eq!(
        shelf.apply(Draft::default()),
        [
            "disable group standard",
            "disable tenant acme",
            "disable user acme/ana@acme.example",
            "disable key acme/ci",
        ]
    );
    assert!(shelf.plan(Draft::default()).unwrap().is_empty());
    assert_eq!(shelf.apply(file()).len(), 4);
    assert_eq!(shelf.find(&own(1)), Some("ci"));
}

#[test]
fn changes_tell_watchers_the_tenant_or_the_group() {
    let mut shelf = Shelf::default();
    shelf.apply(draft(Vec::new(), vec![key("ci", &own(1))]));
    let mut changed = draft(Vec::new(), vec![key("ci", &own(1))]);
    changed.tenants[0].keys[0].terms.limits.concurrency = Some(3);
    changed.groups[0].multiplier = 1_200_000;
    let plan = shelf.plan(changed).unwrap();
    let changes: Vec<_> = plan
        .changes
        .iter()
        .map(|(scope, id)| (*scope, id.as_str()))
        .collect();
    assert_eq!(changes, [("group", "standard"), ("key", "acme")]);
    let details: Vec<_> = plan.differences.iter().map(Difference::detail).collect();
    assert_eq!(
        details,
        ["multiplier: ×1 → ×1.2", "limits: none → 3 at once"]
    );
}

#[test]
fn a_replaced_secret_stays_good_for_the_overlap() {
    let mut shelf = Shelf::default();
    shelf.apply(draft(Vec::new(), vec![key("ci", &own(1))]));
    let plan = shelf
        .plan(draft(Vec::new(), vec![key("ci", &own(2))]))
        .unwrap();
    assert_eq!(
        plan.differences[0].detail(),
        "secret replaced; the old one stays good for 60 s"
    );
    shelf.apply(draft(Vec::new(), vec![key("ci", &own(2))]));
    let rotated = shelf.key("ci");
    assert_eq!(rotated.secret.hash, hasher().key(&own(2)));
    assert_eq!(rotated.previous, Some((hasher().key(&own(1)), 61_000)));
    assert!(
        shelf
            .plan(draft(Vec::new(), vec![key("ci", &own(2))]))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn what_an_admin_disabled_comes_back_only_with_another_secret() {
    let mut shelf = Shelf::default();
    let file = |number| draft(Vec::new(), vec![key("ci", &own(number))]);
    shelf.apply(file(1));
    shelf.0.keys[0].terms.status = Status::Disabled;
    shelf.0.keys[0].disabled_by = Some(Origin::Admin);
    assert!(shelf.plan(file(1)).unwrap().is_empty());
    let elsewhere = draft(Vec::new(), vec![key("other", &own(1))]);
    let problem = shelf.plan(elsewhere).unwrap_err();
    assert_eq!(problem.field, "tenants[0].keys[0].secret");
    shelf.apply(file(2));
    assert_eq!(shelf.key("ci").terms.status, Status::Active);
    assert_eq!(
        shelf.key("ci").previous,
        None,
        "the leaked one is not good for a while"
    );
}

#[test]
fn secrets_move_between_the_files_keys() {
    let mut shelf = Shelf::default();
    shelf.apply(draft(
        Vec::new(),
        vec![key("a", &own(1)), key("b", &own(2))],
    ));
    shelf.apply(draft(
        Vec::new(),
        vec![key("a", &own(2)), key("b", &own(1))],
    ));
    assert_eq!(
        (shelf.find(&own(1)), shelf.find(&own(2))),
        (Some("b"), Some("a"))
    );
    assert_eq!(shelf.key("a").previous, None);
    // A key is renamed: its secret goes with it.
    shelf.apply(draft(
        Vec::new(),
        vec![key("a", &own(2)), key("c", &own(1))],
    ));
    assert_eq!(shelf.find(&own(1)), Some("c"));
    assert_eq!(shelf.key("b").terms.status, Status::Disabled);
    shelf.apply(draft(
        Vec::new(),
        vec![key("a", &own(2)), key("b", &own(1))],
    ));
    assert_eq!(shelf.find(&own(1)), Some("b"));
}

#[test]
fn what_came_from_elsewhere_is_not_touched() {
    let mut shelf = Shelf::default();
    shelf.apply(draft(Vec::new(), vec![key("ci", &own(1))]));
    shelf.0.keys[0].origin = Origin::Admin;
    assert!(
        shelf
            .plan(draft(Vec::new(), Vec::new()))
            .unwrap()
            .is_empty(),
        "it does not leave"
    );
    let taken = shelf
        .plan(draft(Vec::new(), vec![key("ci", &own(2))]))
        .unwrap_err();
    assert_eq!(taken.field, "tenants[0].keys[0].name");
    let taken = shelf
        .plan(draft(Vec::new(), vec![key("new", &own(1))]))
        .unwrap_err();
    assert_eq!(taken.field, "tenants[0].keys[0].secret");
}

#[test]
fn faults_name_the_field_and_never_the_secret() {
    let shelf = Shelf::default();
    let fault = |edit: &dyn Fn(&mut Draft)| {
        let mut file = draft(
            vec![user("ana@acme.example")],
            vec![key("ci", &own(1)), key("nightly", &own(2))],
        );
        edit(&mut file);
        let problem = shelf.plan(file).unwrap_err();
        assert!(!problem.to_string().contains(OWN), "{problem}");
        problem.to_string()
    };
    let key = "tenants[0].keys[1]";
    for (edit, expected) in [
        (
            (&|file: &mut Draft| file.tenants[0].keys[1].terms.group = "gold".to_owned()) as &dyn Fn(&mut Draft),
            format!("{key}.group: unknown group `gold`; known: standard"),
        ),
        (
            &|file| file.tenants[0].keys[1].terms.user = "bob@acme.example".to_owned(),
            format!("{key}.user: tenant `acme` has no user `bob@acme.example`; define it under `users`"),
        ),
        (
            &|file| file.tenants[0].keys[1].terms.name = "ci".to_owned(),
            format!("{key}.name: there is already a key of this tenant `ci`"),
        ),
        (
            &|file| file.tenants[0].keys[1].secret = SecretString::from(own(1)),
            format!("{key}.secret: is the same as that of tenants[0].keys[0]; each key needs its own"),
        ),
        (
            &|file| file.tenants[0].keys[1].terms.allow_ips = vec!["10.0.0.0/33".to_owned()],
            format!(
                "{key}.allow_ips[0]: `10.0.0.0/33` is no address and no CIDR block, such as 10.0.0.0/8 or 2001:db8::/32"
            ),
        ),
        (
            &|file| file.groups[0].multiplier = 0,
            "groups[0].multiplier: expected millionths above 0 and at most 10000000000 (1000000 is ×1), got 0".to_owned(),
        ),
        (
            &|file| file.tenants[0].users[0].email = "ana".to_owned(),
            "tenants[0].users[0].email: `ana` is no e-mail address".to_owned(),
        ),
        (
            &|file| file.tenants[0].tenant.name = "a/b".to_owned(),
            "tenants[0].name: must not contain `/`: keys are named as tenant/key".to_owned(),
        ),
        (
            &|file| file.groups[0].limits.burst = Some(0),
            "groups[0].limits.burst: must be at least 1; leave it out for one second's worth".to_owned(),
        ),
    ] {
        assert_eq!(fault(edit), expected);
    }
    assert!(
        fault(&|file| file.tenants[0].keys[1].secret = SecretString::from("too-short"))
            .starts_with("tenants[0].keys[1].secret: expected 32 to 512 visible ASCII characters")
    );
}

#[test]
fn addresses_are_kept_as_blocks_without_host_bits() {
    let mut file = draft(Vec::new(), Vec::new());
    file.groups[0].allow_ips = ["10.1.2.3/8", "192.168.1.1", "2001:db8::1/32"]
        .map(str::to_owned)
        .to_vec();
    let valid = fragment(file, &hasher()).unwrap();
    assert_eq!(
        valid.groups[0].allow_ips,
        ["10.0.0.0/8", "192.168.1.1/32", "2001:db8::/32"]
    );
}
