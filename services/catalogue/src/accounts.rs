//! Supply: the upstream accounts and the OAuth providers they sign in at.

use std::collections::BTreeMap;

use crate::amount::{Amount, Multiplier, Percent};
use crate::dialect::Dialect;
use crate::duration::Duration;
use crate::limits::{Limits, Window};
use crate::models::Unsupported;
use crate::notation::{record, word_or, words};
use crate::prices::Price;
use crate::scalar::{Range, SecretRef};

words! {
    /// Whose API an account is.
    Provider {
        Openai = "openai": "OpenAI.",
        Anthropic = "anthropic": "Anthropic.",
        Gemini = "gemini": "Google Gemini.",
        OpenaiCompatible = "openai_compatible": "Any server that speaks OpenAI's API.",
        Switchboard = "switchboard": "Another Switchboard.",
    }
}

words! {
    /// Whether an account may be used.
    AccountStatus {
        Active = "active": "Serves.",
        Draining = "draining": "Finishes what runs, takes nothing new.",
        Disabled = "disabled": "Serves nothing.",
    }
}

words! {
    /// How an upstream is reached.
    Transport {
        Http = "http": "HTTP, with server-sent events for streams.",
        Websocket = "websocket": "The Responses WebSocket.",
        Grpc = "grpc": "Switchboard's own gRPC.",
    }
}

words! {
    /// How an account signs in.
    OauthFlow {
        AuthorizationCode = "authorization_code": "Authorization code with PKCE.",
        DeviceCode = "device_code": "Device code.",
        ClientCredentials = "client_credentials": "Client credentials.",
    }
}

words! {
    /// What a vendor's code means.
    ErrorMeaning {
        RateLimited = "rate_limited": "Too many requests: cool down.",
        Overloaded = "overloaded": "The upstream is overloaded.",
        QuotaExhausted = "quota_exhausted": "The account's quota is used up.",
        InvalidCredential = "invalid_credential": "The credential is refused.",
        InvalidRequest = "invalid_request": "The caller's mistake: returned as it is.",
        ContentPolicy = "content_policy": "Refused for its content: returned as it is.",
        ContextLengthExceeded = "context_length_exceeded": "Too long for the model.",
        Failed = "failed": "The upstream failed.",
    }
}

word_or! {
    /// How many requests an account serves at once.
    Concurrency {
        Auto = "auto": "Learnt from the upstream's answers.",
        Slots(u32): "That many."
    }
}

word_or! {
    /// A circuit breaker, or none.
    Breaker {
        Off = "off": "No breaker.",
        On(BreakerRule): "Opens by this rule."
    }
}

record! {
    /// One upstream identity.
    Account {
        /// Unique name.
        name: String,
        /// Whose API this is.
        provider: Provider,
        /// Where it is: host, host/, host/v1, host/v1/ and host/v1/chat/completions mean the same; other paths are taken as they are.
        (shown "the provider's public address; required for openai_compatible and switchboard")
        base_url: Option<String>,
        /// The whole address of one call, with {base_url}, {model}, {deployment} (the same: the target's model, percent-encoded), instead of the usual paths: of the call whose usual path it ends with (such as /audio/transcriptions or /count_tokens), else of answers. The account is asked for nothing else.
        url_template: Option<String>,
        /// The API key, by reference.
        (shown "required, unless `oauth` is given")
        credential: Option<SecretRef>,
        /// The header that carries the credential, where it is not the provider's usual one.
        credential_header: Option<CredentialHeader>,
        /// Sign-in at one of `oauth_providers` instead of a key.
        oauth: Option<AccountOauth>,
        /// The wire formats it speaks.
        (shown "by provider")
        dialects: Option<Vec<Dialect>>,
        /// How it is reached.
        transport: Transport = Transport::Http,
        /// Whether it may be used.
        status: AccountStatus = AccountStatus::Active,
        /// Requests at once, or `auto` to learn it.
        (shown "no limit")
        concurrency: Option<Concurrency>,
        /// Soft preference, a term of the score: lower is preferred.
        priority: u32 = 0,
        /// What the upstream allows this account.
        limits: Option<Limits>,
        /// What an upstream model costs us here; absent ones cost list price × cost_factor.
        costs: BTreeMap<String, Price>,
        /// What we pay, relative to list price.
        cost_factor: Multiplier = Multiplier::ONE,
        /// A fee per window instead of a cost per token.
        flat_cost: Option<FlatCost>,
        /// How long it rests after failures that are its own.
        cooldown: Option<Cooldown>,
        /// The circuit breaker of its targets.
        (shown "on")
        breaker: Option<Breaker>,
        /// Active health checks.
        probe: Option<Probe>,
        /// Rolling quotas of the subscription behind it.
        windows: Vec<Window>,
        /// How stream events are gathered before they are passed on.
        (shown "passed on at once")
        gather: Option<Gather>,
        /// A proxy to reach it through: http, https, socks5 (we resolve names) or socks5h (it does); `env:NAME` or `file:PATH` where its address has a password.
        proxy: Option<String>,
        /// Whether its address may be private or loopback.
        allow_private_address: bool = false,
        /// Which parameters it understands, under which name and range.
        parameters: Option<Parameters>,
        /// Vendor codes and what they mean.
        errors: Vec<ErrorRule>,
    }
}

