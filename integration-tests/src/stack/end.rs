//! The end of every scenario: nothing may be left over (DESIGN §8).

use switchboard_common::grpc::Role;

use super::{PATIENCE, Stack, Topology};

impl Stack {
    /// Waits until nothing runs any more, checks that nothing is left over and that the ledger balances, and ends all
    /// parts.
    ///
    /// # Panics
    /// Something is left over; the message says what.
    pub async fn finish(mut self) {
        self.check_end().await;
        self.finished = true;
        // Those that ask end before those that are asked.
        while let Some(part) = self.parts.pop() {
            let name = part.data_dir().display().to_string();
            assert!(part.stop().await, "{name} did not end by itself");
        }
        if let Some((_, life)) = self.own_state.take() {
            life.kill();
        }
    }

    /// What [`finish`](Self::finish) checks, without ending anything.
    ///
    /// # Panics
    /// Something is left over; the message says what.
    pub async fn check_end(&self) {
        let mut left = String::new();
        let nothing = async {
            loop {
                left = self.left_over().await;
                if left.is_empty() {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, nothing).await.is_err() {
            panic!("left over: {left}");
        }
        let ledger = self.verify().await;
        assert!(
            ledger.balanced,
            "the ledger does not balance: {:?}",
            ledger.problems
        );
        assert_eq!(
            ledger.dead_letters, 0,
            "settlements lie in the dead-letter table"
        );
        self.check_logs();
    }

    /// What still runs or is held, by name; empty: nothing.
    async fn left_over(&self) -> String {
        let gauges = [
            (Role::Edge, "switchboard_edge_requests_in_flight"),
            (Role::Forwarder, "switchboard_forwarder_in_flight_requests"),
            (Role::Forwarder, "switchboard_forwarder_buffered_bytes"),
            (Role::Forwarder, "switchboard_forwarder_request_body_bytes"),
            (
                Role::Forwarder,
                "switchboard_journal_unacknowledged_settlements",
            ),
            (Role::Scheduler, "switchboard_queue_waiters"),
            (Role::Billing, "switchboard_settlement_queue_items"),
        ];
        let mut left = Vec::new();
        for (role, name) in gauges {
            let value = self.metric(role, name).await;
            if value > 0 {
                left.push(format!("{name} {value}"));
            }
        }
        if let Some(state) = self.state() {
            match state.gauges().await {
                Ok(gauges) => {
                    if gauges.held_leases > 0 {
                        left.push(format!("{} leases", gauges.held_leases));
                    }
                    if gauges.open_holds > 0 {
                        left.push(format!("{} holds", gauges.open_holds));
                    }
                    if gauges.status.backlog > 0 {
                        left.push(format!("{} in the state's backlog", gauges.status.backlog));
                    }
                }
                Err(error) => left.push(format!("the state store: {error}")),
            }
        } else {
            let held = self.metric(Role::Scheduler, "switchboard_slots_held").await;
            if held > 0 {
                left.push(format!("{held} leases"));
            }
        }
        let holds = self.verify().await.open_holds;
        if holds > 0 {
            left.push(format!("{holds} open holds"));
        }
        let running = self.upstream.log().in_flight;
        if running > 0 {
            left.push(format!("{running} requests at the upstream"));
        }
        left.join(", ")
    }

    /// No secret may stand in a log.
    fn check_logs(&self) {
        let secrets = [
            "caller-secret-of-",
            "upstream-secret-of-",
            self.admin_token.as_str(),
        ];
        let programs = self.parts.iter().filter_map(super::part::Part::as_program);
        for program in programs {
            let log = program.log();
            for secret in secrets {
                let line = log.lines().find(|line| line.contains(secret));
                assert!(line.is_none(), "a secret stands in a log: {line:?}");
            }
            assert!(
                !log.contains("panicked at"),
                "a panic: {}",
                program.log_tail()
            );
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for part in &self.parts {
                if let Some(program) = part.as_program() {
                    #[expect(
                        clippy::print_stderr,
                        reason = "a failed test shows what its programs said"
                    )]
                    {
                        eprintln!("---- {}", program.log_tail());
                    }
                }
            }
        } else {
            assert!(
                self.finished,
                "a {:?} stack was dropped without `finish`: nobody checked what is left over",
                self.topology
            );
            debug_assert!(self.topology != Topology::Split || self.stores.is_some());
        }
    }
}
