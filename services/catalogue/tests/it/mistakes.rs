//! One value for each kind of mistake: its line, its column, its path, what is wrong, what to do.

mod notation;
mod references;
mod values;

use switchboard_catalogue::{SecretRef, parse};

/// What stands in [`BASE`], what replaces it, and what `parse` says then, without the file's name.
type Case = (&'static str, &'static str, &'static [&'static str]);

/// The base that each mistake is made in; its line numbers appear below.
const BASE: &str = "\
version: 1
accounts:
  - name: main
    provider: openai
    credential: env:KEY
    dialects: [openai.chat, openai.embeddings]
  - name: claude
    provider: anthropic
    credential: none
models:
  - name: chat
    aliases: [talk]
    price: {input: 2.50, output: 10.00}
    targets: [{account: main, model: gpt-4o}]
  - name: embed
    accepts: [openai.embeddings]
    price: {input: 0.02}
    targets: [{account: main}]
price_lists:
  - {name: list, prices: {chat: {input: 1}}}
groups:
  - name: standard
    models: [chat, embed]
limit_profiles:
  - {name: batch, concurrency: 5}
tenants:
  - name: acme
    users:
      - {email: ana@acme.example}
    keys:
      - {name: ci, group: standard, user: ana@acme.example}
";

fn errors(text: &str) -> Vec<String> {
    match parse(text, "c.yaml") {
        Ok(parsed) => panic!(
            "no mistake found, warnings {:#?} in\n{text}",
            parsed.warnings
        ),
        Err(errors) => errors
            .iter()
            .map(|error| error.to_string().trim_start_matches("c.yaml:").to_owned())
            .collect(),
    }
}

fn check(cases: &[Case]) {
    for (from, to, expected) in cases {
        assert_eq!(BASE.matches(from).count(), 1, "{from}");
        assert_eq!(
            errors(&BASE.replace(from, to)),
            *expected,
            "{from:?} became {to:?}"
        );
    }
}

#[test]
fn the_base_has_no_mistake() {
    assert!(parse(BASE, "c.yaml").is_ok());
}

#[test]
fn a_vendors_code_that_is_written_as_a_regular_expression_is_a_warning() {
    let warned = |pattern: &str| {
        let credential = "credential: env:KEY";
        let rule = format!(
            "{credential}\n    errors: [{{path: $.code, matches: '{pattern}', means: failed}}]"
        );
        let parsed = parse(&BASE.replace(credential, &rule), "c.yaml").unwrap();
        let of = |path: &str| path == "accounts[0].errors[0].matches";
        parsed.warnings.iter().any(|warning| of(&warning.path))
    };
    for pattern in ["(?i)quota", "a.*b", r"\d+", "^quota", "quota$"] {
        assert!(warned(pattern), "{pattern}");
    }
    for pattern in ["quota", "*quota*", "E.1*", "*(x)", "a^b$c"] {
        assert!(!warned(pattern), "{pattern}");
    }
}

#[test]
fn a_price_that_leaves_half_of_a_request_free_is_a_warning() {
    let half = |from: &str, to: &str| {
        let parsed = parse(&BASE.replace(from, to), "c.yaml").unwrap();
        let mut warnings = parsed.warnings.iter();
        let told = warnings.find(|warning| warning.message.contains("free"));
        told.map(|warning| (warning.path.clone(), warning.message.clone()))
    };
    let free = |path: &str, message: &str| Some((path.to_owned(), message.to_owned()));
    let no_input = "this sheet has `output` and no `input`: input tokens are free by it";
    assert_eq!(half("nothing", ""), None);
    assert_eq!(half("input: 2.50, ", ""), free("models[0].price", no_input));
    assert_eq!(half("input: 2.50", "input: 0"), None);
    assert_eq!(half("input: 2.50, ", "audio_input: 6, "), None);
    assert_eq!(half("input: 2.50, ", "per_request: 1, "), None);
    assert_eq!(
        half(
            "price: {input: 0.02}",
            "price: {input: 0.02, audio_output: 12}\n    max_output: 100"
        ),
        None
    );
    assert_eq!(
        half(
            "price: {input: 2.50, output: 10.00}",
            "price_list: list\n    max_output: 100"
        ),
        free(
            "models[0].price_list",
            "the model has `max_output` and its price no `output`: output tokens are free"
        )
    );
    assert_eq!(
        half("{chat: {input: 1}}", "{chat: {output: 1}}"),
        free("price_lists[0].prices.chat", no_input)
    );
    assert_eq!(
        half(
            "price: {input: 0.02}",
            "price: {input: 0.02}\n    max_output: 100"
        ),
        free(
            "models[1].price",
            "the model has `max_output` and its price no `output`: output tokens are free"
        )
    );
}

