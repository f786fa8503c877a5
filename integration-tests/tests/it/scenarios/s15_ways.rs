//! Ways to upstreams: through proxies, and at addresses of their own form.

use fake_upstream::Script;
use switchboard_integration_tests::stack::{Builder, Stack};
use switchboard_integration_tests::tunnel::Tunnel;

scenarios! { [in_process, split] {
    an_account_is_reached_through_its_proxy,
    a_proxy_that_fails_costs_a_fail_over_and_no_account_its_credential,
    an_address_has_the_form_that_its_template_gives_it,
    a_redirect_is_not_followed,
} }

/// A host that exists nowhere: who reaches it asked somebody else for it.
const NOWHERE: &str =
    "url_template: \"http://upstream.invalid:81/v1/chat/completions\", dialects: [openai.chat]";

/// A file with a secret; gives the reference to it.
fn reference(stack: &Stack, name: &str, text: &str) -> String {
    let path = stack.dir().join(name);
    std::fs::write(&path, text).unwrap();
    format!("file:{}", path.display())
}

async fn an_account_is_reached_through_its_proxy(builder: Builder) {
    let mut stack = builder.start().await;
    let caller = stack.caller("k");
    let upstream = stack.upstream.addr();
    let open = Tunnel::start(upstream, None).await.unwrap();
    let closed = Tunnel::start(upstream, Some(("ann", "hush-hush")))
        .await
        .unwrap();
    let with_login = |scheme: &str| {
        let url = format!("{scheme}://ann:hush-hush@{}", closed.addr());
        reference(&stack, &format!("proxy-{scheme}"), &url)
    };
    let ways = [
        (
            format!("http://{}", open.addr()),
            "connect upstream.invalid:81",
        ),
        (
            format!("socks5h://{}", open.addr()),
            "socks upstream.invalid:81",
        ),
        (with_login("http"), "connect upstream.invalid:81"),
        (with_login("socks5h"), "socks upstream.invalid:81"),
    ];
    for (proxy, asked) in ways {
        let account = format!("proxy: \"{proxy}\", {NOWHERE}");
        stack.apply(stack.setup().account("a", &account)).await;
        let before = open.asked().len() + closed.asked().len();
        caller.chat("m").await.expect(200);
        assert!(caller.stream("m").await.done());
        let all = [open.asked(), closed.asked()].concat();
        assert_eq!(all.len(), before + 1, "one connection for both: {all:?}");
        let last = [open.asked().last().cloned(), closed.asked().last().cloned()];
        assert!(last.contains(&Some(asked.to_owned())), "{last:?}");
    }
    // Names that the proxy is not to resolve are resolved here, and refused here.
    let account = format!("proxy: \"socks5://{}\"", open.addr());
    stack.apply(stack.setup().account("a", &account)).await;
    caller.chat("m").await.expect(200);
    let asked = open.asked().last().cloned();
    assert_eq!(asked, Some(format!("socks {upstream}")));
    stack.finish().await;
}

async fn a_proxy_that_fails_costs_a_fail_over_and_no_account_its_credential(builder: Builder) {
    let mut stack = builder.start().await;
    let caller = stack.caller("k");
    let proxy = Tunnel::start(stack.upstream.addr(), None).await.unwrap();
    let setup = stack
        .setup()
        .account("a", &format!("proxy: \"http://{}\", cooldown: {{max: 0s}}", proxy.addr()))
        .account("b", "")
        .model(
            "m",
            "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: up-m}, {account: b, model: up-m, tier: 1}]",
        );
    stack.apply(setup).await;
    proxy.refuse(true);
    let served = caller.chat("m").await.expect(200);
    let row = stack.row(&served.request_id()).await;
    assert_eq!((row.account.as_str(), row.attempts.len()), ("b", 2));
    proxy.refuse(false);
    let served = caller.chat("m").await.expect(200);
    let row = stack.row(&served.request_id()).await;
    assert_eq!((row.account.as_str(), row.attempts.len()), ("a", 1));
    stack.finish().await;
}

async fn an_address_has_the_form_that_its_template_gives_it(builder: Builder) {
    let mut stack = builder.start().await;
    let caller = stack.caller("k");
    let template = "url_template: \"{base_url}/deployments/{deployment}/chat/completions?api-version=2026-01-01&model={model}\", dialects: [openai.chat], credential_header: {name: api-key, format: \"{secret}\"}";
    let setup = stack.setup().account("a", template).model(
        "m",
        "price: {input: 1.00, output: 2.00}, targets: [{account: a, model: \"up/m 2&x\"}]",
    );
    stack.apply(setup).await;
    stack.upstream.clear_log();
    caller.chat("m").await.expect(200);
    let log = stack.upstream.log();
    let seen = log.requests.last().unwrap();
    assert_eq!(seen.path, "/v1/deployments/up%2Fm%202%26x/chat/completions");
    let expected = "api-version=2026-01-01&model=up%2Fm%202%26x";
    assert_eq!(seen.query.as_deref(), Some(expected));
    let secret = switchboard_integration_tests::setup::upstream_key("a");
    assert_eq!(seen.header("api-key"), Some(secret.as_str()));
    assert_eq!(seen.header("authorization"), None);
    stack.finish().await;
}

async fn a_redirect_is_not_followed(builder: Builder) {
    let stack = builder.start().await;
    let elsewhere = fake_upstream::FakeUpstream::start().await.unwrap();
    let place = format!("{}/chat/completions", elsewhere.base_url());
    let redirect = Script::body(302, "text/plain", "").header("location", &place);
    stack.upstream.default(redirect);
    let answer = stack.caller("k").chat("m").await.expect(502);
    assert_eq!(answer.header("location"), "");
    assert!(elsewhere.log().requests.is_empty());
    stack.finish().await;
}
