//! `url_template`: the whole address of a call as the operator writes it.
//!
//! Invariants: a model's name, which may be a caller's, stands in the path or the query alone and is percent-encoded; no
//! credential stands in it (CASES A30). The text is in no message: it might hold one.

/// Where the upstream's name of the model goes.
pub(crate) const MODEL: &str = "{model}";
/// The same, as those call it whose models are deployments.
const DEPLOYMENT: &str = "{deployment}";
const BASE: &str = "{base_url}";

/// Query parameters that hold credentials wherever they are known.
const SECRETS: [&str; 16] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "auth_token",
    "authorization",
    "client_secret",
    "key",
    "password",
    "secret",
    "sig",
    "signature",
    "subscription-key",
    "token",
    "x-api-key",
];

type Wrong = (&'static str, &'static str);

/// The address with [`MODEL`] where the name goes; `base` is the account's `base_url`.
pub(crate) fn form(template: &str, base: &str) -> String {
    template
        .replace(DEPLOYMENT, MODEL)
        .replacen(BASE, base.trim_end_matches('/'), 1)
}

/// What is wrong with a template, and what to do.
pub(crate) fn check(template: &str, base: &str) -> Result<(), Wrong> {
    placeholders(template)?;
    const BEGIN: &str = "begin with {base_url}/ or https://HOST/";
    match template.strip_prefix(BASE) {
        Some(rest) if rest.contains(BASE) => {
            return Err(("{base_url} stands here twice", BEGIN));
        }
        Some(rest) if !(rest.is_empty() || rest.starts_with(['/', '?'])) => {
            return Err(("what follows {base_url} is not a path", BEGIN));
        }
        None if template.contains(BASE) => {
            return Err(("{base_url} is not at the beginning", BEGIN));
        }
        _ => {}
    }
    let form = form(template, base);
    let address = form
        .strip_prefix("https://")
        .or_else(|| form.strip_prefix("http://"));
    let Some(address) = address else {
        return Err((
            "this template gives no address with http:// or https://",
            BEGIN,
        ));
    };
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (host, rest) = address.split_at(end);
    if host.contains('{') {
        return Err((
            "a model's name cannot be a part of the host",
            "write {model} or {deployment} after the host",
        ));
    }
    if host.contains('@') {
        return Err((
            "a user name or password stands in this address",
            "remove it; use `credential`",
        ));
    }
    if rest.contains('#') {
        return Err(("this address has a fragment", "remove what begins with `#`"));
    }
    let example: Result<http::Uri, _> = form.replace(MODEL, "m").parse();
    if !example.is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty())) {
        return Err(("this template gives no valid address", BEGIN));
    }
    if rest
        .split_once('?')
        .is_some_and(|(_, query)| has_secret(query))
    {
        return Err((
            "a credential stands in this address's query, where logs would show it",
            "remove it; use `credential`, and `credential_header` if the header is not the usual one",
        ));
    }
    Ok(())
}

fn placeholders(template: &str) -> Result<(), Wrong> {
    let known = ["base_url", "model", "deployment"];
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (_, from) = rest.split_at(at);
        let name = from.strip_prefix('{').and_then(|from| from.split_once('}'));
        match name {
            Some((name, after)) if known.contains(&name) => rest = after,
            _ => {
                return Err((
                    "a placeholder in this template is not known",
                    "use only {base_url}, {model} and {deployment}",
                ));
            }
        }
    }
    Ok(())
}

fn has_secret(query: &str) -> bool {
    query.split('&').any(|pair| {
        let name = pair.split('=').next().unwrap_or("");
        let name = name.to_ascii_lowercase();
        let bare = name.strip_prefix("x-").unwrap_or(&name);
        SECRETS.contains(&name.as_str()) || SECRETS.contains(&bare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_URL: &str = "https://host/openai/";

    #[test]
    fn a_template_is_the_whole_address() {
        for (template, expected) in [
            (
                "{base_url}/deployments/{deployment}/chat/completions?api-version=2026-01-01",
                "https://host/openai/deployments/{model}/chat/completions?api-version=2026-01-01",
            ),
            ("https://other/v2?m={model}", "https://other/v2?m={model}"),
            ("{base_url}", "https://host/openai"),
        ] {
            assert_eq!(check(template, BASE_URL), Ok(()), "{template}");
            assert_eq!(form(template, BASE_URL), expected);
        }
    }

    #[test]
    fn what_is_no_address_or_gives_something_away_is_refused() {
        for (template, word) in [
            ("{base_url}/{secret}", "placeholder"),
            ("{base_url}/{model", "placeholder"),
            ("{base_url}/model}", "placeholder"),
            ("/v1/chat", "http://"),
            ("ftp://host/", "http://"),
            ("https:///v1", "valid"),
            ("https://ho st/", "valid"),
            ("{base_url}.evil.example/", "path"),
            ("{base_url}/{base_url}", "twice"),
            ("https://x/{base_url}", "beginning"),
            ("https://{model}.example.com/", "host"),
            ("https://user:pass@host/", "password"),
            ("{base_url}/a#b", "fragment"),
            ("{base_url}/a?key=abc", "credential"),
            ("{base_url}/a?v=1&API_KEY=abc", "credential"),
            ("{base_url}/a?X-Api-Key=abc", "credential"),
            ("{base_url}/a?token", "credential"),
        ] {
            let (message, _) = check(template, BASE_URL).unwrap_err();
            assert!(message.contains(word), "{template}: {message}");
        }
    }
}
