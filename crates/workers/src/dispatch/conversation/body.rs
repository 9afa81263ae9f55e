//! The request's body on its way to the worker.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use keepwarm_http1::RequestBody;
use keepwarm_net::{Spool, SpoolError};
use keepwarm_serve::{BodyError, BodyProgress, Exchange};
use keepwarm_wire::frame::MAX_BODY;

use super::super::app::App;
use super::super::link::BodyKind;
use super::super::request::InitialBody;
use super::{Conversation, SPOOL_MEMORY};

/// Where the rest of the request body comes from.
pub(in crate::dispatch) enum BodySource {
    /// From the client, as it comes.
    Client,
    /// It is (or was) all in the REQUEST frame.
    Frame(Vec<u8>),
    /// It was read whole; its length.
    Spool(Spool, u64),
    /// It has been sent to its end.
    Sent,
}

impl BodySource {
    pub(super) fn options(&self) -> InitialBody<'_> {
        match self {
            Self::Frame(bytes) => InitialBody::Whole(bytes),
            Self::Spool(_, length) => InitialBody::Follows(Some(*length)),
            Self::Client | Self::Sent => InitialBody::Follows(None),
        }
    }

    /// Takes up to `max` bytes of it.
    pub(in crate::dispatch) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        app: &App,
        exchange: &mut Exchange<'_>,
        (into, max): (&mut Vec<u8>, usize),
    ) -> Poll<Result<BodyProgress, BodyError>> {
        let done = match self {
            Self::Client => {
                ready!(exchange.poll_body(cx, into, max))? == BodyProgress::Done || exchange.body_done()
            }
            Self::Spool(spool, _) => {
                ready!(spool.poll_read(cx, into, max)).map_err(|error| spill_failed(app, &error))?;
                spool.is_empty()
            }
            Self::Frame(_) | Self::Sent => true,
        };
        Poll::Ready(Ok(if done { BodyProgress::Done } else { BodyProgress::More }))
    }

    /// Nothing of it comes from the client any more.
    pub(in crate::dispatch) fn is_whole(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Spool(..))
    }
}

/// Reads the whole body: a small one into memory, a larger one into a spool.
pub(in crate::dispatch) async fn read_whole(
    app: &App,
    exchange: &mut Exchange<'_>,
) -> Result<BodySource, BodyError> {
    let declared = match exchange.request().head.body {
        RequestBody::Length(length) => usize::try_from(length).unwrap_or(usize::MAX),
        RequestBody::None | RequestBody::Chunked => 0,
    };
    let mut body = Vec::with_capacity(declared.min(MAX_BODY));
    while body.len() <= MAX_BODY {
        let room = MAX_BODY + 1 - body.len();
        if poll_fn(|cx| exchange.poll_body(cx, &mut body, room)).await? == BodyProgress::Done
            || exchange.body_done()
        {
            break;
        }
    }
    match exchange.body_done() && body.len() <= MAX_BODY {
        true => Ok(BodySource::Frame(body)),
        false => spool_body(app, exchange, &body).await,
    }
}

async fn spool_body(app: &App, exchange: &mut Exchange<'_>, begin: &[u8]) -> Result<BodySource, BodyError> {
    let mut spool = Spool::new(SPOOL_MEMORY);
    let mut length = begin.len() as u64;
    spool.push(begin);
    let mut block = Vec::with_capacity(MAX_BODY);
    while !exchange.body_done() {
        block.clear();
        poll_fn(|cx| spool.poll_ready(cx)).await.map_err(|error| spill_failed(app, &error))?;
        poll_fn(|cx| exchange.poll_body(cx, &mut block, MAX_BODY)).await?;
        length += block.len() as u64;
        spool.push(&block);
    }
    Ok(BodySource::Spool(spool, length))
}

fn spill_failed(app: &App, error: &SpoolError) -> BodyError {
    if let SpoolError::Failed(_) = error {
        tracing::error!(name: "request_body_lost", app = %app.name, %error, "request body lost");
    }
    error.into()
}

impl Conversation<'_, '_> {
    /// Reads what a worker should not have to wait for: the whole body for one that takes a request at a time, what is here for others.
    pub(super) async fn collect(&mut self) -> Result<(), BodyError> {
        if self.exchange.body_done() {
            self.source = BodySource::Frame(Vec::new());
            return Ok(());
        }
        let wanted = self.exchange.request().passing().buffer_request;
        if !wanted.unwrap_or(self.app.is_blocking()) {
            return Ok(());
        }
        if self.exchange.awaits_continue() {
            self.expecting = self.app.enter_expecting();
            if self.expecting.is_some() {
                return Ok(());
            }
        }
        self.source = read_whole(self.app, self.exchange).await?;
        Ok(())
    }

    /// Sends what there is of the body, as far as the credit goes.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) {
        self.starved = false;
        if matches!(self.source, BodySource::Frame(_) | BodySource::Sent) || self.complete {
            return;
        }
        let Some((link, stream)) = self.call.given() else { return };
        let mut block = Vec::new();
        loop {
            let credit = link.send_credit(stream).min(MAX_BODY);
            if credit == 0 {
                return;
            }
            block.clear();
            if self.exchange.awaits_continue() && !self.wanted && matches!(self.source, BodySource::Client) {
                // The client waits for the application's word, and we for the application.
                return;
            }
            let read = self.source.poll_read(cx, self.app, self.exchange, (&mut block, credit));
            match read {
                Poll::Ready(Ok(progress)) => {
                    self.body_sent = true;
                    self.send_part(&link, stream, &block, progress == BodyProgress::Done);
                    if progress == BodyProgress::Done {
                        return;
                    }
                }
                Poll::Ready(Err(error)) => return self.refuse_body(error),
                Poll::Pending => {
                    self.starved = true;
                    return;
                }
            }
        }
    }

    fn send_part(&mut self, link: &super::super::link::Link, stream: u32, block: &[u8], end: bool) {
        let trailers =
            end && matches!(self.source, BodySource::Client) && !self.exchange.trailers().is_empty();
        link.send_body(BodyKind::Data, stream, block, end && !trailers);
        if trailers {
            link.send_trailers(stream, self.exchange.trailers().iter());
        }
        if end {
            self.source = BodySource::Sent;
            self.expecting = None;
            self.application_works();
        }
    }
}
