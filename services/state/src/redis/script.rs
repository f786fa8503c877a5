//! The scripts, with what they share in front.

/// A script and the name that the server knows it by.
pub(crate) struct Script {
    pub(crate) code: &'static str,
    pub(crate) hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self {
            code,
            hash: redis::Script::new(code).get_hash().to_owned(),
        }
    }
}

macro_rules! scripts {
    ($($name:ident: $($file:literal),+;)+) => {
        /// All scripts.
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)+
        }

        impl Scripts {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: Script::new(concat!($(include_str!(concat!("scripts/", $file, ".lua")), "\n"),+)),)+
                }
            }
        }
    };
}

scripts! {
    take: "place", "take";
    release: "place", "release";
    renew: "place", "renew";
    usage: "place", "usage";
    look: "place", "look";
    reserve: "ledger", "reserve";
    settle: "ledger", "settle";
    touch: "ledger", "touch";
    stale: "ledger", "stale";
    sums: "ledger", "sums";
    cache_get: "cache_get";
    cache_put: "cache_put";
    cache_floor: "cache_floor";
    observe: "health", "observe";
    cool: "health", "cool";
    reset: "health", "reset";
    snapshot: "health", "snapshot";
    marker: "marker";
    mark: "mark";
    index: "index";
    forget: "forget";
}
