//! `inference.v1.Inference`: what comes in becomes a [`Call`] for the pipeline, what comes out of its pipe goes back.
//!
//! `Relay` is the edge's alone and is refused on the public server; the typed calls read their key from the metadata and
//! get a request id here. All of them take the same way.

mod answer;
mod embed;
mod generate;
mod intake;
mod models;
mod reply;

use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use switchboard_common::{
    error::{Failure, Reason},
    grpc::Answers,
    lifecycle::Lifecycle,
};
use switchboard_proto::inference::v1::{
    EmbedRequest, EmbedResponse, GenerateRequest, GenerateResponse, ListModelsRequest,
    ListModelsResponse, RelayRequest, RelayResponse, inference_server,
};
use tokio::time::{Instant, timeout};
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument as _, info_span};

use self::{intake::Intake, reply::with_request_id};
use crate::{
    caller::Caller,
    pipe::{Reader, pipe},
    pipeline::{Call, Conductor, run},
};

/// The service. Clones share it.
#[derive(Clone)]
pub struct Inference {
    conductor: Arc<Conductor>,
    lifecycle: Lifecycle,
    internal: bool,
}

impl Inference {
    pub(crate) fn new(conductor: &Arc<Conductor>, lifecycle: &Lifecycle, internal: bool) -> Self {
        Self {
            conductor: Arc::clone(conductor),
            lifecycle: lifecycle.clone(),
            internal,
        }
    }

    /// `Relay` for an edge in this process, which has the whole body.
    pub(crate) async fn relay_whole(
        self,
        request: RelayRequest,
    ) -> Result<Answers<RelayResponse>, Status> {
        self.relay_from(request, None).await
    }

    /// `rest` is where the other pieces of the body come from.
    async fn relay_from(
        &self,
        first: RelayRequest,
        rest: Option<Streaming<RelayRequest>>,
    ) -> Result<Answers<RelayResponse>, Status> {
        let turn = first.turn;
        let call = Intake::new(&self.conductor).relayed(first, rest)?;
        let answers = first_word(self.start(call, turn)?).await?;
        Ok(answers.boxed())
    }

    /// Starts a request as a task of its own; what it says comes out of the reader. Dropping the reader tells it that the
    /// caller left.
    fn start(&self, call: Call, turn: u32) -> Result<Reader, Status> {
        let conductor = &self.conductor;
        let config = &conductor.config;
        let (writer, reader) = pipe(config.stream_buffer, &conductor.buffers);
        let deadline = Instant::now() + config.total_timeout;
        let caller = Caller::new(writer, turn, deadline, config.write_timeout);
        let stopper = caller.stopper();
        let entered = conductor
            .roster
            .enter(&call.request_id, call.arrived_us, stopper);
        let Some(live) = entered else {
            return Err(intake::not_taken());
        };
        live.story(|story| story.request_id.clone_from(&call.request_id));
        let span = info_span!(
            target: "trace",
            "request",
            request_id = %call.request_id,
            gen_ai.operation.name = tracing::field::Empty,
            gen_ai.request.model = tracing::field::Empty,
        );
        let task = run(Arc::clone(conductor), call, caller, live);
        self.lifecycle
            .spawn("request", Box::pin(task.instrument(span)));
        Ok(reader)
    }
}

/// Waits for the first word of an answer, so that an error is the call's own status. Dropping this while it waits drops
/// the reader, and that tells the task.
async fn first_word(
    mut reader: Reader,
) -> Result<impl Stream<Item = Result<RelayResponse, Status>> + Send + 'static, Status> {
    let first = reader.next().await.transpose()?;
    let first = futures_util::stream::iter(first.map(Ok));
    Ok(first.chain(reader))
}

#[tonic::async_trait]
impl inference_server::Inference for Inference {
    type GenerateStream = Answers<GenerateResponse>;
    type RelayStream = Answers<RelayResponse>;

    async fn relay(
        &self,
        request: Request<Streaming<RelayRequest>>,
    ) -> Result<Response<Self::RelayStream>, Status> {
        if !self.internal {
            let text = "Relay is for the edge alone; callers have Generate and Embed";
            return Err(Failure::new(Reason::MethodNotAllowed, text).into());
        }
        let mut messages = request.into_inner();
        let first = timeout(self.conductor.config.body_idle, messages.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no head came"))??;
        let first = first.ok_or_else(|| Status::invalid_argument("no head came"))?;
        let answers = self.relay_from(first, Some(messages)).await?;
        Ok(Response::new(answers))
    }

    async fn generate(
        &self,
        request: Request<GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        let intake = Intake::of(&self.conductor, &request);
        let id = intake.request_id();
        let answer = async {
            let call = generate::call(intake, request.into_inner())?;
            let answers = first_word(self.start(call, 0)?).await?;
            generate::answers(answers).await
        };
        let answers = answer.await.map_err(|status| reply::mark(status, &id))?;
        let marked = id.clone();
        let answers = answers.map(move |item| item.map_err(|status| reply::mark(status, &marked)));
        Ok(with_request_id(answers.boxed(), &id))
    }

    async fn embed(
        &self,
        request: Request<EmbedRequest>,
    ) -> Result<Response<EmbedResponse>, Status> {
        let intake = Intake::of(&self.conductor, &request);
        let id = intake.request_id();
        let answer = async {
            let call = embed::call(intake, request.into_inner())?;
            let answers = first_word(self.start(call, 0)?).await?;
            embed::answer(answers).await
        };
        let answer = answer.await.map_err(|status| reply::mark(status, &id))?;
        Ok(with_request_id(answer, &id))
    }

    async fn list_models(
        &self,
        request: Request<ListModelsRequest>,
    ) -> Result<Response<ListModelsResponse>, Status> {
        let intake = Intake::of(&self.conductor, &request);
        let id = intake.request_id();
        let listed = models::list(&self.conductor, &intake).await;
        let listed = listed.map_err(|failure| reply::mark(failure.into(), &id))?;
        Ok(with_request_id(listed, &id))
    }
}
