//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use secrecy::SecretString;
use switchboard_catalogue::{Cidr, Date};
use switchboard_common::{
    grpc::{Address, Role},
    money::NanoUsd,
};

use super::screen::Format;

/// Switchboard: the LLM gateway for companies. `serve` runs it; the other commands administer a running one, or a stopped
/// one through its data directory.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "switchboard",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 checked and wrong, 2 usage, 3 unreachable, 4 refused."
)]
pub struct Cli {
    /// Which installation, and how results are shown.
    #[command(flatten)]
    pub place: Place,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Which installation, as whom, and how results are shown.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The HTTP listener of a running installation: http://HOST:PORT. Needs an admin token.
    #[arg(long, global = true, value_name = "ADDR", conflicts_with = "data_dir")]
    pub addr: Option<String>,
    /// The admin token for --addr. Better in the environment: a command line is seen by all.
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub token: Option<SecretString>,
    /// The data directory of an installation on this machine, running or stopped [default: ./switchboard-data].
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The form of results.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub output: Format,
    /// Why you do this; kept with the audit row.
    #[arg(
        long,
        global = true,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub reason: String,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run Switchboard: all roles in one process, or some of them.
    Serve(Serve),
    /// Bring the schemas in a PostgreSQL database up to date, before a deployment with split roles.
    Migrate(Migrate),
    /// Make a catalogue file true: accounts, models, prices, groups, tenants, keys, budgets.
    Apply(Apply),
    /// Look at configuration without touching anything.
    #[command(subcommand)]
    Config(Config),
    /// API keys of callers.
    #[command(subcommand)]
    Keys(Keys),
    /// Tenants and their money.
    #[command(subcommand)]
    Tenants(Tenants),
    /// What was asked, served and charged.
    #[command(subcommand)]
    Usage(Usage),
    /// The books.
    #[command(subcommand)]
    Ledger(Ledger),
    /// Say why a request went where it went, and what it cost.
    Explain(Explain),
    /// The catalogue's versions.
    #[command(subcommand)]
    Catalogue(Catalogue),
    /// Rests of accounts after failures.
    #[command(subcommand)]
    Cooldowns(Cooldowns),
    /// The credentials in the vault, without their secrets.
    #[command(subcommand)]
    Credentials(Credentials),
    /// Who changed what, when and why.
    #[command(subcommand)]
    Audit(Audit),
    /// Print a completion script for a shell.
    Completions(Completions),
}

/// `serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// A catalogue to apply at start.
    #[arg(short, long, value_name = "CATALOGUE")]
    pub file: Option<PathBuf>,
    /// Settings; SWITCHBOARD_SECTION__NAME and flags win over them.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Where the API listens [default: 127.0.0.1:8080]; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub http: Option<Address>,
    /// Where gRPC for callers listens [default: 127.0.0.1:8081]; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub grpc: Option<Address>,
    /// Where gRPC for the other roles listens: HOST:PORT or unix:/PATH.
    #[arg(long, value_name = "ADDR")]
    pub internal: Option<Address>,
    /// Run this role; may be given several times [default: all].
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<Role>,
    /// Add a local upstream that echoes, and a tenant with a key, so that the first call is answered.
    #[arg(long)]
    pub demo: bool,
}

/// `migrate`.
#[derive(Clone, Debug, Args)]
pub struct Migrate {
    /// Settings; `database.url` counts, also from SWITCHBOARD_DATABASE__URL.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The database instead: postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "URL")]
    pub database_url: Option<SecretString>,
}

/// `apply`.
#[derive(Clone, Debug, Args)]
pub struct Apply {
    /// The catalogue.
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Say what would change and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `config …`.
#[derive(Clone, Debug, Subcommand)]
pub enum Config {
    /// Check settings and a catalogue; show the settings as they count and where each account is reached.
    Check(Check),
}

/// `config check`.
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// The catalogue.
    #[arg(short, long, value_name = "CATALOGUE")]
    pub file: Option<PathBuf>,
    /// Settings; SWITCHBOARD_SECTION__NAME wins over them.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Check for a process that runs this role; may be given several times [default: all, or each by itself where the
    /// settings name peers].
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<Role>,
}

