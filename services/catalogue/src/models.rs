//! Public models: what callers may write in `model`, and which targets serve it (ROUTE-2).

use crate::amount::{Multiplier, Percent};
use crate::dialect::Dialect;
use crate::duration::Duration;
use crate::limits::Limits;
use crate::notation::{record, word_or, words};
use crate::prices::Price;

words! {
    /// What happens to a parameter that the upstream does not understand (FWD-11).
    Unsupported {
        Drop = "drop": "Dropped, and named to the caller.",
        Reject = "reject": "400 that names it.",
    }
}

words! {
    /// Who may use a model.
    ModelStatus {
        Active = "active": "Whoever has it in the group.",
        Draft = "draft": "Admins only.",
        Disabled = "disabled": "Nobody.",
    }
}

words! {
    /// What a model can do.
    Capability {
        Stream = "stream": "Streaming.",
        Tools = "tools": "Tool calls.",
        Vision = "vision": "Images in.",
        Json = "json": "Structured output.",
        Reasoning = "reasoning": "Reasoning.",
        Embeddings = "embeddings": "Embeddings.",
        Images = "images": "Images out.",
        Audio = "audio": "Audio.",
    }
}

words! {
    /// What happens over a model's warning line.
    WarningAction {
        Header = "header": "A header says so.",
        Refuse = "refuse": "400 with the numbers.",
        Reroute = "reroute": "The request goes to `long_context`.",
    }
}

word_or! {
    /// When headers go out at the latest.
    CommitAfter {
        Never = "never": "Not before the first content.",
        After(Duration): "After so long."
    }
}

word_or! {
    /// Where requests wait when all is full.
    Queue {
        None = "none": "Nowhere: 429 at once.",
        Bounded(QueueBound): "In a bounded queue."
    }
}

record! {
    /// What holds for all models that say nothing else.
    Defaults {
        /// Time limits.
        timeouts: Option<Timeouts>,
        /// When headers and keep-alives go out at the latest; `never`.
        (shown "15s")
        commit_after: Option<CommitAfter>,
        /// What happens to a parameter that an upstream does not understand.
        unsupported: Unsupported = Unsupported::Drop,
    }
}

record! {
    /// Separate time limits (FWD-8).
    Timeouts {
        /// Until connected.
        (shown "5s")
        connect: Option<Duration>,
        /// Until the upstream's first byte.
        (shown "60s")
        first_byte: Option<Duration>,
        /// Between two reads of the upstream's bytes.
        (shown "60s")
        idle: Option<Duration>,
        /// Until the caller takes a byte.
        (shown "60s")
        write: Option<Duration>,
        /// For the whole request.
        (shown "15m")
        total: Option<Duration>,
    }
}

record! {
    /// One public model.
    Model {
        /// What callers write; with `*` a pattern that stands for all names of its kind.
        name: String,
        /// Other names of the same model.
        aliases: Vec<String>,
        /// Who may use it.
        status: ModelStatus = ModelStatus::Active,
        /// Caller dialects.
        (shown "all that its targets can serve")
        accepts: Option<Vec<Dialect>>,
        /// Tokens that input and output may have together, as lists of models tell it; no request is refused for it yet.
        (shown "not declared")
        context_window: Option<u64>,
        /// Tokens of output at most.
        (shown "not declared")
        max_output: Option<u64>,
        /// How tokens are counted when an upstream does not say.
        (shown "o200k_base")
        tokenizer: Option<String>,
        /// A line in the context window, and what happens over it.
        warning_line: Option<WarningLine>,
        /// The model for requests that are too long for this one.
        long_context: Option<String>,
        /// What it can do.
        (shown "not checked")
        capabilities: Option<Vec<Capability>>,
        /// What callers pay.
        (shown "one of price and price_list is required")
        price: Option<Price>,
        /// The price list that has its price.
        price_list: Option<String>,
        /// Who serves it.
        targets: Vec<Target>,
        /// The model to go to when no target can serve.
        fallback: Option<String>,
        /// Attempts at most, the first one included.
        (shown "3")
        max_attempts: Option<u32>,
        /// Where requests wait when all is full.
        queue: Option<Queue>,
        /// Limits of all its traffic.
        limits: Option<Limits>,
        /// Time limits, where they differ from `defaults`.
        (shown "defaults.timeouts")
        timeouts: Option<Timeouts>,
        /// When headers go out at the latest, where it differs from `defaults`.
        (shown "defaults.commit_after")
        commit_after: Option<CommitAfter>,
        /// New targets that get a share of the traffic.
        canary: Option<Canary>,
    }
}

record! {
    /// One way to serve a model (ROUTE-4).
    Target {
        /// The account.
        account: String,
        /// The model's name there.
        (shown "the public name")
        model: Option<String>,
        /// Its part of the tier's traffic; 0 drains it.
        weight: u32 = 1,
        /// Tier 0 serves first; a later one only when no target of an earlier one is usable.
        tier: u32 = 0,
    }
}

record! {
    /// A line in the context window.
    WarningLine {
        /// Input tokens.
        tokens: u64,
        /// What happens over it.
        action: WarningAction = WarningAction::Header,
    }
}

record! {
    /// A bounded queue.
    QueueBound {
        /// Requests that may wait.
        depth: u32 = 2000,
        /// How long one waits at most.
        wait: Duration = Duration::from_secs(30),
    }
}

record! {
    /// A canary (ROUTE-5).
    Canary {
        /// The new targets.
        targets: Vec<Target>,
        /// Their share of the traffic to begin with.
        share: Percent = Percent::from_millionths(50_000),
        /// The shares it grows through.
        steps: Vec<Percent>,
        /// How long it stays at each.
        dwell: Duration = Duration::from_secs(1800),
        /// Requests needed to judge it.
        sample: u32 = 200,
        /// Tenants that always go there.
        tenants: Vec<String>,
        /// When it is taken back.
        rollback_if: Option<RollbackRule>,
    }
}

record! {
    /// When a canary is taken back.
    RollbackRule {
        /// Error rate above the stable arm's by so many points.
        error_rate_above: Option<Percent>,
        /// First-token time above the stable arm's by this factor.
        first_token_above: Option<Multiplier>,
    }
}
