//! The catalogue of a test, as text: what a scenario says of accounts, models, groups and tenants, in the catalogue's own
//! language, with the parts that are always the same filled in.
//!
//! Every account stands for an upstream of its own: it has the credential [`upstream_key`] of its name, by which the fake
//! upstream tells accounts apart, unless its upstream is a Switchboard. Secrets lie in files; the text names them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// A catalogue. The default is empty; [`Setup::simple`] serves one model.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    accounts: Vec<Account>,
    models: Vec<Entry>,
    groups: Vec<Entry>,
    tenants: Vec<Tenant>,
    head: String,
}

#[derive(Clone, Debug)]
struct Account {
    name: String,
    base_url: Option<String>,
    credential: String,
    more: String,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    more: String,
}

#[derive(Clone, Debug)]
struct Tenant {
    name: String,
    more: String,
    keys: Vec<Entry>,
}

/// The credential with which an account calls its upstream.
#[must_use]
pub fn upstream_key(account: &str) -> String {
    format!("upstream-secret-of-{account}")
}

/// The secret of a key of this name, brought by its operator.
#[must_use]
pub fn secret_of(key: &str) -> String {
    format!("{:0<40}", format!("caller-secret-of-{key}-"))
}

impl Setup {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One account `a` without limits, one model `m` (served as `up-m`, 1 USD in, 2 USD out per million), the tenant
    /// `acme` with 100 USD and its key `k`.
    #[must_use]
    pub fn simple() -> Self {
        Self::new()
            .account("a", "")
            .model(
                "m",
                "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}]",
            )
            .tenant("acme", "balance: 100.00")
            .key("k", "")
    }

    /// Text before everything else, such as `defaults: {…}`.
    #[must_use]
    pub fn head(mut self, text: &str) -> Self {
        self.head.push_str(text);
        self.head.push('\n');
        self
    }

    /// An account at the stack's upstream; `more` are further fields in flow style.
    #[must_use]
    pub fn account(self, name: &str, more: &str) -> Self {
        self.put_account(name, None, upstream_key(name), more)
    }

    /// An account somewhere else.
    #[must_use]
    pub fn account_at(self, name: &str, address: SocketAddr, more: &str) -> Self {
        let base_url = format!("http://{address}/v1");
        self.put_account(name, Some(base_url), upstream_key(name), more)
    }

    /// An account whose upstream is a Switchboard: it calls this edge with the secret of the key `key`.
    #[must_use]
    pub fn account_of_gateway(self, name: &str, edge: SocketAddr, key: &str) -> Self {
        self.put_account(name, Some(format!("http://{edge}/v1")), secret_of(key), "")
    }

    fn put_account(
        mut self,
        name: &str,
        base_url: Option<String>,
        credential: String,
        more: &str,
    ) -> Self {
        let account = Account {
            name: name.to_owned(),
            base_url,
            credential,
            more: more.to_owned(),
        };
        match self.accounts.iter_mut().find(|old| old.name == name) {
            Some(old) => *old = account,
            None => self.accounts.push(account),
        }
        self
    }

    /// A model; an existing one of this name is replaced.
    #[must_use]
    pub fn model(mut self, name: &str, more: &str) -> Self {
        put(&mut self.models, name, more);
        self
    }

    /// A group; without any there is one of all models and accounts, `all`.
    #[must_use]
    pub fn group(mut self, name: &str, more: &str) -> Self {
        put(&mut self.groups, name, more);
        self
    }

    /// A tenant; an existing one of this name keeps its keys.
    #[must_use]
    pub fn tenant(mut self, name: &str, more: &str) -> Self {
        match self.tenants.iter_mut().find(|old| old.name == name) {
            Some(old) => old.more = more.to_owned(),
            None => self.tenants.push(Tenant {
                name: name.to_owned(),
                more: more.to_owned(),
                keys: Vec::new(),
            }),
        }
        self
    }

    /// A key of the tenant named last, or the existing one of this name, whosever it is. Key names are unique here.
    #[must_use]
    pub fn key(mut self, name: &str, more: &str) -> Self {
        let has = |tenant: &Tenant| tenant.keys.iter().any(|key| key.name == name);
        let at = self.tenants.iter().position(has).unwrap_or_else(|| {
            self.tenants
                .len()
                .checked_sub(1)
                .expect("a tenant comes first")
        });
        put(&mut self.tenants[at].keys, name, more);
        self
    }