/// `keys …`.
#[derive(Clone, Debug, Subcommand)]
pub enum Keys {
    /// Make a key and show its secret, once.
    Create(Box<CreateKey>),
    /// List keys, without their secrets.
    List {
        /// Of this tenant alone.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Disable a key; within a second no process takes it.
    Disable {
        /// The key's id, or TENANT/NAME.
        key: String,
    },
}

/// `keys create`.
#[derive(Clone, Debug, Args)]
pub struct CreateKey {
    /// Whose key.
    #[arg(long)]
    pub tenant: String,
    /// Its name, unique in the tenant.
    #[arg(long)]
    pub name: String,
    /// The group whose models and accounts it reaches.
    #[arg(long)]
    pub group: String,
    /// The user to whom it belongs, by e-mail.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub user: String,
    /// A model it may call; may be given several times [default: all of the group].
    #[arg(long = "model", value_name = "MODEL")]
    pub models: Vec<String>,
    /// The last day on which it is valid, UTC [default: for ever].
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub expires: Option<Date>,
    /// An address or range from which it may be used; may be given several times [default: any].
    #[arg(long = "allow-ip", value_name = "CIDR")]
    pub allow_ips: Vec<Cidr>,
    /// Requests a second.
    #[arg(long, value_name = "N")]
    pub requests_per_second: Option<u64>,
    /// Requests a minute.
    #[arg(long, value_name = "N")]
    pub requests_per_minute: Option<u64>,
    /// Tokens a minute.
    #[arg(long, value_name = "N")]
    pub tokens_per_minute: Option<u64>,
    /// Requests at once.
    #[arg(long, value_name = "N")]
    pub concurrency: Option<u64>,
    /// Refuse parameters that the upstream does not take, instead of dropping them.
    #[arg(long)]
    pub reject_unsupported: bool,
    /// Kept with every usage row.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub cost_center: String,
    /// Kept with every usage row; may be given several times.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = tag)]
    pub tags: Vec<(String, String)>,
}

/// `tenants …`.
#[derive(Clone, Debug, Subcommand)]
pub enum Tenants {
    /// Status, balance, holds, budgets, users and number of keys.
    Show {
        /// The tenant.
        name: String,
    },
    /// Add to a prepaid balance.
    Topup {
        /// The tenant.
        name: String,
        /// USD, exactly; a negative amount corrects.
        #[arg(allow_negative_numbers = true)]
        amount: NanoUsd,
        /// The same text twice is one top-up, so that a lost answer can be asked for again.
        #[arg(long, value_name = "TEXT")]
        idempotency_key: Option<String>,
    },
}

/// `usage …`.
#[derive(Clone, Debug, Subcommand)]
pub enum Usage {
    /// Requests, newest first.
    List {
        /// At most so many.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
        /// Of this tenant alone.
        #[arg(long)]
        tenant: Option<String>,
        /// Older than this request.
        #[arg(long, value_name = "REQUEST_ID")]
        before: Option<String>,
    },
}

/// `ledger …`.
#[derive(Clone, Debug, Subcommand)]
pub enum Ledger {
    /// Add everything up again; exit 1 and what is wrong when the books do not balance.
    Verify,
    /// Let a request that cannot be settled stay so, with a --reason: its dead letter is no problem any more.
    Resolve {
        /// The request's id, as `ledger verify` names it.
        request_id: String,
    },
}

/// `explain`.
#[derive(Clone, Debug, Args)]
pub struct Explain {
    /// The request's id (`x-request-id` of the answer), or the caller's own.
    pub id: String,
}

/// `catalogue …`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Catalogue {
    /// List versions, newest first.
    Versions {
        /// At most so many.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Make an earlier version's accounts, models and groups current again, as a new version.
    Rollback {
        /// The version.
        version: u64,
    },
}

/// `cooldowns …`.
#[derive(Clone, Debug, Subcommand)]
pub enum Cooldowns {
    /// Let an account, or all of them, serve again at once.
    Reset {
        /// The account [default: all].
        account: Option<String>,
    },
}

/// `credentials …`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Credentials {
    /// Which account has one, and since when.
    List,
}

/// `audit …`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Audit {
    /// Changes of all services, newest first.
    List {
        /// At most so many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
}

/// `completions`.
#[derive(Clone, Copy, Debug, Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_understood() {
        for line in [
            "switchboard serve",
            "switchboard serve -f c.yaml --settings s.yaml --data-dir d --http 127.0.0.1:0 --grpc 127.0.0.1:0 --internal unix:/run/s --role edge --role forwarder --demo",
            "switchboard migrate --database-url postgres://db/x",
            "switchboard apply -f c.yaml --dry-run",
            "switchboard config check -f c.yaml --settings s.yaml --role edge",
            "switchboard keys create --tenant t --name n --group g --expires 2027-12-31 --allow-ip 10.0.0.0/8 --tag a=b --model m",
            "switchboard keys list --tenant t",
            "switchboard keys disable t/n",
            "switchboard tenants show t",
            "switchboard tenants topup t -2.5 --idempotency-key k",
            "switchboard usage list --limit 5 --tenant t --output json",
            "switchboard ledger verify",
            "switchboard explain x",
            "switchboard catalogue versions",
            "switchboard catalogue rollback 3",
            "switchboard cooldowns reset",
            "switchboard credentials list",
            "switchboard audit list --limit 3",
            "switchboard completions bash",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_line_is_usage() {
        for line in [
            "switchboard",
            "switchboard frobnicate",
            "switchboard apply",
            "switchboard serve --role nobody",
            "switchboard serve --http nowhere",
            "switchboard usage list --limit 0",
            "switchboard usage list --output xml",
            "switchboard keys create --tenant t --name n --group g --expires 2027-13-31",
            "switchboard keys create --tenant t --name n --group g --allow-ip 10.0.0.1/8",
            "switchboard tenants topup t 0.0000000001",
            "switchboard ledger verify --addr http://h:1 --data-dir d",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn global_flags_stand_before_or_behind_the_command() {
        for line in [
            "switchboard --addr http://h:1 --token t0ken --output json usage list",
            "switchboard usage list --addr http://h:1 --token t0ken --output json",
        ] {
            let cli = parse(line).unwrap();
            assert_eq!(cli.place.addr.as_deref(), Some("http://h:1"));
            assert_eq!(cli.place.token.as_ref().unwrap().expose_secret(), "t0ken");
            assert_eq!(cli.place.output, Format::Json);
            assert!(!format!("{cli:?}").contains("t0ken"));
        }
    }

    #[test]
    fn help_tells_of_the_tokens_variable_and_not_of_its_value() {
        let command = Cli::command();
        let token = command
            .get_arguments()
            .find(|argument| argument.get_id() == "token")
            .unwrap();
        assert_eq!(token.get_env().unwrap(), "SWITCHBOARD_TOKEN");
        assert!(token.is_hide_env_values_set());
    }
}
