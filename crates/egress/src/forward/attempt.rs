//! One attempt at one endpoint, and whether a failure may be followed by another.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::{AcquireError, Call, ClientError, Endpoint, FailedAttempt, Gone};
use keepwarm_policy::breaker::Outcome;
use keepwarm_policy::retry::{Cause, Decision, Failure};
use keepwarm_policy::stable_hash;
use keepwarm_policy::timeout::Phase;
use tokio::time::Instant;

use super::refusal::Told;
use super::talk::{End, Talk};
use super::{Forward, Verdict, while_here};
use crate::HashKey;
use crate::endpoints::{EndpointEntry, Visit};

/// How long the first look-up of an upstream's names is waited for, if connecting has no limit.
const FIRST_LOOK_UP: Duration = Duration::from_secs(5);

/// How an attempt ended, for those who count on the endpoint.
struct Ended {
    outcome: Outcome,
    /// It has failed before anything was passed on.
    failed: Option<Told>,
}

impl Forward<'_, '_> {
    pub(super) async fn attempt(&mut self) -> Verdict {
        let now = Instant::now();
        (self.sought, self.connected, self.headed, self.ended) = (now, None, None, None);
        if self.endpoints.endpoints.is_empty() {
            self.find_endpoints().await;
        }
        let endpoints = Arc::clone(&self.endpoints);
        let picked = endpoints.pick(self.hash(), &self.tried, now, crate::random());
        let Some((index, entry)) =
            picked.and_then(|pick| Some((pick.index, endpoints.endpoints.get(pick.index)?)))
        else {
            self.refuse_without_endpoint();
            return Verdict::Over;
        };
        let pass = match self.upstream.try_pass(now) {
            Ok(pass) => pass,
            Err(refused) => {
                self.refuse_open(refused.retry_after);
                return Verdict::Over;
            }
        };
        self.record.attempts += 1;
        (self.at, self.record.reused) = (Some(index), None);
        self.record.endpoint = Some(Arc::clone(entry.state.name()));
        let visit = entry.state.enter(now);
        let ended = match self.connect(&entry.endpoint).await {
            Ok(Ok(call)) => self.talk(entry, index, visit, call).await,
            Err(gone) => {
                self.exchange.abort(gone.name());
                Ended { outcome: Outcome::Unknown, failed: None }
            }
            Ok(Err(told)) => {
                let failed = told.is_upstreams();
                let mut visit = visit;
                let outcome = if failed { Outcome::Failure } else { Outcome::Unknown };
                visit.note(outcome, now.elapsed(), Instant::now());
                Ended { outcome, failed: Some(told) }
            }
        };
        // A second attempt may have taken the place of this one.
        let index = self.at.unwrap_or(index);
        let entry = endpoints.endpoints.get(index).unwrap_or(entry);
        let now = Instant::now();
        self.ended = Some(now);
        self.upstream.note_outcome(&endpoints, index, ended.outcome, now);
        // An endpoint that is left out for its failures bears them alone, or one that fails would have the breaker of all of them open as soon as its own.
        let is_forgiven = ended.outcome == Outcome::Failure && endpoints.do_without(index, now);
        if let Some(pass) = pass {
            let outcome = if is_forgiven { Outcome::Unknown } else { ended.outcome };
            self.upstream.give_back(pass, outcome, now);
        }
        if is_forgiven {
            self.upstream.forgive();
        }
        match ended.failed {
            None => Verdict::Over,
            Some(told) => self.follow(told, entry, index).await,
        }
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

    async fn connect(&mut self, endpoint: &Endpoint) -> Result<Result<Call, Told>, Gone> {
        let (calls, need) = (self.upstream.calls(), self.need());
        let switches = self.exchange.request().head.upgrade;
        if !switches && let Some(call) = calls.take(endpoint, need) {
            self.connected = Some(self.sought);
            return Ok(Ok(call));
        }
        let connect = self.settings.timeouts.connect.unwrap_or(Duration::MAX);
        // Connecting and the handshake have that time each, and bound themselves.
        let wait = self.settings.limits.queue_timeout.saturating_add(connect).saturating_add(connect);
        let left = self.time_left();
        let limit = left.map_or(wait, |left| left.min(wait));
        let acquire = async {
            match switches {
                true => calls.acquire_to_switch(endpoint, need).await,
                false => calls.acquire(endpoint, need).await,
            }
        };
        let acquired = while_here(self.exchange, tokio::time::timeout(limit, acquire)).await?;
        Ok(match acquired {
            Ok(Ok(call)) => Ok(call),
            Ok(Err(error)) => {
                if !matches!(error, AcquireError::QueueFull | AcquireError::NoneFree(_)) {
                    // Its addresses may be of yesterday.
                    self.upstream.discovery().look_again();
                }
                Err(Told::not_connected(&error, connect))
            }
            Err(_) if limit < wait => Err(Told::whole(self.settings.timeouts.whole)),
            Err(_) => Err(Told::no_connection(limit)),
        })
    }

    async fn talk(&mut self, entry: &EndpointEntry, index: usize, visit: Visit, call: Call) -> Ended {
        self.connected.get_or_insert_with(Instant::now);
        self.record.reused = call.idle().filter(|_| call.is_reused());
        let mut talk = Talk::new(self, visit, call, Arc::clone(&entry.authority), index);
        talk.begin();
        let end = poll_fn(|cx| talk.poll(cx)).await;
        let Talk { mut visit, call, .. } = talk;
        let (outcome, failed) = self.judge(end, call);
        // The head of an answer has said it already, if one came.
        if self.headed.is_none() || outcome == Outcome::Failure {
            let now = Instant::now();
            visit.note(outcome, now.saturating_duration_since(self.sought), now);
        }
        Ended { outcome, failed }
    }

    /// Whose doing the end was, and whether something is left to be done about it.
    fn judge(&mut self, end: End, call: Option<Call>) -> (Outcome, Option<Told>) {
        let sent = call.as_ref().is_some_and(Call::has_sent);
        match end {
            End::Answered => {
                let failed = self.record.status == 0 || is_failure(self.record.status);
                (if failed { Outcome::Failure } else { Outcome::Success }, None)
            }
            End::Gone(gone) => {
                self.exchange.abort(gone.name());
                (Outcome::Unknown, None)
            }
            End::BadBody(error) => {
                self.refuse_body(&error);
                (Outcome::Unknown, None)
            }
            End::Status(status) => (Outcome::Failure, Some(Told::status(status, sent))),
            End::TimedOut(phase, limit) => {
                let heard = call.as_ref().is_some_and(Call::has_heard);
                (Outcome::Failure, Some(Told::timed_out(phase, limit, sent, heard)))
            }
            End::Failed(error) => {
                let idle = call.as_ref().and_then(idle_before);
                let told = Told::lost(&error, idle, sent);
                // That it gives up connections that lie idle says nothing about how it does.
                let outcome = if told.cause == Cause::LostIdle { Outcome::Unknown } else { Outcome::Failure };
                (outcome, Some(told))
            }
        }
    }

    /// After a failed attempt: another, or the failure is the answer.
    async fn follow(&mut self, told: Told, entry: &EndpointEntry, index: usize) -> Verdict {
        let decision = match self.decided.take() {
            Some(decision) => decision,
            None => self.decide(&told),
        };
        entry.state.seen().note_failure(told.name, told.sentence.as_str());
        self.record.failures.push(FailedAttempt {
            endpoint: Arc::clone(entry.state.name()),
            cause: told.name,
            sentence: told.sentence.clone(),
        });
        if told.cause == Cause::LostIdle {
            self.upstream.calls().count_lost(&entry.endpoint, !matches!(decision, Decision::GiveUp(_)));
        }
        match decision {
            Decision::AnewConnection => {
                (self.anew, self.lost_before) = (true, true);
                Verdict::Again
            }
            Decision::Retry(wait) => {
                self.anew = false;
                self.retries += 1;
                self.tried.push(index);
                let wait = self.time_left().map_or(wait, |left| left.min(wait));
                if !wait.is_zero()
                    && let Err(gone) = while_here(self.exchange, tokio::time::sleep(wait)).await
                {
                    self.exchange.abort(gone.name());
                    return Verdict::Over;
                }
                Verdict::Again
            }
            Decision::GiveUp(_) => {
                self.answer_failure(&told);
                Verdict::Over
            }
        }
    }

    fn decide(&mut self, told: &Told) -> Decision {
        let failure = Failure {
            cause: told.cause,
            idempotent: self.exchange.request().head.method.is_idempotent(),
            sent: told.sent,
            heard: told.heard || self.exchange.answered() || told.is_final,
            body_kept: self.body.can_be_sent_again(),
            lost_before: self.lost_before,
            retries: self.retries,
        };
        let now = Instant::now().into_std();
        self.settings.retry.decide(&failure, &mut self.upstream.budget(), now, crate::random())
    }

    /// Whether an answer with this status is left for another attempt; decided, and paid for.
    pub(super) fn may_retry_status(&mut self, status: u16) -> bool {
        if !is_failure(status) {
            return false;
        }
        let decision = self.decide(&Told::status(status, true));
        let again = matches!(decision, Decision::Retry(_) | Decision::AnewConnection);
        self.decided = again.then_some(decision);
        again
    }
}

/// A status that says that the upstream has failed. 501 says that it works, and will never do this.
pub(crate) fn is_failure(status: u16) -> bool {
    status >= 500 && status != 501
}

impl Told {
    fn of(cause: Cause, name: &'static str, sentence: String) -> Self {
        Self { cause, name, sentence, sent: false, heard: false, is_final: false }
    }

