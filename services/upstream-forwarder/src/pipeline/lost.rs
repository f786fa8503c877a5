//! What an earlier process left open without having counted its input: counted now, and settled (SPEC BILL-6).

use std::sync::Arc;

use switchboard_proto::billing::v1::Settlement;
use tokio_util::sync::CancellationToken;

use super::{Conductor, settle::hand_over};
use crate::{domain::settlement, journal::Lost};

impl Conductor {
    /// One by one: so much counting never holds up a settlement's, and only one prompt is in memory. `killed` leaves the others
    /// to the next process. The courier has promised a place, so that it does not end before: that is given back.
    pub(crate) async fn settle_lost(self: Arc<Self>, killed: CancellationToken) {
        let work = async {
            while let Some(lost) = self.journal.lost().await {
                let settlement = self.with_counted_input(lost).await;
                hand_over(&self, settlement).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = killed.cancelled() => {}
        }
        self.money.withdraw();
    }

    /// What cannot be counted stays estimated.
    async fn with_counted_input(&self, lost: Lost) -> Settlement {
        let Lost {
            settlement,
            question,
        } = lost;
        let bound = self.config.count_input;
        let count = move || Some(question?.prompt()?.tokens(bound));
        match self.tokens.run(count).await.flatten() {
            Some(input) => {
                self.meters.prompts_counted.inc();
                settlement::with_input(settlement, input)
            }
            None => {
                tracing::warn!(request_id = %settlement.request_id, "what a request asked that was left open cannot be read; its input stays estimated");
                settlement
            }
        }
    }
}
