//! What an earlier process left: its settlements are owed still, its open requests are lost.

use std::{collections::HashMap, fs, io};

use switchboard_proto::{billing::v1::Settlement, common::v1::UsageSource};

use super::{Place, Segments, Standing};
use crate::journal::{
    Lost, Recovered,
    files::{self, SEGMENTS},
    prompts::{self, Left},
    record::{self, Kind},
};

impl Segments {
    /// Reads segments back. What requests asked that are still to be counted is in `left`.
    pub(super) fn recover(
        &mut self,
        found: &[u64],
        left: &HashMap<String, Left>,
    ) -> io::Result<Recovered> {
        let mut recovered = Recovered::default();
        // In order of their first record, so that the oldest is settled first.
        let mut order = Vec::new();
        let mut owed: HashMap<String, Settlement> = HashMap::new();
        for &segment in found {
            let bytes = fs::read(files::path(&self.directory, segment, SEGMENTS))?;
            self.sizes.entry(segment).or_default().bytes = bytes.len() as u64;
            recovered.damaged += record::scan(&bytes, |range, record| {
                let place = |settled| Place {
                    segment,
                    at: range.start as u64,
                    length: range.len() as u64,
                    standing: Standing {
                        settled,
                        input_known: !record.guessed,
                        ..Standing::default()
                    },
                };
                match record.kind {
                    Some(Kind::Draft(draft)) => {
                        // A draft after the settlement is late news.
                        if !self.is_settled(&draft.request_id) {
                            self.place(&draft.request_id, place(false));
                            order.push(draft.request_id.clone());
                            owed.insert(draft.request_id.clone(), draft);
                        }
                    }
                    Some(Kind::Settled(settlement)) => {
                        self.place(&settlement.request_id, place(true));
                        order.push(settlement.request_id.clone());
                        owed.insert(settlement.request_id.clone(), settlement);
                    }
                    Some(Kind::Acknowledged(ids)) => {
                        for id in ids.ids {
                            self.forget(&id);
                            owed.remove(&id);
                        }
                    }
                    Some(Kind::Prompt(_)) | None => {}
                }
            });
        }
        for id in order {
            let Some(mut settlement) = owed.remove(&id) else {
                continue;
            };
            recovered.owed += 1;
            if !self.is_settled(&id) {
                recovered.lost += 1;
                match left.get(&id).filter(|_| self.is_to_count(&settlement)) {
                    Some(Left::Sealed(prompt)) => {
                        // It stays open until it is counted and settled: if this process dies before, the next one does it.
                        self.claim(id, *prompt);
                        recovered.uncounted += 1;
                        continue;
                    }
                    Some(Left::OtherKey) => recovered.other_key += 1,
                    None => {}
                }
                // Nobody else will ever say more about this request: its last word is final.
                settlement.provisional = false;
            }
            // Written anew, in order, to be loaded by who hands it to billing.
            self.settled(&settlement, true);
        }
        self.tidy_prompts();
        self.flush()?;
        self.current.sync_data()?;
        self.unsynced = None;
        Ok(recovered)
    }

    /// Whether the input of an open request is charged and only guessed from its bytes.
    fn is_to_count(&self, draft: &Settlement) -> bool {
        let place = self.live.get(&draft.request_id);
        let known = place.is_none_or(|place| place.standing.input_known);
        !known && draft.usage_source() == UsageSource::Estimated
    }

    /// What an earlier process left of an open request is to be counted.
    fn claim(&mut self, id: String, prompt: prompts::Place) {
        if let Some(place) = self.live.get_mut(&id) {
            place.standing.prompt = Some(prompt);
            self.prompts.claim(prompt);
            self.lost.push_back(id);
        }
    }

    /// Takes the oldest request that is to be counted.
    pub(in crate::journal) fn lost(&mut self) -> Option<Lost> {
        while let Some(id) = self.lost.pop_front() {
            let Some(place) = self.live.get(&id).copied() else {
                continue;
            };
            let read = self.read(place).map(|read| read.and_then(|it| it.kind));
            let Ok(Some(Kind::Draft(settlement))) = read else {
                // It stays as it is, for the next process.
                tracing::error!(request_id = %id, "an open request in the journal cannot be read");
                continue;
            };
            let prompt = place.standing.prompt;
            return Some(Lost {
                settlement: Settlement {
                    provisional: false,
                    ..settlement
                },
                question: prompt.and_then(|prompt| self.prompts.read(&id, prompt)),
            });
        }
        None
    }
}
