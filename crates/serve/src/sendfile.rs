//! A response whose body is a file: the app names it, the edge sends it.

use keepwarm_http1::{BadField, scan_app_fields};

use crate::Exchange;

/// A file that an app named instead of a body.
#[derive(Debug)]
pub struct SendfileRequest {
    /// The file.
    pub name: SendfileTarget,
    /// The status of the app's response.
    pub status: u16,
    /// Its fields, with their names as the app wrote them, without those about its own body.
    pub fields: Vec<SendfileField>,
}

/// A name and its value.
pub type SendfileField = (Box<[u8]>, Box<[u8]>);

/// How an app names a file.
#[derive(Debug, PartialEq, Eq)]
pub enum SendfileTarget {
    /// `X-Accel-Redirect`: an internal path, encoded as in a URI.
    Path(Vec<u8>),
    /// `X-Sendfile`: a file system path.
    File(Vec<u8>),
}

impl Exchange<'_> {
    /// Records that the response's body is a file, when its fields name one and the route allows it. `true`: the edge now sends the response, and
    /// any body of the app is dropped.
    ///
    /// # Errors
    /// An invalid field.
    pub fn hand_file<'a>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<bool, BadField> {
        if !self.request().notes.routed.may_hand_files || self.responded() {
            return Ok(false);
        }
        let named = |name: &str| {
            let mut found = fields.clone().filter(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
            found.next().map(|(_, value)| value.to_vec())
        };
        let name = match (named("x-accel-redirect"), named("x-sendfile")) {
            (Some(mut path), _) => {
                path.truncate(path.iter().position(|&byte| byte == b'?').unwrap_or(path.len()));
                SendfileTarget::Path(path)
            }
            (None, Some(file)) => SendfileTarget::File(file),
            (None, None) => return Ok(false),
        };
        scan_app_fields(fields.clone())?;
        let kept = fields
            .filter(|(name, _)| !OF_THE_BODY.iter().any(|of| name.eq_ignore_ascii_case(of.as_bytes())))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        self.request_mut().notes.routed.handed =
            Some(Box::new(SendfileRequest { name, status, fields: kept }));
        Ok(true)
    }
}

/// Fields about the body that is not sent, or that only the edge can set for the file.
const OF_THE_BODY: [&str; 8] = [
    "x-accel-redirect",
    "x-sendfile",
    "content-length",
    "transfer-encoding",
    "content-range",
    "accept-ranges",
    "etag",
    "last-modified",
];