    /// Takes a key out of the text.
    #[must_use]
    pub fn without_key(mut self, name: &str) -> Self {
        for tenant in &mut self.tenants {
            tenant.keys.retain(|key| key.name != name);
        }
        self
    }

    /// The text. Secrets are written into files of `secrets`.
    #[must_use]
    pub fn text(&self, upstream: &str, secrets: &Path) -> String {
        let mut text = format!("version: 1\n{}", self.head);
        let file = |name: String, secret: String| {
            let path = secrets.join(name);
            std::fs::write(&path, secret).expect("a secret can be written");
            path.display().to_string()
        };
        if !self.accounts.is_empty() {
            text.push_str("accounts:\n");
        }
        for account in &self.accounts {
            let name = &account.name;
            let url = account.base_url.as_deref().unwrap_or(upstream);
            let secret = file(format!("account-{name}"), account.credential.clone());
            let dialects = if account.more.contains("dialects:") {
                ""
            } else {
                ", dialects: [openai.chat, openai.embeddings]"
            };
            let provider = if account.more.contains("provider:") {
                ""
            } else {
                ", provider: openai_compatible"
            };
            line(
                &mut text,
                "  ",
                &format!(
                    "name: {name}{provider}, base_url: \"{url}\", allow_private_address: true, credential: \"file:{secret}\"{dialects}"
                ),
                &account.more,
            );
        }
        section(&mut text, "models", &self.models);
        let all = [Entry {
            name: "all".to_owned(),
            more: String::new(),
        }];
        let groups = if self.groups.is_empty() {
            &all[..]
        } else {
            &self.groups
        };
        section(&mut text, "groups", groups);
        if !self.tenants.is_empty() {
            text.push_str("tenants:\n");
        }
        for tenant in &self.tenants {
            let _ = writeln!(text, "  - name: {}", tenant.name);
            for field in tenant.more.split("; ").filter(|field| !field.is_empty()) {
                let _ = writeln!(text, "    {field}");
            }
            if !tenant.keys.is_empty() {
                text.push_str("    keys:\n");
            }
            for key in &tenant.keys {
                let secret = file(format!("key-{}", key.name), secret_of(&key.name));
                let group = if key.more.contains("group:") {
                    String::new()
                } else {
                    format!(", group: {}", groups[0].name)
                };
                let fixed = format!("name: {}, secret: \"file:{secret}\"{group}", key.name);
                line(&mut text, "      ", &fixed, &key.more);
            }
        }
        text
    }
}

fn put(entries: &mut Vec<Entry>, name: &str, more: &str) {
    let entry = Entry {
        name: name.to_owned(),
        more: more.to_owned(),
    };
    match entries.iter_mut().find(|old| old.name == name) {
        Some(old) => *old = entry,
        None => entries.push(entry),
    }
}

fn section(text: &mut String, title: &str, entries: &[Entry]) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, "{title}:");
    for entry in entries {
        line(
            text,
            "  ",
            &format!("name: \"{}\"", entry.name),
            &entry.more,
        );
    }
}

fn line(text: &mut String, indent: &str, fixed: &str, more: &str) {
    let comma = if more.is_empty() { "" } else { ", " };
    let _ = writeln!(text, "{indent}- {{{fixed}{comma}{more}}}");
}

impl Setup {
    /// The name of a key that may list models, if there is any.
    pub(crate) fn some_key(&self) -> Option<String> {
        let mut keys = self.tenants.iter().flat_map(|tenant| &tenant.keys);
        keys.find(|key| {
            !key.more.contains("models:")
                && !key.more.contains("allow_ips:")
                && !key.more.contains("expires:")
        })
        .map(|key| key.name.clone())
    }

    /// The names that every group lists.
    pub(crate) fn model_names(&self) -> Vec<String> {
        let listed = |entry: &&Entry| {
            self.groups.is_empty() && !entry.name.contains('*') && !entry.more.contains("status:")
        };
        let names = self.models.iter().filter(listed);
        names.map(|entry| entry.name.clone()).collect()
    }
}
