//! One attempt at one endpoint, and whether a failure may be followed by another.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::{Call, Endpoint};
use keepwarm_policy::breaker::Outcome;
use keepwarm_policy::retry::{Decision, Failure, FailureCause};
use keepwarm_policy::stable_hash;
use keepwarm_serve::{ClientLoss, FailedAttempt, poll_pump, switch_target};
use tokio::time::Instant;

use super::failure::AttemptFailure;
use super::upstream_request::{AttemptEnd, UpstreamRequest};
use super::{AttemptResult, Forward, while_here};
use crate::HashKey;
use crate::active::CallPhase;
use crate::breaker::Admission;
use crate::endpoints::{AttemptSignals, EndpointAttempt, EndpointEntry};

/// How long the first look-up of an upstream's names is waited for, if connecting has no limit.
const FIRST_LOOK_UP: Duration = Duration::from_secs(5);

/// The report of an attempt: its signals about the endpoint, and its failure.
struct AttemptReport {
    signals: AttemptSignals,
    /// It has failed before anything was passed on.
    failed: Option<AttemptFailure>,
}

impl<'a> Forward<'a, '_> {
    pub(super) async fn attempt(&mut self) -> AttemptResult {
        let now = Instant::now();
        (self.sought, self.connected, self.headed, self.ended) = (now, None, None, None);
        if self.endpoints.endpoints.is_empty() {
            self.find_endpoints().await;
        }
        let Some((admission, now)) = self.admit(now).await else { return AttemptResult::Over };
        self.sought = now;
        let endpoints = Arc::clone(&self.endpoints);
        let picked = endpoints.pick(self.hash(), &self.tried, &self.silent, now, crate::random());
        let Some((index, entry)) =
            picked.and_then(|pick| Some((pick.index, endpoints.endpoints.get(pick.index)?)))
        else {
            self.refuse_without_endpoint();
            return AttemptResult::Over;
        };
        self.record.attempts += 1;
        (self.at, self.record.reused) = (Some(index), None);
        self.record.endpoint = Some(Arc::clone(entry.state.name()));
        self.span = self.begin_span(entry, now);
        let attempt = endpoints.enter(entry, now);
        let endpoint = self.endpoint_for_client(&entry.endpoint);
        let ended = match self.connect(&endpoint).await {
            Ok(Ok(call)) => self.upstream_request(entry, index, attempt, call).await,
            Err(gone) => {
                self.exchange.abandon(gone);
                AttemptReport { signals: AttemptSignals::NONE, failed: None }
            }
            Ok(Err(failure)) => {
                let mut attempt = attempt;
                let signals =
                    if failure.is_upstreams() { AttemptSignals::SILENT } else { AttemptSignals::NONE };
                attempt.note(signals, now.elapsed(), Instant::now());
                AttemptReport { signals, failed: Some(failure) }
            }
        };
        // A second attempt may have taken the place of this one.
        let index = self.at.unwrap_or(index);
        let entry = endpoints.endpoints.get(index).unwrap_or(entry);
        let now = Instant::now();
        self.ended = Some(now);
        self.upstream.note_outcome(&endpoints, index, ended.signals.outcome, now);
        let is_silent = ended.signals.alive == Outcome::Failure;
        if is_silent {
            self.silent.push(index);
        }
        // As long as another can be called, one that is silent bears that alone.
        let has_another = is_silent && endpoints.has_another(index, now);
        admission.finish(if has_another { Outcome::Unknown } else { ended.signals.alive }, now);
        match &ended.failed {
            None => self.end_span(self.record.status, None, now),
            Some(failure) => {
                let status = match failure.cause {
                    FailureCause::Status(status) => status,
                    _ => self.record.status,
                };
                self.end_span(status, Some(failure.name), now);
            }
        }
        match ended.failed {
            None => AttemptResult::Over,
            Some(failure) => self.follow(failure, entry, index).await,
        }
    }

    /// The upstream's breaker lets it through, perhaps after a wait: then that is when.
    async fn admit(&mut self, now: Instant) -> Option<(Admission<'a>, Instant)> {
        let upstream = self.upstream;
        if let Ok(admission) = upstream.entrance().try_admit(now) {
            return Some((admission, now));
        }
        let limit = self.settings.limits.queue_timeout;
        let limit = self.time_left().map_or(limit, |left| left.min(limit));
        let waiting = upstream.entrance().admit(upstream.calls().queue(), limit);
        match while_here(self.exchange, waiting).await {
            Ok(Ok(admission)) => return Some((admission, Instant::now())),
            Ok(Err(refused)) => self.refuse_open(refused.retry_after),
            Err(gone) => self.exchange.abandon(gone),
        }
        None
    }

    /// Names are still being looked up.
    async fn find_endpoints(&mut self) {
        let wait = self.settings.timeouts.connect.unwrap_or(FIRST_LOOK_UP);
        let wait = self.time_left().map_or(wait, |left| left.min(wait));
        // One that has gone is met again where a connection is sought.
        let _ = while_here(self.exchange, self.upstream.wait_for_endpoints(wait)).await;
        self.endpoints = self.upstream.endpoints();
    }

    /// What decides where it goes, for a choice by hash.
    fn hash(&self) -> Option<u64> {
        let fields = &self.exchange.request().head.fields;
        match self.settings.hash_key.as_ref()? {
            HashKey::Header(name) => fields.first(name).map(stable_hash),
            HashKey::Cookie(name) => {
                let crumbs = fields.all("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
                let value = |crumb: &[u8]| {
                    let value = crumb.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                    Some(stable_hash(value))
                };
                crumbs.filter_map(value).next()
            }
        }
    }

    /// The endpoint as this client's connections reach it: with its PROXY header, where the upstream wants one. A door's clients are processes of this machine, and share
    /// their connections.
    pub(super) fn endpoint_for_client<'e>(&self, endpoint: &'e Endpoint) -> Cow<'e, Endpoint> {
        let Some(version) = self.settings.proxy else { return Cow::Borrowed(endpoint) };
        let header = match self.options.routed {
            true => version.header(self.exchange.request()),
            false => version.own_header(),
        };
        Cow::Owned(endpoint.proxied(header))
    }

    async fn connect(&mut self, endpoint: &Endpoint) -> Result<Result<Call, AttemptFailure>, ClientLoss> {
        let (calls, need) = (self.upstream.calls(), self.need());
        let switches = self.exchange.request().head.upgrade.then(|| switch_target(self.exchange));
        if switches.is_none()
            && let Some(call) = calls.take(endpoint, need)
        {
            self.connected = Some(self.sought);
            return Ok(Ok(call));
        }
        self.active.set(CallPhase::Connect);
        let connect = self.settings.timeouts.connect.unwrap_or(Duration::MAX);
        // Connecting and the handshake have that time each, and bound themselves.
        let wait = self.settings.limits.queue_timeout.saturating_add(connect).saturating_add(connect);
        let left = self.time_left();
        let limit = left.map_or(wait, |left| left.min(wait));
        let acquire = async {
            match switches {
                Some(to) => calls.acquire_to_switch(endpoint, need, to).await,
                None => calls.acquire(endpoint, need).await,
            }
        };
        let acquired = while_here(self.exchange, tokio::time::timeout(limit, acquire)).await?;
        Ok(match acquired {
            Ok(Ok(call)) => Ok(call),
            Ok(Err(error)) => {
                if error.is_about_address() {
                    // Its addresses may be of yesterday.
                    self.upstream.discovery().look_again();
                }
                Err(AttemptFailure::not_connected(&error, connect))
            }
            Err(_) if limit < wait => Err(AttemptFailure::whole(self.settings.timeouts.whole)),
            Err(_) => Err(AttemptFailure::no_connection(limit)),
        })
    }

    async fn upstream_request(
        &mut self,
        entry: &EndpointEntry,
        index: usize,
        attempt: EndpointAttempt,
        call: Call,
    ) -> AttemptReport {
        self.connected.get_or_insert_with(Instant::now);
        self.active.set_at(CallPhase::Upstream, entry.state.name());
        self.record.reused = call.idle().filter(|_| call.is_reused());
        let mut upstream_request =
            UpstreamRequest::new(self, attempt, call, Arc::clone(&entry.authority), index);
        upstream_request.begin();
        let end = poll_fn(|cx| poll_pump(&mut upstream_request, cx)).await;
        let UpstreamRequest { mut attempt, call, .. } = upstream_request;
        let (signals, failed) = self.judge(end, call);
        // The head of a response has said it already, if one came.
        if self.headed.is_none() || signals.outcome == Outcome::Failure {
            let now = Instant::now();
            attempt.note(signals, now.saturating_duration_since(self.sought), now);
        }
        AttemptReport { signals, failed }
    }

    /// Whose doing the end was, and whether something is left to be done about it.
    fn judge(&mut self, end: AttemptEnd, call: Option<Call>) -> (AttemptSignals, Option<AttemptFailure>) {
        let sent = call.as_ref().is_some_and(Call::has_sent);
        let response_started = self.headed.is_some() || call.as_ref().is_some_and(Call::has_heard);
        // It was there, whatever became of the call on our side.
        let ours = if response_started {
            AttemptSignals { alive: Outcome::Success, ..AttemptSignals::NONE }
        } else {
            AttemptSignals::NONE
        };
        match end {
            AttemptEnd::Responded => {
                let failed = self.record.status == 0 || is_failure(self.record.status);
                (if failed { AttemptSignals::FAILED } else { AttemptSignals::WELL }, None)
            }
            AttemptEnd::ClientLost(gone) => {
                self.exchange.abandon(gone);
                (ours, None)
            }
            AttemptEnd::BadBody(error) => {
                self.refuse_body(&error);
                (ours, None)
            }
            AttemptEnd::Status(status) => {
                (AttemptSignals::FAILED, Some(AttemptFailure::status(status, sent)))
            }
            AttemptEnd::TimedOut(phase, limit) => {
                let signals = if response_started { AttemptSignals::FAILED } else { AttemptSignals::SILENT };
                let response_started = call.as_ref().is_some_and(Call::has_heard);
                (signals, Some(AttemptFailure::timed_out(phase, limit, sent, response_started)))
            }
            AttemptEnd::Failed(error) => {
                let idle = call.as_ref().and_then(idle_before);
                let failure = AttemptFailure::lost(&error, idle, sent);
                // That it gives up connections that lie idle says nothing about how it does.
                (
                    if failure.cause == FailureCause::LostIdle {
                        AttemptSignals::NONE
                    } else {
                        AttemptSignals::FAILED
                    },
                    Some(failure),
                )
            }
        }
    }

    /// After a failed attempt: another, or the failure is the response.
    async fn follow(
        &mut self,
        failure: AttemptFailure,
        entry: &EndpointEntry,
        index: usize,
    ) -> AttemptResult {
        let decision = match self.decided.take() {
            Some(decision) => decision,
            None => self.decide(&failure),
        };
        entry.state.stats().note_failure(failure.name, failure.sentence.as_str());
        self.record.failures.push(FailedAttempt {
            endpoint: Arc::clone(entry.state.name()),
            cause: failure.name,
            sentence: failure.sentence.clone(),
        });
        if failure.cause == FailureCause::LostIdle {
            self.upstream.calls().count_lost(&entry.endpoint, !matches!(decision, Decision::GiveUp(_)));
        }
        match decision {
            Decision::NewConnection => {
                (self.anew, self.lost_before) = (true, true);
                AttemptResult::Again
            }
            Decision::Retry(wait) => {
                self.anew = false;
                self.retries += 1;
                self.active.set(CallPhase::Queue);
                self.tried.push(index);
                let wait = self.time_left().map_or(wait, |left| left.min(wait));
                if !wait.is_zero()
                    && let Err(gone) = while_here(self.exchange, tokio::time::sleep(wait)).await
                {
                    self.exchange.abandon(gone);
                    return AttemptResult::Over;
                }
                AttemptResult::Again
            }
            Decision::GiveUp(_) => {
                self.respond_with_failure(&failure);
                AttemptResult::Over
            }
        }
    }

    fn decide(&mut self, attempt: &AttemptFailure) -> Decision {
        let failure = Failure {
            cause: attempt.cause,
            idempotent: self.exchange.request().head.method.is_idempotent(),
            sent: attempt.sent,
            heard: attempt.response_started || self.exchange.responded() || attempt.is_final,
            body_kept: self.body.can_be_sent_again(),
            lost_before: self.lost_before,
            retries: self.retries,
        };
        let now = Instant::now().into_std();
        self.settings.retry.decide(&failure, &mut self.upstream.budget(), now, crate::random())
    }

    /// Whether a response with this status is left for another attempt; decided, and paid for.
    pub(super) fn may_retry_status(&mut self, status: u16) -> bool {
        if !is_failure(status) {
            return false;
        }
        let decision = self.decide(&AttemptFailure::status(status, true));
        let again = matches!(decision, Decision::Retry(_) | Decision::NewConnection);
        self.decided = again.then_some(decision);
        again
    }
}

/// A status that says that the upstream has failed. 501 says that it works, and will never do this.
pub(crate) fn is_failure(status: u16) -> bool {
    status >= 500 && status != 501
}

/// How long the connection was idle before this call. `None` for a connection that was opened for this call, and waited for a moment because another version of HTTP was tried first.
fn idle_before(call: &Call) -> Option<Duration> {
    const MOMENT: Duration = Duration::from_millis(100);
    call.idle().filter(|idle| call.is_reused() || idle.is_zero() || *idle >= MOMENT)
}
