//! Values that are written well and make no sense.

use super::Case;

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    ("version: 1", "version: 2", &[
        "1:10: version: version 2 of the language is not known; write `version: 1`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    base_url: api.openai.com\n", &[
        "6:15: accounts[0].base_url: this address does not begin with http:// or https://; write `https://HOST` or `https://HOST/PATH`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    base_url: https://u:sekret@api.openai.com\n", &[
        "6:15: accounts[0].base_url: a user name or password stands in this address; remove it; use `credential`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    concurrency: 0\n", &[
        "6:18: accounts[0].concurrency: `concurrency` is 0: nothing would pass; write at least 1, or leave the key out",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    oauth: {provider: idp}\n", &[
        "6:12: accounts[0].oauth: the account has a credential and signs in too; remove `credential` or `oauth`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    cooldown: {max: 10}\n", &[
        "6:21: accounts[0].cooldown.max: `10` has no unit; write the unit: `10s`, `10m`, `10h` or `10d`",
    ]),
    ("targets: [{account: main, model: gpt-4o}]", "targets: []", &[
        "14:14: models[0].targets: the model has no target; add `targets: [{account: NAME, model: NAME}]`",
    ]),
    ("    price: {input: 2.50, output: 10.00}\n", "", &[
        "11:5: models[0].price: the model has no price; add `price: {input: …, output: …}` (USD per 1000000 tokens) or `price_list: NAME`; write 0 for what is free",
    ]),
    ("{input: 2.50, output: 10.00}", "{}", &[
        "13:12: models[0].price: this sheet names no price; add `input: …` and `output: …` (USD per 1000000 tokens); write 0 for what is free",
    ]),
    ("    models: [chat, embed]", "    share: 20%", &[
        "23:12: groups[0].share: only a reserved group has a share; write `class: reserved`, or remove `share`",
    ]),
    ("    models: [chat, embed]", "    models: []", &[
        "23:13: groups[0].models: this list is empty: it would allow nothing; name at least one, or leave the key out to allow all",
    ]),
    ("    models: [chat, embed]", "    accounts: []", &[
        "23:15: groups[0].accounts: this list is empty: it would allow nothing; name at least one, or leave the key out to allow all",
    ]),
    ("    models: [chat, embed]", "    allow_ips: []", &[
        "23:16: groups[0].allow_ips: this list is empty: it would allow nothing; name at least one, or leave the key out to allow all",
    ]),
    ("user: ana@acme.example}", "models: []}", &[
        "31:45: tenants[0].keys[0].models: this list is empty: it would allow nothing; name at least one, or leave the key out to allow all",
    ]),
    ("user: ana@acme.example}", "allow_ips: []}", &[
        "31:48: tenants[0].keys[0].allow_ips: this list is empty: it would allow nothing; name at least one, or leave the key out to allow all",
    ]),
    ("    models: [chat, embed]", "    multiplier: 0", &[
        "23:17: groups[0].multiplier: the multiplier is 0; write a factor above 0; what is to be free has prices of 0",
    ]),
    ("    models: [chat, embed]", "    multiplier: 10000.1", &[
        "23:17: groups[0].multiplier: the multiplier is more than 10000; write at most 10000",
    ]),
    ("{email: ana@acme.example}", "{email: ana@acme.example, multiplier: 0.0}", &[
        "29:47: tenants[0].users[0].multiplier: the multiplier is 0; write a factor above 0; what is to be free has prices of 0",
    ]),
    ("concurrency: 5", "tokens_per_minute: 1000000000001", &[
        "25:38: limit_profiles[0].tokens_per_minute: `tokens_per_minute` is more than can be counted; write at most 1000000000000, or leave the key out for no limit",
    ]),
    ("  - name: claude\n", "  - name: cla/ude\n", &[
        "7:11: accounts[1].name: the name holds `/`: costs are named account/model; write a name without `/`",
    ]),
    ("  - name: acme\n", "  - name: ac/me\n", &[
        "27:11: tenants[0].name: the name holds `/`: keys are named tenant/key; write a name without `/`",
    ]),
    ("    models: [chat, embed]", "    names: {own: 'chat*'}", &[
        "23:18: groups[0].names.own: `chat*` is a pattern, which no upstream knows; write a name that the pattern stands for",
    ]),
    ("    models: [chat, embed]", "    class: reserved", &[
        "23:12: groups[0].class: `reserved` needs a share; add `share: 20%`",
    ]),
    ("    models: [chat, embed]", "    allow_ips: [10.0.0.1/8]", &[
        "23:17: groups[0].allow_ips[0]: `10.0.0.1/8` has bits set behind its prefix; did you mean `10.0.0.0/8`?",
    ]),
    ("    models: [chat, embed]", "    allow_ips: [10.0.0.300]", &[
        "23:17: groups[0].allow_ips[0]: `10.0.0.300` is not an address range; write an address range such as `10.0.0.0/8`",
    ]),
    ("    models: [chat, embed]", "    budgets: [{window: month}]", &[
        "23:15: groups[0].budgets[0]: this budget says how long, but not how much; add `amount: …` (USD) or `tokens: …`",
    ]),
    ("    models: [chat, embed]", "    scheduling: {weights: {load: -1}}", &[
        "23:34: groups[0].scheduling.weights.load: the weight -1 is out of range; write 0 to 1000000",
    ]),
    ("user: ana@acme.example}", "expires: 2027-02-30}", &[
        "31:46: tenants[0].keys[0].expires: `2027-02-30` is no day of the calendar; write a date such as `2027-12-31`",
    ]),
    ("user: ana@acme.example}", "limits: {concurrency: 1}, profile: batch}", &[
        "31:72: tenants[0].keys[0].profile: the key has limits and a profile; remove one of the two",
    ]),
    ("    users:\n", "    balance: 100\n    without_billing: serve\n    users:\n", &[
        "29:22: tenants[0].without_billing: a prepaid tenant cannot be served without billing; write `refuse`, or remove `balance` to make it postpaid",
    ]),
    ("    users:\n", "    time_zone: nowhere at all\n    users:\n", &[
        "28:16: tenants[0].time_zone: `nowhere at all` is not the name of a time zone; write e.g. `UTC` or `Europe/Berlin`",
    ]),
    ("{account: main, model: gpt-4o}", "{account: main, model: gpt-4o, weight: 2000000}", &[
        "14:54: models[0].targets[0].weight: this weight is too large; write 0 to 1000000",
    ]),
    ("aliases: [talk]", "aliases: [\"talk-*\"]", &[
        "12:15: models[0].aliases[0]: an alias cannot be a pattern; write a name without `*`; patterns are models of their own",
    ]),
    ("aliases: [talk]", "context_window: 0", &[
        "12:21: models[0].context_window: `context_window` is 0: nothing would pass; write at least 1, or leave the key out",
    ]),
    ("aliases: [talk]", "context_window: 99999999999999999999999", &[
        "12:21: models[0].context_window: this text is too large; write at most 18446744073709551615",
    ]),
    ("aliases: [talk]", "warning_line: {tokens: 5, action: reroute}", &[
        "12:39: models[0].warning_line.action: `reroute` needs a `long_context` model; add `long_context: NAME`, or write `header` or `refuse`",
    ]),
    ("aliases: [talk]", "queue: {depth: 0}", &[
        "12:20: models[0].queue.depth: `depth` is 0: nothing would pass; write at least 1, or leave the key out",
    ]),
    ("    accepts: [openai.embeddings]\n", "    price_list: list\n", &[
        "16:17: models[1].price_list: the model has a price and a price list; remove one of the two",
    ]),
    ("  - {name: batch, concurrency: 5}", "  - {name: batch, concurrency: 0}", &[
        "25:32: limit_profiles[0].concurrency: `concurrency` is 0: nothing would pass; write at least 1, or leave the key out",
    ]),
    ("  - name: acme", "  - name: \" acme\"", &[
        "27:11: tenants[0].name: this is not fit to be a name; write 1 to 200 characters without control characters and without spaces at the ends",
    ]),
    ("  - name: acme", "  - name: \"\"", &[
        "27:11: tenants[0].name: this text has 0 bytes; write 1 to 4096 bytes, or leave the key out",
    ]),
    ("limit_profiles:\n", "subscriptions: [{name: pro, windows: [{length: 5h}, {length: 0, amount: 1}]}, {name: empty}]\nlimit_profiles:\n", &[
        "24:39: subscriptions[0].windows[0]: this window says how long, but not how much; add `requests: …`, `tokens: …` or `amount: …`",
        "24:62: subscriptions[0].windows[1].length: a window needs a length; write a duration such as `5h` or `7d`",
        "24:79: subscriptions[1].windows: the subscription has no window; add `windows: [{length: 5h, amount: 5.00}]`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    windows: [{length: 5h}]\n", &[
        "6:15: accounts[0].windows[0]: this window says how long, but not how much; add `requests: …`, `tokens: …` or `amount: …`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    url_template: \"{base_url}/{secret}\"\n", &[
        "6:19: accounts[0].url_template: a placeholder in this template is not known; use only {base_url}, {model} and {deployment}",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    url_template: \"{base_url}/chat?api-version=1&key=abc\"\n", &[
        "6:19: accounts[0].url_template: a credential stands in this address's query, where logs would show it; remove it; use `credential`, and `credential_header` if the header is not the usual one",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    url_template: /v1/chat\n", &[
        "6:19: accounts[0].url_template: this template gives no address with http:// or https://; begin with {base_url}/ or https://HOST/",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    proxy: socks5://user:pass@proxy:1080\n", &[
        "6:12: accounts[0].proxy: a user name or password stands in this address; put the whole address into an environment variable or a file and write `env:NAME` or `file:PATH`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    errors: [{path: code, means: rate_limited}]\n", &[
        "6:14: accounts[0].errors[0]: a rule needs one of `equals` and `matches`; add `equals: VALUE`, or remove one of the two",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    errors: [{path: code, equals: 1, means: rate_limited}]\n", &[
        "6:21: accounts[0].errors[0].path: `code` is no path into JSON; write e.g. `$.error.code`, `$.errors[0].type` or `$['odd.name']`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    parameters: {rename: {seed: s, stop: s}}\n", &[
        "6:42: accounts[0].parameters.rename.stop: `stop` and `seed` both become `s`; give each a name of its own",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    probe: {path: health, every: 0}\n", &[
        "6:19: accounts[0].probe.path: a path begins with `/`; write e.g. `/health`",
        "6:34: accounts[0].probe.every: `every` is 0: nothing would pass; write at least 1, or leave the key out",
    ]),
    ("    models: [chat, embed]", "    class: reserved\n    share: 60%\n  - name: other\n    class: reserved\n    share: 50%", &[
        "27:12: groups[1].share: more than 100% of account `main` is reserved; lower the shares of its groups",
    ]),
    ("    models: [chat, embed]", "    multiplier: 1.2\n    price_list: list", &[
        "24:17: groups[0].price_list: the group has a multiplier and prices of its own; remove one of the two",
    ]),
    ("    models: [chat, embed]", "    names: {\"gpt*\": chat}", &[
        "23:21: groups[0].names[\"gpt*\"]: a group's own name cannot be a pattern; write a name without `*`",
    ]),
    ("    models: [chat, embed]", "    scheduling: {weights: {priority: 0, load: 0, queue: 0, error: 0, ttft: 0, reset: 0, headroom: 0, cost: 0}}", &[
        "23:27: groups[0].scheduling.weights: all weights are 0; give at least one factor a weight, or leave the key out",
    ]),
];
