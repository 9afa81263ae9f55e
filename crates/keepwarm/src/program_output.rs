//! Programs of an app that are started only to be asked something: what they print, within a time and a size.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use keepwarm_config::App;
use keepwarm_workers::supervisor::private_variables;

/// A program in the app's directory, which sees no setting of Keepwarm's own. The app's variables are the caller's to add.
pub(crate) fn command(program: &Path, app: &App) -> Command {
    let mut command = Command::new(program);
    for name in private_variables() {
        command.env_remove(name);
    }
    command.current_dir(&app.directory);
    command
}

/// What it prints, `most` bytes of it. `None`: it took longer than `patience`. It has ended afterwards.
///
/// # Errors
/// It cannot be started, or read.
pub(crate) fn printed(command: &mut Command, most: u64, patience: Duration) -> io::Result<Option<Vec<u8>>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (sender, receiver) = mpsc::channel();
    let out = child.stdout.take();
    let reader = std::thread::Builder::new().spawn(move || {
        let mut said = Vec::new();
        let read = out.map_or(Ok(0), |out| out.take(most).read_to_end(&mut said));
        // The receiver is gone when it took too long.
        let _ = sender.send(read.map(|_| said));
    });
    let said = reader.map(|_| receiver.recv_timeout(patience));
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    said?.ok().transpose()
}
