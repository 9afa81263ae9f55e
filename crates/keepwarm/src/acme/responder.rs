//! Responses to an authority that verifies a name over HTTP (`http-01`, RFC 8555 §8.3).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use keepwarm_acme::{Challenges, HTTP_PATH};
use keepwarm_serve::{Exchange, Frontend, Handler, Outcome, Refusal, Request};

/// Responds before the routes of a listener, for any host: an authority must not be redirected, asked for a password or shown a maintenance page.
/// The token in the path cannot be guessed.
pub(crate) struct ChallengeResponder {
    challenges: Arc<Challenges>,
    listener: Arc<dyn Frontend>,
}

impl ChallengeResponder {
    pub(crate) fn new(challenges: &Arc<Challenges>, listener: Arc<dyn Frontend>) -> Self {
        Self { challenges: Arc::clone(challenges), listener }
    }

    /// The response to this request, if it is an authority's.
    fn response(&self, request: &Request) -> Option<Arc<str>> {
        let head = &request.head;
        if self.challenges.is_empty()
            || head.refusal.is_some()
            || !(head.method == Method::GET || head.method == Method::HEAD)
        {
            return None;
        }
        let token = head.path().strip_prefix(HTTP_PATH.as_bytes())?;
        self.challenges.http_response(std::str::from_utf8(token).ok()?)
    }
}

impl Handler for ChallengeResponder {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let Some(body) = self.response(exchange.request()) else { return self.listener.handle(exchange) };
        exchange.request_mut().notes.target = Some("acme".into());
        let fields: [(&[u8], &[u8]); 1] = [(b"Content-Type", b"application/octet-stream")];
        if exchange.head(200, Some(body.len() as u64), false, fields.into_iter()).is_ok() {
            exchange.data(body.as_bytes());
        }
        exchange.end();
        Box::pin(std::future::ready(()))
    }
}

impl Frontend for ChallengeResponder {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        self.listener.refuse(exchange, refusal);
    }

    fn is_forward_proxy(&self) -> bool {
        self.listener.is_forward_proxy()
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        self.listener.finished(request, outcome);
    }
}
