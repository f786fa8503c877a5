//! How long an upstream asks us to wait.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::MAX_RETRY_AFTER;

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn seconds(value: f64) -> Option<Duration> {
    if value.is_nan() || value < 0.0 {
        return None;
    }
    Duration::try_from_secs_f64(value)
        .ok()
        .map(|d| d.min(MAX_RETRY_AFTER))
        .or(Some(MAX_RETRY_AFTER))
}

/// The delay of `retry-after-ms` (which wins in all SDKs), `retry-after` (seconds, also fractions, or an HTTP date), or
/// the latest reset of an `x-ratelimit-*` limit of which nothing remains; at most [`MAX_RETRY_AFTER`].
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    if let Some(ms) = header(headers, "retry-after-ms").and_then(|v| v.parse::<f64>().ok())
        && let Some(delay) = seconds(ms / 1000.0)
    {
        return Some(delay);
    }
    if let Some(value) = header(headers, "retry-after") {
        if let Ok(number) = value.parse::<f64>() {
            if let Some(delay) = seconds(number) {
                return Some(delay);
            }
        } else if let Ok(date) = httpdate::parse_http_date(value) {
            return Some(
                date.duration_since(now)
                    .unwrap_or_default()
                    .min(MAX_RETRY_AFTER),
            );
        }
    }
    ["requests", "tokens"]
        .into_iter()
        .filter(|kind| header(headers, &format!("x-ratelimit-remaining-{kind}")) == Some("0"))
        .filter_map(|kind| {
            header(headers, &format!("x-ratelimit-reset-{kind}")).and_then(go_duration)
        })
        .max()
}

/// A duration in Go's notation (`6ms`, `1s`, `6m0s`, `1h2m3.5s`); a plain number is seconds (Azure).
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        return seconds(number);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().ok()?;
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = tail;
    }
    seconds(total)
}
