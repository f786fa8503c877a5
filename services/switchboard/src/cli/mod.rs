//! The command line (ADM-1): from words to calls of admin services, and from answers to tables or JSON.
//!
//! Every command but `serve`, `migrate`, `config check` and `completions` is a client of the admin services; it has no
//! knowledge of its own. Results go to the writer given for them, everything else to the other one; exit codes are
//! CON-2's. Nothing here decides what is allowed: the services do.

mod access;
mod apply;
mod args;
mod audit;
mod check;
mod connect;
mod exit;
mod explain;
mod json;
mod ledger;
mod screen;
mod supply;
mod table;
mod tenants;
mod usage;

use std::{io::Write, process::ExitCode};

use clap::CommandFactory as _;
use secrecy::ExposeSecret as _;
use switchboard_common::{db::url_problem, settings::Override};
use switchboard_proto::common::v1::Actor;

use crate::{apply::AdminClients, composition, migrate, serve};
use connect::Connection;
use screen::Screen;

pub use args::{
    Apply, Audit, Catalogue, Check, Cli, Command, Completions, Config, Cooldowns, CreateKey,
    Credentials, Explain, Keys, Ledger, Migrate, Place, Serve, Tenants, Usage,
};
pub use exit::{Error, Exit};
pub use screen::Format;

/// Does what the command line says. Results go to `out`, everything else to `err`.
pub async fn run(cli: Cli, out: &mut (dyn Write + Send), err: &mut (dyn Write + Send)) -> ExitCode {
    let Cli { place, command } = cli;
    let command = match command {
        Command::Serve(flags) => return serving(place, flags, out, err).await,
        command => command,
    };
    let mut screen = Screen::new(place.output, out, err);
    finish(
        Box::pin(dispatch(&place, command, &mut screen)).await,
        &mut screen,
    )
    .into()
}

/// Does what one admin command says, over clients that somebody else made.
///
/// # Errors
/// What went wrong, for the person; [`Error::exit`] says which exit code it is.
pub async fn administer(
    clients: AdminClients,
    cli: Cli,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> Result<Exit, Error> {
    let mut screen = Screen::new(cli.place.output, out, err);
    Box::pin(admin(clients, &cli.place, cli.command, &mut screen)).await
}

fn finish(done: Result<Exit, Error>, screen: &mut Screen<'_>) -> Exit {
    done.unwrap_or_else(|error| {
        screen.note(format_args!("error: {error}"));
        error.exit()
    })
}

async fn serving(
    place: Place,
    flags: Serve,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> ExitCode {
    let args = serve::ServeArgs {
        file: flags.file,
        settings: flags.settings,
        data_dir: place.data_dir,
        http: flags.http,
        grpc: flags.grpc,
        internal: flags.internal,
        roles: flags.roles,
        demo: flags.demo,
    };
    match Box::pin(serve::run(args, out)).await {
        Ok(code) => code,
        Err(error) => {
            let exit = match &error {
                serve::Error::Usage(_) => Exit::Usage,
                serve::Error::Start(composition::Error::DatabaseAway { .. }) => Exit::Unreachable,
                _ => Exit::Wrong,
            };
            // Nobody is left to tell.
            let _ = writeln!(err, "error: {error}");
            exit.into()
        }
    }
}

async fn dispatch(place: &Place, command: Command, screen: &mut Screen<'_>) -> Result<Exit, Error> {
    match command {
        Command::Migrate(flags) => migrating(&flags, screen).await,
        Command::Config(Config::Check(flags)) => check::check(place, &flags, screen),
        Command::Completions(flags) => completions(&flags, screen),
        command => {
            // A file's mistakes are told before anything is reached for.
            let prepared = match &command {
                Command::Apply(flags) => Some(apply::read(&flags.file, screen)?),
                _ => None,
            };
            let connection = Connection::open(place).await?;
            let clients = connection.clients.clone();
            let done = match (command, prepared) {
                (Command::Apply(flags), Some(fragments)) => {
                    apply::apply(&clients, &flags, &fragments, place, screen).await
                }
                (command, _) => admin(clients, place, command, screen).await,
            };
            connection.close().await;
            done
        }
    }
}

async fn admin(
    clients: AdminClients,
    place: &Place,
    command: Command,
    screen: &mut Screen<'_>,
) -> Result<Exit, Error> {
    let actor = actor("cli", place);
    match command {
        Command::Apply(flags) => {
            let fragments = apply::read(&flags.file, screen)?;
            apply::apply(&clients, &flags, &fragments, place, screen).await
        }
        Command::Keys(command) => access::keys(clients.auth, actor, command, screen).await,
        Command::Tenants(Tenants::Show { name }) => tenants::show(clients, name, screen).await,
        Command::Tenants(Tenants::Topup {
            name,
            amount,
            idempotency_key,
        }) => {
            let key = idempotency_key.unwrap_or_else(tenants::fresh_key);
            tenants::topup(clients.billing, actor, name, amount, key, screen).await
        }
        Command::Usage(Usage::List {
            limit,
            tenant,
            before,
        }) => {
            let (tenant, before) = (tenant.unwrap_or_default(), before.unwrap_or_default());
            usage::list(clients.billing, limit, tenant, before, screen).await
        }
        Command::Ledger(Ledger::Verify) => ledger::verify(clients.billing, screen).await,
        Command::Ledger(Ledger::Resolve { request_id }) => {
            ledger::resolve(clients.billing, actor, request_id, screen).await
        }
        Command::Explain(flags) => explain::explain(clients.billing, flags.id, screen).await,
        Command::Catalogue(command) => {
            supply::catalogue(clients.scheduler, actor, command, screen).await
        }
        Command::Cooldowns(Cooldowns::Reset { account }) => {
            let account = account.unwrap_or_default();
            supply::reset_cooldowns(clients.scheduler, actor, account, screen).await
        }
        Command::Credentials(Credentials::List) => {
            supply::credentials(clients.credentials, screen).await
        }
        Command::Audit(Audit::List { limit }) => audit::list(clients, limit, screen).await,
        Command::Serve(_) | Command::Migrate(_) | Command::Config(_) | Command::Completions(_) => {
            Err(Error::Usage("this command administers nothing".to_owned()))
        }
    }
}

/// Who does it, and why, for the audit rows.
fn actor(name: &str, place: &Place) -> Actor {
    Actor {
        name: name.to_owned(),
        reason: place.reason.clone(),
    }
}

async fn migrating(flags: &Migrate, screen: &mut Screen<'_>) -> Result<Exit, Error> {
    let given = flags
        .database_url
        .as_ref()
        .map(|url| Override::flag("--database-url", "database.url", url.expose_secret()));
    let settings = serve::read_settings(flags.settings.as_deref(), given.as_slice())
        .map_err(|error| Error::Wrong(error.to_string()))?;
    if settings.database.url.is_empty() {
        return Err(Error::Usage(
            "which database? Give --database-url, or database.url in --settings (SQLite files are migrated by the program that opens them)".to_owned(),
        ));
    }
    if let Some(problem) = url_problem(&settings.database.url) {
        return Err(Error::Usage(problem.to_owned()));
    }
    migrate::run(&settings).await.map_err(|error| match error {
        migrate::Error::Open { .. } => Error::Unreachable(error.to_string()),
        migrate::Error::Migrate(_) => Error::Wrong(error.to_string()),
    })?;
    screen.note("all schemas are up to date");
    Ok(Exit::Ok)
}

fn completions(flags: &Completions, screen: &mut Screen<'_>) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "switchboard", &mut script);
    screen.write(&script)?;
    Ok(Exit::Ok)
}
