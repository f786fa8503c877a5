//! The catalogue that both Switchboards serve: everything that a request can pass is on, and nothing of it ever refuses.

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::workload::Workload;

/// The tenant that pays.
pub const TENANT: &str = "bench";
/// Its opening balance.
pub const BALANCE_NANOS: i64 = 1_000_000 * 1_000_000_000;
/// Environment variables of secrets.
pub const KEY_VARIABLE: &str = "BENCH_CALLER_KEY";
pub const UPSTREAM_VARIABLE: &str = "BENCH_UPSTREAM_KEY";

/// What callers pay and what we pay, nano-USD a token: 2.50 and 10.00, 2.00 and 8.00 USD per 1,000,000 tokens.
const PRICE: (i64, i64) = (2_500, 10_000);
const COST: (i64, i64) = (2_000, 8_000);
/// The group's multiplier, in hundredths.
const MULTIPLIER_HUNDREDTHS: i64 = 120;

/// What one answer is charged, nano-USD.
pub fn charge_nanos(workload: Workload) -> i64 {
    line(workload, PRICE) * MULTIPLIER_HUNDREDTHS / 100
}

/// What one answer costs us, nano-USD.
pub fn cost_nanos(workload: Workload) -> i64 {
    line(workload, COST)
}

fn line(workload: Workload, (input, output): (i64, i64)) -> i64 {
    workload.input_tokens().cast_signed() * input + workload.output_tokens().cast_signed() * output
}

/// The file.
pub fn text(upstream: SocketAddr, workloads: &[Workload]) -> String {
    let mut costs = String::new();
    let mut models = String::new();
    let mut names = Vec::new();
    for workload in workloads {
        let (public, upstream) = (workload.public_model(), workload.upstream_model());
        // Writing to a text cannot fail.
        let _ = writeln!(costs, "      {upstream}: {{input: 2.00, output: 8.00}}");
        let _ = write!(
            models,
            "  - name: {public}
    context_window: 128000
    max_output: 4096
    price: {{input: 2.50, cached_input: 1.25, output: 10.00}}
    targets: [{{account: upstream, model: {upstream}}}]
"
        );
        names.push(public);
    }
    let names = names.join(", ");
    format!(
        "version: 1
accounts:
  - name: upstream
    provider: openai_compatible
    base_url: http://{upstream}/v1
    allow_private_address: true
    credential: env:{UPSTREAM_VARIABLE}
    dialects: [openai.chat]
    concurrency: 20000
    limits: {{requests_per_minute: 60000000, tokens_per_minute: 6000000000}}
    costs:
{costs}models:
{models}groups:
  - name: standard
    models: [{names}]
    multiplier: 1.2
    limits: {{per_user: {{concurrency: 20000}}}}
tenants:
  - name: {TENANT}
    balance: 1000000.00
    hold: strict
    budgets: [{{window: month, amount: 1000000.00}}]
    users:
      - {{email: ana@bench.example, limits: {{concurrency: 20000}}}}
    keys:
      - name: load
        secret: env:{KEY_VARIABLE}
        group: standard
        user: ana@bench.example
        limits: {{requests_per_minute: 60000000, tokens_per_minute: 6000000000, concurrency: 20000}}
        budgets: [{{window: day, amount: 1000000.00}}]
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_exact() {
        // (10 × 2,500 + 16 × 10,000) × 1.2 and 10 × 2,000 + 16 × 8,000.
        assert_eq!(charge_nanos(Workload::Whole), 222_000);
        assert_eq!(cost_nanos(Workload::Whole), 148_000);
    }
}
