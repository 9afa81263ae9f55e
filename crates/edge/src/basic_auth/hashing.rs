//! Threads that compute hashes of passwords, and a bounded queue in front of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use argon2::{Argon2, PasswordHash, PasswordHasher, PasswordVerifier};
use tokio::sync::oneshot;

/// Passwords that wait for a thread. At 50 ms each, the last one waits a few seconds; more are refused.
const QUEUE: usize = 64;
/// A hash by argon2 holds its memory (19 MiB by default) while it is computed.
const MOST_THREADS: usize = 4;

/// A password to compare with a hash.
pub(super) struct HashJob {
    pub(super) hash: Arc<str>,
    pub(super) password: Vec<u8>,
}

/// The result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Correct,
    Wrong,
    /// The queue is full.
    Busy,
}

type QueuedJob = (HashJob, oneshot::Sender<bool>);

/// Compares, on a thread made for that.
pub(super) async fn verify(job: HashJob) -> Verdict {
    static QUEUED: LazyLock<SyncSender<QueuedJob>> = LazyLock::new(start_threads);
    let (reply, verdict) = oneshot::channel();
    match QUEUED.try_send((job, reply)) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => return Verdict::Busy,
        // The system has started none: one that this runtime has does it.
        Err(TrySendError::Disconnected(queued)) => drop(tokio::task::spawn_blocking(|| answer(queued))),
    }
    match verdict.await {
        Ok(true) => Verdict::Correct,
        // A hash that made its thread panic is nobody's.
        Ok(false) | Err(_) => Verdict::Wrong,
    }
}

fn start_threads() -> SyncSender<QueuedJob> {
    let (sender, receiver) = sync_channel(QUEUE);
    let receiver = Arc::new(Mutex::new(receiver));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..(cores / 2).clamp(1, MOST_THREADS) {
        let receiver = Arc::clone(&receiver);
        let started = std::thread::Builder::new().name("keepwarm-hash".into()).spawn(move || work(&receiver));
        if let Err(error) = started {
            tracing::error!(name: "hash_thread_failed", %error, "cannot start a thread for password hashes");
        }
    }
    sender
}

fn work(jobs: &Mutex<Receiver<QueuedJob>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(queued) = next else { return };
        answer(queued);
    }
}

fn answer((job, reply): QueuedJob) {
    // The client may have gone.
    if reply.is_closed() {
        return;
    }
    if let Ok(verdict) = catch_unwind(AssertUnwindSafe(|| matches(&job))) {
        let _ = reply.send(verdict);
    }
}

/// Both libraries compare in constant time.
fn matches(job: &HashJob) -> bool {
    if job.hash.starts_with("$2") {
        return bcrypt::verify(&job.password, &job.hash).unwrap_or(false);
    }
    let Ok(hash) = PasswordHash::new(&job.hash) else { return false };
    Argon2::default().verify_password(&job.password, &hash).is_ok()
}

/// The hash of a password, with a salt of its own: by argon2id with the parameters that OWASP recommends (19 MiB, 2 passes), or by
/// bcrypt with cost 10, which uses the first 72 bytes.
///
/// # Errors
/// In words: the password cannot be used.
pub fn hash_password(password: &[u8], by_bcrypt: bool) -> Result<String, String> {
    match password {
        b"" => return Err("the password is empty".to_owned()),
        _ if password.contains(&0) => return Err("the password contains a NUL".to_owned()),
        _ if password.len() > super::LONGEST_PASSWORD => {
            return Err(format!("the password is longer than {} bytes", super::LONGEST_PASSWORD));
        }
        _ if by_bcrypt && password.len() > 72 => {
            return Err(
                "bcrypt uses 72 bytes of a password; leave out --bcrypt, or use a shorter one".to_owned()
            );
        }
        _ => {}
    }
    if by_bcrypt {
        let hash = bcrypt::hash_with_result(password, 10).map_err(|error| error.to_string())?;
        return Ok(hash.format_for_version(bcrypt::Version::TwoY));
    }
    let hash = Argon2::default().hash_password(password).map_err(|error| error.to_string())?;
    Ok(hash.to_string())
}
