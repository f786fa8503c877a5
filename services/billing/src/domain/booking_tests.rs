use std::collections::HashMap;

use proptest::prelude::*;
use switchboard_proto::billing::v1::Attempt;

use super::*;

fn settlement(id: RequestId, output: u64, provisional: bool, fingerprint: u8) -> Settlement {
    Settlement {
        request_id: id.to_string(),
        fingerprint: vec![fingerprint].into(),
        party: Some(Party {
            tenant: "acme".to_owned(),
            key_id: "k".to_owned(),
            ..Party::default()
        }),
        usage: Some(Usage {
            output_tokens: Some(output),
            ..Usage::default()
        }),
        attempts: vec![Attempt {
            account: format!("account-{}", output % 2),
            usage: Some(Usage {
                output_tokens: Some(output),
                ..Usage::default()
            }),
            ..Attempt::default()
        }],
        provisional,
        price_version: 1,
        ..Settlement::default()
    }
}

fn price(settlement: Settlement) -> Result<Priced, Box<Refused>> {
    let price = Rates {
        output: Some(2_000_000),
        ..Rates::default()
    };
    let cost = Arc::new(Rates {
        output: Some(1_000_000),
        ..Rates::default()
    });
    Valid::new(settlement)?.price(Some(&price), |_| Some(Arc::clone(&cost)))
}

fn id(number: u8) -> RequestId {
    RequestId::from(
        uuid::Builder::from_unix_timestamp_millis(1_796_000_000_000, &[number; 10]).into_uuid(),
    )
}

/// A settlement of audio, and what it is priced and stored as.
fn heard(usage: Usage, told: u64, seconds: Option<i64>) -> (i64, i64, Option<u64>, UsageSource) {
    let mut audio = settlement(id(1), 0, false, 1);
    audio.usage = Some(usage);
    audio.usage_source = UsageSource::Provider as i32;
    audio.attempts[0].usage = Some(usage);
    audio.audio_millis = told;
    let price = Rates {
        input: Some(1_000_000),
        per_second: seconds,
        ..Rates::default()
    };
    let cost = Arc::new(Rates {
        per_second: Some(50_001),
        ..Rates::default()
    });
    let priced = Valid::new(audio)
        .unwrap()
        .price(Some(&price), |_| Some(Arc::clone(&cost)))
        .unwrap();
    let stored = &priced.valid.settlement;
    (
        priced.amounts.charge_nanos,
        priced.amounts.cost_nanos,
        stored.usage.unwrap().audio_millis,
        stored.usage_source(),
    )
}

#[test]
fn seconds_that_are_priced_but_not_told_are_those_of_the_requests_own_audio() {
    let tokens = Usage {
        input_tokens: Some(14),
        ..Usage::default()
    };
    let seconds = Usage {
        audio_millis: Some(1_500),
        ..Usage::default()
    };
    // Half to even, once a line: 150,001.5 and 75,001.5.
    let told = heard(seconds, 9_000, Some(100_001));
    assert_eq!(told, (150_002, 75_002, Some(1_500), UsageSource::Provider));
    let measured = heard(tokens, 2_500, Some(100_001));
    let (charge, cost) = (14 + 250_002, 125_002);
    assert_eq!(
        measured,
        (charge, cost, Some(2_500), UsageSource::Estimated)
    );
    // Where the price has no seconds the report stays as it was; the cost has its own measure.
    let by_tokens = heard(tokens, 2_500, None);
    assert_eq!(by_tokens, (14, cost, None, UsageSource::Provider));
}

#[test]
fn nonsense_is_named() {
    let broken = |change: fn(&mut Settlement)| {
        let mut wrong = settlement(id(1), 1, false, 1);
        change(&mut wrong);
        Valid::new(wrong).unwrap_err().to_string()
    };
    assert!(broken(|s| s.request_id = "x".to_owned()).contains("no UUID"));
    assert!(
        broken(|s| s.request_id = "9b2f7c1e-0000-4000-8000-000000000000".to_owned())
            .contains("UUIDv7")
    );
    assert!(broken(|s| s.party = None).contains("party"));
    assert!(broken(|s| s.attempts = vec![Attempt::default(); 2]).contains("same number"));
    assert!(
        broken(|s| s.usage = Some(Usage {
            images: Some(u64::MAX),
            ..Usage::default()
        }))
        .contains("10^12")
    );
}

#[test]
fn each_model_of_an_answer_is_charged_and_costs_at_its_own_sheet() {
    let part = |output: u64, price_version: u64, cost_version: u64| ModelUsage {
        model: "m".to_owned(),
        usage: Some(Usage {
            output_tokens: Some(output),
            ..Usage::default()
        }),
        price_version,
        cost_version,
    };
    let mut several = settlement(id(1), 30, false, 1);
    several.models = vec![part(10, 7, 8), part(15, 0, 0), part(5, 99, 99)];
    let rates = |output: i64, per_request: i64| Rates {
        output: Some(output),
        per_request: Some(per_request),
        ..Rates::default()
    };
    let own = rates(2_000_000, 100);
    let other = Arc::new(rates(9_000_000, 5_000));
    let (cheap, cheaper) = (
        Arc::new(rates(1_000_000, 7)),
        Arc::new(rates(3_000_000, 70)),
    );
    // The attempt's own is 3's.
    several.attempts[0].cost_version = 3;
    let sheet = |version| match version {
        7 => Some(Arc::clone(&other)),
        8 => Some(Arc::clone(&cheaper)),
        3 => Some(Arc::clone(&cheap)),
        _ => None,
    };
    let priced = Valid::new(several).unwrap().price(Some(&own), sheet);
    // 10 × 9 + (15 + 5) × 2, and the request once
    let amounts = priced.unwrap().amounts;
    assert_eq!((amounts.charge_nanos, amounts.counted_tokens), (230, 30));
    // 10 × 3 + (15 + 5) × 1, and what the attempt's own model costs a request, once.
    assert_eq!(
        (amounts.cost_nanos, &amounts.attempt_costs),
        (57, &vec![57])
    );
}

