//! Snapshots from the control socket of the instance; after its end, from the one that has taken its place.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc::Sender;

use super::screen::Update;
use crate::cli;
use crate::find::Instance;

/// From one attempt to connect again to the next.
const AGAIN: Duration = Duration::from_secs(1);
/// A snapshot with 2,000 workers and 5,000 endpoints has 4 MB.
const SNAPSHOT_MAX: u64 = 256 << 20;

/// Sends snapshots, and why there are none, for as long as anybody receives them.
///
/// Returns the reason if the instance refuses: another attempt would not help.
pub(super) async fn run(
    selector: &cli::InstanceSelector,
    instance: Instance,
    updates: &Sender<Update>,
) -> String {
    let mut found = Ok(instance);
    loop {
        let why = match found {
            Ok(instance) => match read(&instance, updates).await {
                Ok(why) => why,
                Err(refused) => return refused,
            },
            Err(why) => why,
        };
        let _ = updates.send(Update::Gone(why)).await;
        tokio::time::sleep(AGAIN).await;
        found = Instance::search(selector).map_err(|(message, _)| first_line(&message));
    }
}

/// A list of other instances has several lines.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

/// Reads one stream to its end; says why it ended.
async fn read(instance: &Instance, updates: &Sender<Update>) -> Result<String, String> {
    let pid = instance.pid;
    let stream = instance.open("events").and_then(|stream| {
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    });
    let mut lines = match stream {
        Ok(stream) => BufReader::new(stream),
        Err(error) => return Ok(format!("process {pid} does not respond: {error}")),
    };
    loop {
        let mut line = Vec::new();
        let got = (&mut lines).take(SNAPSHOT_MAX).read_until(b'\n', &mut line).await;
        let is_whole = line.last() == Some(&b'\n');
        match (got, is_whole) {
            (Err(error), _) => return Ok(format!("process {pid} does not respond: {error}")),
            (Ok(_), false) => return Ok(format!("process {pid} has ended its stream")),
            (Ok(_), true) => {}
        }
        let snapshot: Value = match serde_json::from_slice(&line) {
            Ok(snapshot) => snapshot,
            Err(error) => return Ok(format!("process {pid} sent an unexpected message: {error}")),
        };
        // Also an older Keepwarm, which does not know the request, says so in this form.
        if let Some(message) = snapshot.get("message").and_then(Value::as_str) {
            return Err(format!("process {pid}: {message}"));
        }
        let _ = updates.send(Update::Snapshot(snapshot)).await;
    }
}