#[test]
fn notation() {
    check(notation::CASES);
}

#[test]
fn references() {
    check(references::CASES);
}

#[test]
fn values() {
    check(values::CASES);
}

#[test]
fn a_diagnostic_reads_file_line_column_path_message_fix() {
    let errors = parse(
        &BASE.replace("provider: anthropic", "provider: antropic"),
        "c.yaml",
    )
    .unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "c.yaml:8:15: accounts[1].provider: `antropic` is none of `openai` | `anthropic` | `gemini` | \
         `openai_compatible` | `switchboard`; did you mean `anthropic`?"
    );
}

#[test]
fn all_mistakes_of_a_file_are_found_at_once_in_their_order() {
    let text = BASE
        .replace("env:KEY", "plain-text-secret")
        .replace("name: claude", "nam: claude")
        .replace("input: 2.50", "input: 2,50")
        .replace("models: [chat, embed]", "models: [chat, embd]")
        .replace("concurrency: 5", "concurrency: five")
        .replace("user: ana@", "user: bob@");
    let errors = errors(&text);
    let places: Vec<&str> = errors
        .iter()
        .map(|error| error.split(": ").nth(1).unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "accounts[0].credential",
            "accounts[1].nam",
            "accounts[1].name",
            "models[0].price.50",
            "groups[0].models[1]",
            "limit_profiles[0].concurrency",
            "tenants[0].keys[0].user",
        ],
        "{errors:#?}"
    );
}

#[test]
fn what_was_not_understood_causes_no_further_errors() {
    let text = BASE.replace(
        "dialects: [openai.chat, openai.embeddings]",
        "dialects: [openai.chat, openai.embbedings]",
    );
    assert_eq!(errors(&text).len(), 1);
    assert_eq!(
        errors(&BASE.replace("accounts:\n", "accounts: none\nold_accounts:\n")).len(),
        2
    );
}

#[test]
fn longer_circles_of_fallbacks_are_found_once() {
    let text = BASE
        .replace("aliases: [talk]", "fallback: embed")
        .replace("accepts: [openai.embeddings]", "fallback: third")
        .replace(
        "price_lists:",
        "  - {name: third, fallback: embed, price: {input: 1}, targets: [{account: main}]}\nprice_lists:",
    );
    assert_eq!(
        errors(&text),
        [
            "16:15: models[1].fallback: `fallback` leads in a circle: embed → third → embed; remove one of these references"
        ]
    );
}

/// Wherever a secret is pasted, no diagnostic repeats it.
#[test]
fn a_secret_is_never_repeated() {
    const SECRET: &str = "sk-proj-9f8e7d6c5b4a39281706";
    for (from, to) in [
        ("env:KEY", SECRET.to_owned()),
        ("env:KEY", format!("[{SECRET}]")),
        ("env:KEY", format!("{{{SECRET}: x}}")),
        ("env:KEY", format!("env:{SECRET}")),
        ("credential: env:KEY", format!("{SECRET}: x")),
        (
            "credential: env:KEY",
            format!("credential: none\n    base_url: https://u:{SECRET}@host"),
        ),
        (
            "credential: env:KEY",
            format!("credential: none\n    proxy: {SECRET}"),
        ),
        (
            "credential: env:KEY",
            format!("credential: none\n    credential_header: {{name: a, format: {SECRET}}}"),
        ),
        ("provider: anthropic", format!("provider: {SECRET}")),
        ("user: ana@acme.example}", format!("secret: {SECRET}}}")),
        ("user: ana@acme.example}", format!("expires: {SECRET}}}")),
        ("group: standard,", format!("group: {SECRET},")),
    ] {
        let errors = errors(&BASE.replace(from, &to)).join("\n");
        assert!(!errors.contains("9f8e7d6c5b4a"), "{errors}");
    }
}

#[test]
fn references_to_secrets_are_read() {
    let catalogue = parse(&BASE.replace("env:KEY", "file:/run/secrets/key"), "c.yaml")
        .unwrap()
        .catalogue;
    assert_eq!(
        catalogue.accounts[0].credential,
        Some(SecretRef::File("/run/secrets/key".to_owned()))
    );
    assert_eq!(catalogue.accounts[1].credential, Some(SecretRef::None));
}
