//! Names that are taken, names that lead nowhere, circles, dialects without a way.

use super::Case;

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    ("    provider: openai\n", "    provider: openai\n    provider: openai\n", &[
        "5:5: accounts[0].provider: the key `provider` stands here twice; remove one of the two",
    ]),
    ("  - name: claude", "  - name: main", &[
        "7:11: accounts[1].name: the name `main` is taken above; choose another name, or remove one of the two",
        "18:25: models[1].targets[0].account: there is no way from the caller's `openai.embeddings` to the upstream's `anthropic.messages`; choose an account that speaks what the model accepts, or change `accepts`",
    ]),
    ("{account: main, model: gpt-4o}", "{account: mian, model: gpt-4o}", &[
        "14:25: models[0].targets[0].account: there is no account `mian`; did you mean `main`?",
    ]),
    ("[{account: main, model: gpt-4o}]", "[{account: main, model: gpt-4o}, {account: main, model: gpt-4o}]", &[
        "14:47: models[0].targets[1]: the same target stands above in the same tier; remove one of the two and add up their weights",
    ]),
    ("    price: {input: 2.50, output: 10.00}\n", "    price_list: lst\n", &[
        "13:17: models[0].price_list: there is no price list `lst`; did you mean `list`?",
    ]),
    ("    price: {input: 0.02}\n", "    price_list: list\n", &[
        "17:17: models[1].price_list: the price list `list` has no entry for `embed`; add `embed` to its prices, or write `price` here",
    ]),
    ("aliases: [talk]", "aliases: [embed]", &[
        "12:15: models[0].aliases[0]: the name `embed` is taken by another model or alias; choose another alias, or remove it",
    ]),
    ("aliases: [talk]", "fallback: emebd", &[
        "12:15: models[0].fallback: there is no model `emebd`; did you mean `embed`?",
    ]),
    ("aliases: [talk]", "fallback: chat", &[
        "12:15: models[0].fallback: `fallback` leads in a circle: chat → chat; remove one of these references",
    ]),
    ("aliases: [talk]", "canary: {targets: [{account: main}], share: 105%, steps: [25%, 5%], tenants: [acne]}", &[
        "12:49: models[0].canary.share: `105%` is more than everything; write at most `100%`",
        "12:68: models[0].canary.steps[1]: the steps do not grow: 25%, 5%; write them in ascending order",
        "12:83: models[0].canary.tenants[0]: there is no tenant `acne`; did you mean `acme`?",
    ]),
    ("targets: [{account: main}]", "targets: [{account: claude, model: x}]", &[
        "18:25: models[1].targets[0].account: there is no way from the caller's `openai.embeddings` to the upstream's `anthropic.messages`; choose an account that speaks what the model accepts, or change `accepts`",
    ]),
    ("    accepts: [openai.embeddings]\n", "    capabilities: [images]\n", &[
        "18:25: models[1].targets[0].account: there is no way from the caller's `openai.images` to the upstream's `openai.chat`, `openai.embeddings`; choose an account that speaks what the model accepts, or change `accepts`",
    ]),
    ("    accepts: [openai.embeddings]\n", "    capabilities: [audio]\n", &[
        "18:25: models[1].targets[0].account: there is no way from the caller's `openai.audio` to the upstream's `openai.chat`, `openai.embeddings`; choose an account that speaks what the model accepts, or change `accepts`",
    ]),
    ("    accepts: [openai.embeddings]\n", "    accepts: [openai.embeddings, rerank]\n", &[
        "16:34: models[1].accepts[1]: there is no way from the caller's `rerank` to the upstream's `openai.chat`, `openai.embeddings`; remove it from `accepts`, or add a target whose account speaks it",
    ]),
    ("    models: [chat, embed]", "    models: [chat, embd]", &[
        "23:20: groups[0].models[1]: there is no model `embd`; did you mean `embed`?",
    ]),
    ("    models: [chat, embed]", "    models: [chat, \"gpt-*\"]", &[
        "23:20: groups[0].models[1]: the pattern `gpt-*` stands for no model; correct it, or add a model of this kind",
    ]),
    ("    models: [chat, embed]", "    accounts: [other]", &[
        "23:16: groups[0].accounts[0]: there is no account `other`; known: `claude`, `main`; or add it to `accounts`",
    ]),
    ("    models: [chat, embed]", "    price_list: other", &[
        "23:17: groups[0].price_list: there is no price list `other`; known: `list`; or add it to `price_lists`",
    ]),
    ("    models: [chat, embed]", "    models: [chat]\n    names: {gpt-5: embed}", &[
        "24:20: groups[0].names.gpt-5: the group does not offer `embed`; add it to the group's `models`",
    ]),
    ("group: standard,", "group: standrad,", &[
        "31:27: tenants[0].keys[0].group: there is no group `standrad`; did you mean `standard`?",
    ]),
    ("user: ana@acme.example}", "user: bob@acme.example}", &[
        "31:43: tenants[0].keys[0].user: there is no user `bob@acme.example`; did you mean `ana@acme.example`?",
    ]),
    ("user: ana@acme.example}", "profile: bach}", &[
        "31:46: tenants[0].keys[0].profile: there is no limit profile `bach`; did you mean `batch`?",
    ]),
    ("user: ana@acme.example}", "models: [cat]}", &[
        "31:46: tenants[0].keys[0].models[0]: there is no model `cat`; did you mean `chat`?",
    ]),
    ("    users:\n", "    subscription: pro\n    users:\n", &[
        "28:19: tenants[0].subscription: there is no subscription `pro`; add it to `subscriptions`",
    ]),
    ("    users:\n", "    fallbacks: {chat: embed, embed: chat}\n    users:\n", &[
        "28:23: tenants[0].fallbacks.chat: these fallbacks lead in a circle: chat → embed → chat; remove one of these references",
    ]),
    ("    users:\n", "    routes: {chat: {forbid: [main]}}\n    users:\n", &[
        "28:20: tenants[0].routes.chat: this leaves no account that serves `chat`; leave one of `main`",
    ]),
    ("    users:\n", "    routes: {embed: {pin: [claude]}}\n    users:\n", &[
        "28:21: tenants[0].routes.embed: this leaves no account that serves `embed`; leave one of `main`",
    ]),
    ("    users:\n", "    routes: {chat: {pin: [main]}, talk: {weights: {main: 5}}}\n    users:\n", &[
        "28:41: tenants[0].routes.talk: `chat` and `talk` are one model; put both into one rule",
    ]),
    ("    users:\n", "    routes: {chat: {pin: [main, other]}}\n    users:\n", &[
        "28:33: tenants[0].routes.chat.pin[1]: there is no account `other`; known: `claude`, `main`; or add it to `accounts`",
    ]),
    ("{email: ana@acme.example}", "{email: ana}", &[
        "29:17: tenants[0].users[0].email: this is not an e-mail address; write e.g. `ana@acme.example`",
        "31:43: tenants[0].keys[0].user: there is no user `ana@acme.example`; known: `ana`; or add it to `users`",
    ]),
    ("accounts:\n", "accounts: none\naccounts:\n", &[
        "3:1: accounts: the key `accounts` stands here twice; remove one of the two",
    ]),
    ("{account: main, model: gpt-4o}", "{account: gpt, model: gpt-4o}", &[
        "14:25: models[0].targets[0].account: there is no account `gpt`; known: `claude`, `main`; or add it to `accounts`",
    ]),
    ("    accepts: [openai.embeddings]\n", "    accepts: []\n", &[
        "16:14: models[1].accepts: the model accepts no dialect; name at least one, or leave the key out",
    ]),
    ("  - {name: batch, concurrency: 5}", "  - {name: batch, burst: 5}", &[
        "25:26: limit_profiles[0].burst: `burst` belongs to a limit on requests, and there is none; add `requests_per_second` or `requests_per_minute`, or remove it",
    ]),
    ("{email: ana@acme.example}", "{email: ana@acme.example}\n      - {email: ana@acme.example}", &[
        "30:17: tenants[0].users[1].email: the name `ana@acme.example` is taken above; choose another name, or remove one of the two",
    ]),
    ("    users:\n", "    subscription: pro\n    apps: [{app_id: a, secret: env:A, group: standrd}, {app_id: a, secret: env:A, group: standard}]\n    users:\n", &[
        "28:19: tenants[0].subscription: there is no subscription `pro`; add it to `subscriptions`",
        "29:46: tenants[0].apps[0].group: there is no group `standrd`; did you mean `standard`?",
        "29:65: tenants[0].apps[1].app_id: the name `a` is taken above; choose another name, or remove one of the two",
        "29:76: tenants[0].apps[1].secret: `a` has this secret too; give each its own",
    ]),
    ("    users:\n", "    budgets: [{window: day, amount: 1, tokens: 1}, {window: day, amount: 2}]\n    users:\n", &[
        "28:48: tenants[0].budgets[0].tokens: a budget is of money or of tokens, not both; remove `amount` or `tokens`; write two budgets to have both",
        "28:61: tenants[0].budgets[1].window: there are two budgets of this kind per day; remove one of the two",
    ]),
    ("    credential: env:KEY\n", "    oauth: {provider: idp}\n", &[
        "5:23: accounts[0].oauth.provider: there is no OAuth provider `idp`; add it to `oauth_providers`",
    ]),
    ("    credential: env:KEY\n", "    credential: env:KEY\n    dialects: []\n", &[
        "7:5: accounts[0].dialects: the key `dialects` stands here twice; remove one of the two",
    ]),
    ("    models: [chat, embed]", "    models: [chat]\n  - {name: standard}", &[
        "24:12: groups[1].name: the name `standard` is taken above; choose another name, or remove one of the two",
    ]),
    ("user: ana@acme.example}", "secret: env:A}\n      - {name: ci, group: standard, secret: env:A}", &[
        "32:16: tenants[0].keys[1].name: the name `ci` is taken above; choose another name, or remove one of the two",
        "32:45: tenants[0].keys[1].secret: `ci` has this secret too; give each its own",
    ]),
];