    fn not_connected(error: &AcquireError, limit: Duration) -> Self {
        let (cause, sentence) = match error {
            AcquireError::QueueFull => return Self::no_place_in_queue(),
            AcquireError::NoneFree(waited) => return Self::no_connection(*waited),
            AcquireError::Timeout => {
                (Cause::ConnectTimeout, format!("made no connection within {}", seconds(limit)))
            }
            AcquireError::HandshakeTimeout => {
                (Cause::ConnectTimeout, format!("did not finish the TLS handshake within {}", seconds(limit)))
            }
            AcquireError::Tls(error) => (Cause::Connect, format!("made no encrypted connection: {error}")),
            AcquireError::Connect(_) => (Cause::Connect, format!("could not be connected to: {error}")),
            AcquireError::NotHttp2 => {
                (Cause::Connect, "does not choose HTTP/2 in the TLS handshake".to_owned())
            }
        };
        Self::of(cause, error.name(), sentence)
    }

    fn no_place_in_queue() -> Self {
        let sentence = "has as many connections as it may, and as many calls wait as may".to_owned();
        Self { is_final: true, ..Self::of(Cause::Connect, AcquireError::QueueFull.name(), sentence) }
    }

    fn no_connection(waited: Duration) -> Self {
        let sentence = format!("had no connection free within {}", seconds(waited));
        Self { is_final: true, ..Self::of(Cause::Connect, AcquireError::NoneFree(waited).name(), sentence) }
    }

