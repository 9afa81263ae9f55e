//! Names that calls through a forward proxy bring: asked on a data-plane thread, looked up on the control thread, whose runtime drives the lookups.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Names;
use crate::discovery::Looked;

/// Questions that wait to be looked at; more are refused.
const QUESTIONS: usize = 256;
/// Names that are remembered.
const NAMES: usize = 1024;
/// An answer counts at least and at most so long.
const LEAST: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(300);

/// Asks for addresses.
#[derive(Debug, Clone)]
pub struct Resolver(mpsc::Sender<Question>);

#[derive(Debug)]
struct Question {
    host: Box<str>,
    answer: oneshot::Sender<Answer>,
}

/// Addresses, and until when they count; or a sentence that goes on from the name.
pub(super) type Answer = Result<(Arc<[IpAddr]>, Instant), String>;

/// Answers; to be run on the control thread.
#[derive(Debug)]
pub struct ResolverDriver {
    questions: mpsc::Receiver<Question>,
    names: Arc<Names>,
}

impl Resolver {
    /// Both ends.
    #[must_use]
    pub fn new(names: Arc<Names>) -> (Self, ResolverDriver) {
        let (sender, questions) = mpsc::channel(QUESTIONS);
        (Self(sender), ResolverDriver { questions, names })
    }

    pub(super) async fn ask(&self, host: &str) -> Answer {
        let (answer, answered) = oneshot::channel();
        if self.0.try_send(Question { host: host.into(), answer }).is_err() {
            return Err("cannot be looked up now: too many names are being looked up".to_owned());
        }
        answered.await.unwrap_or_else(|_| Err("cannot be looked up: the process is about to end".to_owned()))
    }
}

impl ResolverDriver {
    /// Answers until nobody can ask any more.
    pub async fn run(mut self) {
        let mut known: HashMap<Box<str>, (Arc<[IpAddr]>, Instant)> = HashMap::new();
        let mut waiting: HashMap<Box<str>, Vec<oneshot::Sender<Answer>>> = HashMap::new();
        let mut lookups: JoinSet<(Box<str>, Answer)> = JoinSet::new();
        loop {
            tokio::select! {
                question = self.questions.recv() => {
                    let Some(Question { host, answer }) = question else { return };
                    if let Some(found) = known.get(&host).filter(|(_, until)| *until > Instant::now()) {
                        let _ = answer.send(Ok(found.clone()));
                        continue;
                    }
                    let waiters = waiting.entry(host.clone()).or_default();
                    if waiters.is_empty() {
                        lookups.spawn(look_up(Arc::clone(&self.names), host));
                    }
                    waiters.push(answer);
                }
                Some(done) = lookups.join_next(), if !lookups.is_empty() => {
                    let Ok((host, answer)) = done else { continue };
                    for waiter in waiting.remove(&host).unwrap_or_default() {
                        let _ = waiter.send(answer.clone());
                    }
                    if let Ok(found) = answer {
                        if known.len() >= NAMES {
                            let now = Instant::now();
                            known.retain(|_, (_, until)| *until > now);
                        }
                        if known.len() < NAMES {
                            known.insert(host, found);
                        }
                    }
                }
            }
        }
    }
}

async fn look_up(names: Arc<Names>, host: Box<str>) -> (Box<str>, Answer) {
    let (v4, v6) = names.addresses(&host, true).await;
    let mut addresses: Vec<IpAddr> = Vec::new();
    let (mut ttl, mut failure) = (MOST, None);
    take(v6, &mut addresses, &mut ttl, &mut failure);
    take(v4, &mut addresses, &mut ttl, &mut failure);
    let answer = match (addresses.is_empty(), failure) {
        (false, _) => Ok((addresses.into(), Instant::now() + ttl.max(LEAST))),
        (true, Some(failure)) => Err(failure),
        (true, None) => Err("has no address".to_owned()),
    };
    (host, answer)
}

fn take<T: Into<IpAddr>>(
    looked: Looked<T>,
    addresses: &mut Vec<IpAddr>,
    ttl: &mut Duration,
    failure: &mut Option<String>,
) {
    match looked {
        Looked::Found(found, time) => {
            addresses.extend(found.into_iter().map(Into::into));
            *ttl = time.min(*ttl);
        }
        Looked::Empty => {}
        Looked::Failed(why) => *failure = Some(format!("cannot be looked up: {}", why.sentence)),
    }
}