#[test]
fn no_text_keeps_a_settlement_out_of_the_books() {
    let mut dirty = settlement(id(1), 1, false, 1);
    dirty.tags = "a\0b".to_owned();
    dirty.usage_raw = "é".repeat(MOST_TEXT);
    let valid = Valid::new(dirty).unwrap();
    assert_eq!(valid.settlement.tags, "a\u{FFFD}b");
    assert_eq!(valid.settlement.usage_raw.len(), MOST_TEXT);
}

#[test]
fn without_a_price_nothing_is_free() {
    let valid = Valid::new(settlement(id(1), 1, false, 1)).unwrap();
    assert_eq!(
        valid.price(None, |_| None).unwrap_err().problem,
        Problem::Unpriced(1)
    );
    let mut free = settlement(id(1), 1, false, 1);
    free.charge_nothing = true;
    let priced = Valid::new(free).unwrap().price(None, |_| None).unwrap();
    assert_eq!(
        (priced.amounts.charge_nanos, priced.amounts.counted_tokens),
        (0, 0)
    );
}

#[test]
fn every_attempt_costs_its_own() {
    let mut two = settlement(id(1), 10, false, 1);
    two.attempts.push(Attempt {
        number: 1,
        account: "other".to_owned(),
        usage: Some(Usage {
            output_tokens: Some(3),
            ..Usage::default()
        }),
        ..Attempt::default()
    });
    let priced = price(two).unwrap();
    assert_eq!(priced.amounts.attempt_costs, [10, 3]);
    assert_eq!(
        (priced.amounts.charge_nanos, priced.amounts.cost_nanos),
        (20, 13)
    );
}

/// The books as a map: the store's algorithm without a store.
#[derive(Default)]
struct Books {
    rows: HashMap<RequestId, Recorded>,
    wallet: Wallet,
    entries: Vec<Entry>,
    counted: i64,
    conflicts: usize,
}

impl Books {
    fn settle(&mut self, priced: &Priced) {
        let movement = match self.rows.get(&priced.valid.id) {
            None => priced.whole(),
            Some(recorded) => match priced.beside(recorded) {
                Fate::Replace(movement) => movement,
                Fate::Duplicate => return,
                Fate::Conflict => {
                    self.conflicts += 1;
                    return;
                }
            },
        };
        let entries = movement.post("acme", &mut self.wallet).unwrap();
        assert_eq!(
            entries.iter().map(|entry| entry.amount_nanos).sum::<i64>(),
            0
        );
        self.entries.extend(entries);
        self.counted += movement.counted_tokens;
        self.rows.insert(
            priced.valid.id,
            Recorded {
                key_id: priced.valid.party.key_id.clone(),
                fingerprint: priced.valid.settlement.fingerprint.to_vec(),
                provisional: priced.valid.settlement.provisional,
                charge_nanos: priced.amounts.charge_nanos,
                counted_tokens: priced.amounts.counted_tokens,
                costs: priced.amounts.costs.clone(),
            },
        );
    }
}

proptest! {
    /// Whatever comes in whatever order, however often: each request is charged its final settlement once, or its first
    /// provisional one where no final one came.
    #[test]
    fn every_request_is_charged_once(
        events in proptest::collection::vec((0_u8..4, 0_u64..3, any::<bool>(), 0_u8..20), 0..60),
        opening in 0_i64..200,
    ) {
        let mut books = Books { wallet: Wallet { prepaid: true, balance_nanos: opening, overrun_nanos: 0 }, ..Books::default() };
        let mut expected: HashMap<u8, (bool, u64)> = HashMap::new();
        for (number, output, provisional, forged) in events {
            // One in twenty claims an id for another request.
            let conflicting = forged == 0 && expected.contains_key(&number);
            let fingerprint = if conflicting { 2 } else { 1 };
            books.settle(&price(settlement(id(number), output * 10, provisional, fingerprint)).unwrap());
            if !conflicting {
                match expected.get(&number) {
                    Some((true, _)) if !provisional => { expected.insert(number, (false, output)); }
                    Some(_) => {}
                    None => { expected.insert(number, (provisional, output)); }
                }
            }
        }
        let tokens: i64 = expected.values().map(|(_, output)| i64::try_from(output * 10).unwrap()).sum();
        let of = |prefix: &str| books.entries.iter().filter(|entry| entry.account.starts_with(prefix)).map(|entry| entry.amount_nanos).sum::<i64>();
        prop_assert_eq!(of("revenue"), 2 * tokens);
        prop_assert_eq!(of("provider:"), tokens);
        prop_assert_eq!(of("cost"), -tokens);
        prop_assert_eq!(books.wallet.worth(), opening - 2 * tokens);
        prop_assert_eq!(of("balance:") + opening, books.wallet.balance_nanos);
        prop_assert_eq!(of("overrun:"), books.wallet.overrun_nanos);
        prop_assert_eq!(books.counted, tokens);
    }
}
