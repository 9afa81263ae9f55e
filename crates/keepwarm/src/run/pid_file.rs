//! The file that names the process (`server.pid_file`).

use std::path::{Path, PathBuf};

/// A file that holds this process's id.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it.
    ///
    /// # Errors
    /// A sentence that says why it cannot be written.
    pub(super) fn write(file: &Path) -> Result<Self, String> {
        std::fs::write(file, format!("{}\n", std::process::id()))
            .map_err(|error| format!("the pid file {} cannot be written: {error}", file.display()))?;
        Ok(Self(file.to_path_buf()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes it once more: a process that was to take over may have left its own id.
    pub(super) fn restore(&self) {
        if !self.is_ours()
            && let Err(message) = Self::write(&self.0)
        {
            tracing::warn!("{message}");
        }
    }

    /// Removes it, unless another process has taken over.
    pub(super) fn remove(&self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn is_ours(&self) -> bool {
        std::fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == std::process::id().to_string())
    }
}
