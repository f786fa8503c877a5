//! A key in the query and an account's credential are in no sink (CASES A30): not in a log at its most talkative, not in a
//! span, not in a file that the gateway writes, not in a table, however the upstream fails.

use std::path::Path;
use std::time::Duration;

use fake_upstream::Script;
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database, DbBackend, Statement};
use serde_json::json;
use switchboard_integration_tests::caller::Answer;
use switchboard_integration_tests::collector::Collector;
use switchboard_integration_tests::setup::{Setup, secret_of, upstream_key};
use switchboard_integration_tests::stack::{Builder, Stack};

scenarios! { [embedded, processes] {
    neither_a_key_in_the_query_nor_a_credential_is_written_anywhere,
} }

/// What nobody issued: a stranger's word, which may be somebody's password elsewhere.
const WRONG: &str = "sk-wrong-0123456789-0123456789-0123456789";

/// What the caller calls its requests: it must be found.
const NAMED: &str = "a-name-that-is-no-secret";

fn setup() -> Setup {
    Setup::simple()
        .account(
            "a",
            "provider: gemini, dialects: [gemini.generate], cooldown: {max: 0s}",
        )
        .account(
            "b",
            "dialects: [openai.chat, anthropic.messages, openai.responses], cooldown: {max: 0s}",
        )
        .model(
            "m",
            "price: {input: 1.00, output: 2.00}, timeouts: {first_byte: 200ms}, targets: [{account: a, model: up-m}]",
        )
        .model(
            "n",
            "price: {input: 1.00, output: 2.00}, timeouts: {first_byte: 200ms}, targets: [{account: b, model: up-n}]",
        )
}

async fn neither_a_key_in_the_query_nor_a_credential_is_written_anywhere(builder: Builder) {
    let spans = Collector::start().unwrap();
    let endpoint = spans.endpoint();
    let builder = builder.settings(move |settings| {
        settings.telemetry.log = "debug".to_owned();
        settings.telemetry.otlp_endpoint.clone_from(&endpoint);
    });
    let stack = builder.setup(setup()).start().await;
    let ids = fail_in_every_way(&stack).await;
    assert!(ids.len() >= 60, "{}", ids.len());
    let rows = stack.rows(ids.len()).await;
    assert!(rows.iter().all(|row| row.charge_nanos == 0));
    let explained = format!("{:?}", stack.explain(&ids[0]).await);

    let secrets = [
        secret_of("k"),
        WRONG.to_owned(),
        upstream_key("a"),
        upstream_key("b"),
    ];
    // Each sink is shown to be one by what must be in it.
    let last = ids.last().unwrap();
    let has_last = |text: &str| text.contains(last.as_str());
    spans
        .wait_for(|spans| spans.iter().any(|span| has_last(&format!("{span:?}"))))
        .await
        .unwrap();
    let spans = format!("{:?}", spans.spans());
    for secret in &secrets {
        assert!(!spans.contains(secret), "a span has {secret}");
        assert!(!explained.contains(secret), "explain has {secret}");
    }
    let logs = in_files(stack.dir(), "DEBUG", &|name| name.ends_with(".log"));
    assert!(!logs.is_empty(), "there is a log of all that is told");
    for secret in &secrets {
        let written = in_files(stack.dir(), secret, &|_| true);
        assert_eq!(written, Vec::<String>::new(), "files with {secret}");
    }
    match &stack.stores {
        Some(stores) => {
            let url = stores.database_url.clone();
            assert_ne!(in_tables(&url, NAMED).await, Vec::<String>::new());
            for secret in &secrets {
                assert_eq!(in_tables(&url, secret).await, Vec::<String>::new());
            }
        }
        None => {
            let database = |name: &str| name.contains(".sqlite");
            assert_ne!(
                in_files(stack.dir(), NAMED, &database),
                Vec::<String>::new()
            );
        }
    }
    stack.finish().await;
}