    fn whole(limit: Option<Duration>) -> Self {
        Self::timed_out(Phase::Whole, limit.unwrap_or_default(), false, false)
    }

    fn timed_out(phase: Phase, limit: Duration, sent: bool, heard: bool) -> Self {
        let limit = seconds(limit);
        let (name, sentence) = match phase {
            Phase::Connect => ("connect_timeout", format!("made no connection within {limit}")),
            Phase::FirstByte if heard => {
                ("first_byte_timeout", format!("did not finish the head of its answer within {limit}"))
            }
            Phase::FirstByte => ("first_byte_timeout", format!("did not begin to answer within {limit}")),
            Phase::Idle => ("idle_timeout", format!("moved no byte for {limit}")),
            Phase::Whole => ("timeout", format!("was not done within {limit}")),
        };
        let is_final = phase != Phase::FirstByte;
        Self { sent, heard, is_final, ..Self::of(Cause::FirstByteTimeout, name, sentence) }
    }

    fn status(status: u16, sent: bool) -> Self {
        let cause = Cause::Status(status);
        Self { sent, ..Self::of(cause, cause.name(), format!("answered {status}")) }
    }

    /// `idle`: how long its connection had lain idle before.
    fn lost(error: &ClientError, idle: Option<Duration>, sent: bool) -> Self {
        match (error, idle) {
            (ClientError::Unanswered(_), Some(idle)) => {
                let sentence = match idle.is_zero() {
                    // Of HTTP/2, which other calls were using.
                    true => "closed a connection in use".to_owned(),
                    false => format!("closed an idle connection after {}", seconds(idle)),
                };
                Self { sent, ..Self::of(Cause::LostIdle, "closed_idle", sentence) }
            }
            (ClientError::Unanswered(lost), None) => {
                let how = lost.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
                let sentence = format!("closed the connection without an answer{how}");
                Self { sent, ..Self::of(Cause::Reset, error.name(), sentence) }
            }
            (ClientError::NotProcessed(fault), _) => {
                Self::of(Cause::RefusedStream, fault.name, fault.sentence.clone())
            }
            (ClientError::Fault(fault), _) => {
                Self { sent, heard: true, ..Self::of(Cause::BadAnswer, fault.name, fault.sentence.clone()) }
            }
        }
    }
}

/// How long the connection had lain idle before this call. One that was made for it, and lay on the shelf for a moment because another version of HTTP was asked for first, had not.
fn idle_before(call: &Call) -> Option<Duration> {
    const MOMENT: Duration = Duration::from_millis(100);
    call.idle().filter(|idle| call.is_reused() || idle.is_zero() || *idle >= MOMENT)
}

/// A time as a person reads it: `5.0 s`, `250 ms`.
fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis @ ..1000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
