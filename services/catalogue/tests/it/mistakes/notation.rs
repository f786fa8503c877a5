//! YAML, keys, words, numbers, secrets: how things are written.

use super::Case;

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    ("version: 1", "version: one", &[
        "1:10: version: `one` is not a whole number; write a whole number",
    ]),
    ("    provider: openai\n", "    provider: openai\n    base_ulr: https://x\n", &[
        "5:5: accounts[0].base_ulr: unknown key `base_ulr`; did you mean `base_url`?",
    ]),
    ("    provider: openai\n", "    provider: openai\n    zebra: https://x\n", &[
        "5:5: accounts[0].zebra: unknown key `zebra`; known keys here: `name`, `provider`, `base_url`, `url_template`, `credential`, `credential_header`, `oauth`, `dialects`, `transport`, `status`, `concurrency`, `priority`, `limits`, `costs`, `cost_factor`, `flat_cost`, `cooldown`, `breaker`, `probe`, `windows`, `gather`, `proxy`, `allow_private_address`, `parameters`, `errors`",
    ]),
    ("    provider: openai\n", "    provider: opnai\n", &[
        "4:15: accounts[0].provider: `opnai` is none of `openai` | `anthropic` | `gemini` | `openai_compatible` | `switchboard`; did you mean `openai`?",
    ]),
    ("    provider: openai\n", "", &[
        "3:5: accounts[0].provider: `provider` is missing; add `provider: …` (`openai` | `anthropic` | `gemini` | `openai_compatible` | `switchboard`)",
    ]),
    ("env:KEY", "sk-live-0123456789abcdef", &[
        "5:17: accounts[0].credential: a secret stands here only by reference; put it into an environment variable or a file and write `env:NAME` or `file:PATH` (or `none`)",
    ]),
    ("env:KEY", "env:MY-KEY", &[
        "5:17: accounts[0].credential: what follows `env:` is not the name of an environment variable; write `env:NAME` with letters, digits and `_`",
    ]),
    ("env:KEY", "[sk-live-0123456789abcdef]", &[
        "5:17: accounts[0].credential: expected `env:NAME`, `file:PATH` or `none`, found a list; write `env:NAME`, `file:PATH` or `none`",
    ]),
    ("    credential: env:KEY\n", "", &[
        "3:5: accounts[0].credential: the account has no credential; add `credential: env:NAME`, or `credential: none` if the upstream asks for none",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    concurrency: many\n", &[
        "6:18: accounts[0].concurrency: `many` is not a whole number; write a whole number, or `auto`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    cooldown: {max: 10 minutes}\n", &[
        "6:21: accounts[0].cooldown.max: `10 minutes` is not a duration; write a duration such as `30s`, `15m`, `5h` or `7d`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    limits: [5]\n", &[
        "6:13: accounts[0].limits: expected a section of keys, found a list; write keys of `requests_per_second`, `requests_per_minute`, `tokens_per_minute`, `concurrency`, `burst`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    allow_private_address: yes\n", &[
        "6:28: accounts[0].allow_private_address: expected `true` or `false`, found `yes`; write `true` or `false`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    limits: {requests_per_minute: -5}\n", &[
        "6:35: accounts[0].limits.requests_per_minute: `-5` is not a whole number; write a whole number",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    flat_cost: {every: 30d, amount: 200,00}\n", &[
        "6:41: accounts[0].flat_cost.00: unknown key `00`; in `{…}` a comma begins the next key: write the decimal point as `.`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    parameters: {rescale: {temperature: {from: [2, 0], to: [0, 1]}}}\n", &[
        "6:48: accounts[0].parameters.rescale.temperature.from: expected a range of two numbers, the lower first; write `[0, 2]`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    breaker: {failures: 50}\n", &[
        "6:25: accounts[0].breaker.failures: `50` is not a percentage; write a percentage such as `5%`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    breaker: of\n", &[
        "6:14: accounts[0].breaker: `of` is not `off`; did you mean `off`?",
    ]),
    ("[openai.chat, openai.embeddings]", "[openai.chat, openai.embedding]", &[
        "6:29: accounts[0].dialects[1]: `openai.embedding` is none of `openai.chat` | `openai.responses` | `openai.embeddings` | `openai.completions` | `openai.images` | `openai.audio` | `openai.moderations` | `rerank` | `anthropic.messages` | `gemini.generate`; did you mean `openai.embeddings`?",
    ]),
    ("{input: 2.50, output: 10.00}", "{input: 2.5000000001, output: 10.00}", &[
        "13:20: models[0].price.input: `2.5000000001` has 10 digits after the point; write at most 9",
    ]),
    ("{input: 2.50, output: 10.00}", "{input: -2.5, output: 10.00}", &[
        "13:20: models[0].price.input: `-2.5` is not a decimal number; write an amount in USD such as `2.50`",
    ]),
    ("{input: 2.50, output: 10.00}", "2.50", &[
        "13:12: models[0].price: expected a section of keys, found text; write keys of `input`, `cached_input`, `cache_write_5m`, `cache_write_1h`, `output`, `reasoning`, `audio_input`, `audio_output`, `per_request`, `per_image`, `per_second`, `above`, `from`",
    ]),
    ("    models: [chat, embed]", "    multiplier: 1.2000001", &[
        "23:17: groups[0].multiplier: `1.2000001` has 7 digits after the point; write at most 6",
    ]),
    ("    models: [chat, embed]", "    minimum_margin: 0.05", &[
        "23:21: groups[0].minimum_margin: `0.05` is not a percentage; write a percentage such as `5%`",
    ]),
    ("    models: [chat, embed]", "    budgets: [{window: fortnight, amount: 1}]", &[
        "23:24: groups[0].budgets[0].window: `fortnight` is none of `hour` | `day` | `week` | `month` | `total`; write one of `hour` | `day` | `week` | `month` | `total`",
    ]),
    ("    models: [chat, embed]", "    scheduling: {policy: round_robin}", &[
        "23:26: groups[0].scheduling.policy: `round_robin` is none of `weighted_score` | `power_of_two`; write one of `weighted_score` | `power_of_two`",
    ]),
    ("user: ana@acme.example}", "expires: tomorrow}", &[
        "31:46: tenants[0].keys[0].expires: `tomorrow` is not a date; write a date such as `2027-12-31`",
    ]),
    ("user: ana@acme.example}", "secret: none}", &[
        "31:45: tenants[0].keys[0].secret: a caller cannot do without a secret; write `env:NAME` or `file:PATH`",
    ]),
    ("user: ana@acme.example}", "secret: super-secret-value}", &[
        "31:45: tenants[0].keys[0].secret: a secret stands here only by reference; put it into an environment variable or a file and write `env:NAME` or `file:PATH` (or `none`)",
    ]),
    ("    users:\n", "    balance: $100\n    users:\n", &[
        "28:14: tenants[0].balance: `$100` is not a decimal number; write an amount in USD such as `2.50`",
    ]),
    ("    users:\n", "	users:\n", &[
        "28:1: a tab indents this line; indent with spaces",
    ]),
    ("    users:\n", "   users:\n", &[
        "28:4: this is not YAML: while parsing a block collection, did not find expected '-' indicator; correct the notation: spaces, not tabs, indent; text with special characters stands in quotes",
    ]),
    ("    users:\n", "    hold: \"strict\n    users:\n", &[
        "28:11: this is not YAML: unclosed quote; correct the notation: spaces, not tabs, indent; text with special characters stands in quotes",
    ]),
    ("    users:\n", "    hold: !x strict\n    users:\n", &[
        "28:14: tags have no meaning in a catalogue; remove the word that begins with `!`",
    ]),
    ("    users:\n", "    balance: *nothing\n    users:\n", &[
        "28:14: this is not YAML: while parsing node, found unknown anchor; correct the notation: spaces, not tabs, indent; text with special characters stands in quotes",
    ]),
    ("    users:\n", "    <<: {a: b}\n    users:\n", &[
        "28:5: tenants[0][\"<<\"]: unknown key `<<`; merge keys are not part of the language: write the keys out",
    ]),
    ("models:\n  - name: chat", "models:\n  - chat\n  - name: chat", &[
        "11:5: models[0]: expected a section of keys, found text; write keys of `name`, `aliases`, `status`, `accepts`, `context_window`, `max_output`, `tokenizer`, `warning_line`, `long_context`, `capabilities`, `price`, `price_list`, `targets`, `fallback`, `max_attempts`, `queue`, `limits`, `timeouts`, `commit_after`, `canary`",
    ]),
    ("{account: main, model: gpt-4o}", "{account: main, model: gpt-4o, weight: 0.5}", &[
        "14:54: models[0].targets[0].weight: `0.5` is not a whole number; write a whole number",
    ]),
    ("{account: main, model: gpt-4o}", "{model: gpt-4o}", &[
        "14:15: models[0].targets[0].account: `account` is missing; add `account: …` (text)",
    ]),
    ("aliases: [talk]", "queue: nothing", &[
        "12:12: models[0].queue: expected a section of keys, found text; write keys of `depth`, `wait`, or `none`",
    ]),
    ("aliases: [talk]", "commit_after: newer", &[
        "12:19: models[0].commit_after: `newer` is not `never`; did you mean `never`?",
    ]),
    ("aliases: [talk]", "capabilities: [stream, telepathy]", &[
        "12:28: models[0].capabilities[1]: `telepathy` is none of `stream` | `tools` | `vision` | `json` | `reasoning` | `embeddings` | `images` | `audio`; write one of `stream` | `tools` | `vision` | `json` | `reasoning` | `embeddings` | `images` | `audio`",
    ]),
    ("limit_profiles:\n", "oauth_providers: [{name: idp, flow: device_code, token_url: idp.example, client_id: x}]\nlimit_profiles:\n", &[
        "24:19: oauth_providers[0].authorize_url: `authorize_url` is missing: device_code needs it; add `authorize_url: https://…`",
        "24:61: oauth_providers[0].token_url: this is not an address; write `https://…`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    proxy: \"127.0.0.1:1080\"\n", &[
        "6:12: accounts[0].proxy: this is not a proxy's address; write `http://`, `https://`, `socks5://` or `socks5h://` and HOST:PORT, or `env:NAME` or `file:PATH` where it needs a password",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    credential_header: {name: \"api key\", format: Bearer}\n", &[
        "6:31: accounts[0].credential_header.name: this is not the name of a header; write a name such as `api-key`",
        "6:50: accounts[0].credential_header.format: the place of the secret is missing, or there is more than one; write `{secret}` once, e.g. \"Bearer {secret}\"",
    ]),
    ("    provider: anthropic\n", "    provider: openai_compatible\n", &[
        "7:5: accounts[1].base_url: `base_url` is missing: openai_compatible has no public address; add `base_url: https://…`",
    ]),
    ("group: standard, user: ana@acme.example}", "user: ana@acme.example}", &[
        "31:9: tenants[0].keys[0].group: `group` is missing; add `group: …` (text)",
    ]),
    ("tenants:\n", "---\ntenants:\n", &[
        "26:1: a second document begins here; a catalogue is one document: remove the `---`",
    ]),
    ("version: 1\n", "version: 1\n? [a, b]\n: c\n", &[
        "2:3: a list or a section cannot be a key; text in `{…}` as a value needs quotes; a key is plain text",
    ]),
];