record! {
    /// The header that carries a credential.
    CredentialHeader {
        /// Header name.
        name: String,
        /// Its value, with `{secret}` where the secret goes.
        format: String = "{secret}".to_owned(),
    }
}

record! {
    /// An account's sign-in.
    AccountOauth {
        /// One of `oauth_providers`.
        provider: String,
    }
}

record! {
    /// A fee per window.
    FlatCost {
        /// The window's length.
        every: Duration,
        /// The fee in USD.
        amount: Amount,
    }
}

record! {
    /// An account's rest after failures.
    Cooldown {
        /// The longest rest; `0s`: it never rests.
        max: Duration = Duration::from_secs(600),
    }
}

record! {
    /// When a breaker opens and closes (SCHED-8).
    BreakerRule {
        /// Share of failures that opens it.
        failures: Percent = Percent::from_millionths(500_000),
        /// Least number of requests in the window.
        of: u32 = 20,
        /// The window.
        within: Duration = Duration::from_secs(30),
        /// How long it stays open.
        open_for: Duration = Duration::from_secs(30),
        /// Requests let through to try.
        probes: u32 = 5,
        /// Share of these that must succeed.
        close_at: Percent = Percent::from_millionths(800_000),
        /// A first byte so much later than usual counts as a failure.
        slow_first_byte: Duration = Duration::from_secs(3),
    }
}

record! {
    /// Active health checks.
    Probe {
        /// Path to ask for, from the host's root.
        path: String,
        /// How often.
        every: Duration = Duration::from_secs(15),
        /// Failures in a row that eject it.
        eject_after: u32 = 3,
        /// Successes in a row that bring it back.
        return_after: u32 = 2,
    }
}

record! {
    /// Gathering of stream events.
    Gather {
        /// At most so many together.
        events: u32 = 4,
        /// At most so long.
        wait: Duration = Duration::from_millis(25),
    }
}

record! {
    /// What parameters a server understands (FWD-11).
    Parameters {
        /// Parameters it takes (`tools` and `stop` are some, too). What a request is made of, such as `model`, `messages`,
        /// `input` and `stream`, is always taken. Named as in the account's dialect; those inside `generationConfig` without it.
        (shown "everything passes through")
        supported: Option<Vec<String>>,
        /// Names of the account's dialect to those of its server.
        rename: BTreeMap<String, String>,
        /// Ranges that differ.
        rescale: BTreeMap<String, Rescale>,
        /// Our roles to its roles.
        roles: BTreeMap<String, String>,
        /// What happens to an unsupported parameter.
        (shown "defaults.unsupported")
        unsupported: Option<Unsupported>,
    }
}

record! {
    /// A parameter's change of range.
    Rescale {
        /// What callers send.
        from: Range,
        /// What the server takes.
        to: Range,
    }
}

record! {
    /// A vendor's code, also inside a 200 (DIAL-4).
    ErrorRule {
        /// JSON path in the answer's body; it begins with `$`, as in `$.error.code`.
        path: String,
        /// The value there.
        equals: Option<String>,
        /// The whole value there, instead: `*` stands for any text, capitals count, nothing else is special.
        matches: Option<String>,
        /// What it means.
        means: ErrorMeaning,
    }
}

record! {
    /// Where accounts sign in; always your own client.
    OauthProvider {
        /// Unique name.
        name: String,
        /// How accounts sign in.
        flow: OauthFlow,
        /// Where a person signs in.
        (shown "required for authorization_code and device_code")
        authorize_url: Option<String>,
        /// Where tokens are issued.
        token_url: String,
        /// Your client's id, literal or by reference.
        client_id: String,
        /// What is asked for.
        scopes: Vec<String>,
    }
}