/// Every dialect's calls with the key in the query, while the upstream refuses, is busy, repeats what it was sent, says
/// nothing, or breaks off. Gives the ids of those that were admitted.
async fn fail_in_every_way(stack: &Stack) -> Vec<String> {
    let key = secret_of("k");
    let caller = stack.bearer("").with("x-client-request-id", NAMED);
    let turn = json!([{"role": "user", "content": "hi"}]);
    let gemini = json!({"contents": [{"parts": [{"text": "hi"}]}]});
    let calls = [
        ("/v1beta/models/m:generateContent?key=", gemini.clone()),
        (
            "/v1beta/models/m:streamGenerateContent?alt=sse&key=",
            gemini.clone(),
        ),
        ("/v1/models/m:streamGenerateContent?key=", gemini),
        (
            "/v1/chat/completions?key=",
            json!({"model": "n", "messages": turn}),
        ),
        (
            "/v1/chat/completions?key=",
            json!({"model": "n", "stream": true, "messages": turn}),
        ),
        (
            "/v1/messages?beta=true&key=",
            json!({"model": "n", "max_tokens": 9, "messages": turn}),
        ),
        (
            "/v1/responses?key=",
            json!({"model": "n", "input": "hi", "stream": true}),
        ),
    ];
    let mut ids = Vec::new();
    for (path, body) in &calls {
        // An upstream can only repeat what it was sent.
        let own = upstream_key(if body.get("contents").is_some() {
            "a"
        } else {
            "b"
        });
        let ask = async |key: &str, script: Script| -> Answer {
            stack.upstream.default(script);
            caller.send(&format!("{path}{key}"), body.to_string()).await
        };
        for (status, message) in [
            (400, format!("bad: {}", own)),
            (401, format!("no such key: {}", own)),
            (403, "forbidden".to_owned()),
            (429, own.clone()),
            (500, own.clone()),
            (503, "busy".to_owned()),
        ] {
            let error =
                json!({"error": {"code": status, "status": "X", "type": "x", "message": message}});
            let answer = ask(&key, Script::json(status, &error)).await;
            assert!(answer.status >= 400, "{}", answer.status);
            ids.push(clean(&answer));
        }
        let told = own.clone();
        for script in [
            Script::json(200, &json!({"error": {"message": told, "code": 500}})),
            Script::events([json!({"error": {"message": told, "code": 500}}).to_string()]),
            Script::hang(),
            Script::reset(),
            Script::html(502).header("x-request-id", &told),
        ] {
            ids.push(clean(&ask(&key, script).await));
        }
        let refused = ask(WRONG, Script::say(["no"])).await.expect(401);
        clean(&refused);
        let nothing = caller.get(&format!("/nowhere?key={key}")).await;
        clean(&nothing.expect(404));
    }
    ids
}

/// What the caller got has no credential; its id.
fn clean(answer: &Answer) -> String {
    let said = format!(
        "{:?}{}",
        answer.headers,
        String::from_utf8_lossy(&answer.body)
    );
    assert!(
        !said.contains("-secret-of-") && !said.contains(WRONG),
        "{said}"
    );
    answer.request_id()
}

/// The files under a directory in which a text stands, but for those from which the gateway has its secrets.
fn in_files(dir: &Path, text: &str, of: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && name != "secrets" {
            found.extend(in_files(&entry.path(), text, of));
        } else if kind.is_file() && of(&name) {
            let bytes = std::fs::read(entry.path()).unwrap();
            if String::from_utf8_lossy(&bytes).contains(text) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

/// The columns of all tables in which a text stands.
async fn in_tables(url: &str, text: &str) -> Vec<String> {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(60))
        .sqlx_logging(false);
    let database = Database::connect(options).await.unwrap();
    let ask = async |sql: String| {
        let statement = Statement::from_string(DbBackend::Postgres, sql);
        database.query_all_raw(statement).await.unwrap()
    };
    let columns = ask(
        "SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) AS place, \
         quote_ident(column_name) AS name, data_type AS kind FROM information_schema.columns \
         WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
            .to_owned(),
    )
    .await;
    assert!(columns.len() > 50, "all services have tables");
    let mut found = Vec::new();
    for column in columns {
        let get = |name: &str| column.try_get::<String>("", name).unwrap();
        let (place, name) = (get("place"), get("name"));
        let bytes = match get("kind").as_str() {
            "bytea" => name.clone(),
            _ => format!("convert_to({name}::text, 'UTF8')"),
        };
        let hits = ask(format!(
            "SELECT 1 AS hit FROM {place} WHERE position(convert_to('{text}', 'UTF8') in {bytes}) > 0 LIMIT 1"
        ))
        .await;
        if !hits.is_empty() {
            found.push(format!("{place}.{name}"));
        }
    }
    found
}
