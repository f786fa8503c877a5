//! What admins may ask for, and what is said when they ask for something else.

use std::collections::HashSet;

use switchboard_common::error::{Failure, Reason};
use switchboard_proto::{
    billing::v1::{ApplyPricesRequest, Budget as WireBudget},
    common::v1::Actor,
};

use crate::{
    domain::{
        budget::{Budget, SubjectKind},
        rating,
        window::Span,
    },
    store::SheetText,
};

/// Sheets that can be stored.
pub(super) fn sheets(request: ApplyPricesRequest) -> Result<(Actor, Vec<SheetText>), Failure> {
    let actor = actor(request.actor)?;
    let mut seen = HashSet::new();
    let mut sheets = Vec::with_capacity(request.sheets.len());
    for sheet in request.sheets {
        let named = |what: &str, expected: &str| {
            Failure::new(
                Reason::InvalidRequest,
                format!(
                    "sheets: {} sheet of `{}`: {what}: expected {expected}",
                    sheet.kind, sheet.subject
                ),
            )
            .param("sheets")
        };
        if !matches!(sheet.kind.as_str(), "price" | "cost") {
            return Err(named("kind", "price or cost"));
        }
        if sheet.subject.is_empty() {
            return Err(named(
                "subject",
                "the model's name, or account/upstream_model of a cost",
            ));
        }
        if !seen.insert((sheet.kind.clone(), sheet.subject.clone())) {
            return Err(named("subject", "each subject once"));
        }
        let rates = sheet.rates.unwrap_or_default();
        if let Some((name, _)) = rating::named(&rates)
            .iter()
            .find(|(_, rate)| rate.is_some_and(|rate| rate < 0))
        {
            return Err(named(name, "a rate that is not negative"));
        }
        if !rating::prices_something(&rates) {
            return Err(named("rates", "at least one rate; 0 makes it free"));
        }
        sheets.push(SheetText {
            kind: sheet.kind,
            subject: sheet.subject,
            rates,
        });
    }
    Ok((actor, sheets))
}

/// Budgets of these kinds.
pub(super) fn budgets(wire: &[WireBudget], kinds: &[SubjectKind]) -> Result<Vec<Budget>, Failure> {
    let mut seen = HashSet::new();
    wire.iter()
        .map(|budget| {
            let kind = SubjectKind::parse(&budget.subject_kind)
                .filter(|kind| kinds.contains(kind))
                .ok_or_else(|| {
                    let expected: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
                    invalid("budgets.subject_kind", &expected.join(", "))
                })?;
            if (kind == SubjectKind::Tenant) != budget.subject.is_empty() {
                return Err(invalid(
                    "budgets.subject",
                    "a user's e-mail, a key's or group's name; nothing for the tenant itself",
                ));
            }
            let span = Span::parse(&budget.window)
                .ok_or_else(|| invalid("budgets.window", "hour, day or month"))?;
            let tokens = budget
                .tokens
                .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
            if budget.amount_nanos.or(tokens).is_none()
                || budget.amount_nanos.is_some_and(|nanos| nanos < 0)
            {
                return Err(invalid(
                    "budgets",
                    "an amount that is not negative, or tokens, or both",
                ));
            }
            if !seen.insert((kind, budget.subject.clone(), span)) {
                return Err(invalid("budgets", "one budget per subject and window"));
            }
            Ok(Budget {
                kind,
                subject: budget.subject.clone(),
                span,
                amount_nanos: budget.amount_nanos,
                tokens,
                since_ms: 0,
            })
        })
        .collect()
}

/// Every change says who made it (ADM-4).
pub(super) fn actor(actor: Option<Actor>) -> Result<Actor, Failure> {
    actor
        .filter(|actor| !actor.name.is_empty())
        .ok_or_else(|| invalid("actor.name", "who makes the change"))
}

/// Names the field and what it should be.
pub(super) fn invalid(param: &str, expected: &str) -> Failure {
    Failure::new(
        Reason::InvalidRequest,
        format!("{param}: expected {expected}"),
    )
    .param(param)
}
