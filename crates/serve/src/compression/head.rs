//! The head of a response that may be compressed.

use keepwarm_http1::Version;
use keepwarm_net::Scheme;
use keepwarm_policy::compression::{
    AcceptEncoding, Coding, CompressionRules, RequestTraits, ResponseTraits, coded_etag, is_coded_etag_of,
};

use crate::Request;

/// What becomes of a response, and the changes to its head.
#[derive(Debug)]
pub(crate) struct JudgedHead {
    /// Its body is compressed so.
    pub(crate) coding: Option<Coding>,
    /// It is a feed of server-sent events.
    pub(crate) is_feed: bool,
    /// Replaces its `ETag`.
    etag: Option<Vec<u8>>,
    /// `Vary` is added.
    adds_vary: bool,
    /// Its `Content-Encoding: identity` is removed.
    drops_identity: bool,
}

impl JudgedHead {
    /// Judges a response by its status, the length of its body if known, and its fields.
    pub(crate) fn of<'f>(
        rules: &CompressionRules,
        request: &Request,
        status: u16,
        length: Option<u64>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Self {
        let response = ResponseTraits::of(fields);
        let decision = rules.decide(status, length, &request_traits(request), &response);
        let etag = response.etag.and_then(|tag| match decision.coding {
            Some(coding) => coded_etag(tag, coding),
            // RFC 9110 §15.4.5: the tag of the 200 that the client has.
            None if status == 304 => {
                let held = request.notes.coded_etags.as_deref()?;
                is_coded_etag_of(held, tag).map(<[u8]>::to_vec)
            }
            None => None,
        });
        Self {
            coding: decision.coding,
            is_feed: response.content_type.is_some_and(is_feed),
            etag,
            adds_vary: decision.varies && !response.varies,
            drops_identity: response.is_identity,
        }
    }

    /// It is not compressed after all: there is no memory for an encoder.
    pub(crate) fn give_up(&mut self) {
        (self.coding, self.etag) = (None, None);
    }

    /// The fields as they are sent.
    pub(crate) fn apply<'e, 'f: 'e>(
        &'e self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone + 'e,
    ) -> impl Iterator<Item = (&'e [u8], &'e [u8])> + Clone {
        let kept = fields.filter_map(|(name, value)| self.edited(name, value));
        let encoding = self.coding.map(|coding| (&b"Content-Encoding"[..], coding.name().as_bytes()));
        let vary = self.adds_vary.then_some((&b"Vary"[..], &b"Accept-Encoding"[..]));
        kept.chain(encoding).chain(vary)
    }

    fn edited<'e>(&'e self, name: &'e [u8], value: &'e [u8]) -> Option<(&'e [u8], &'e [u8])> {
        let is = |lower: &str| name.eq_ignore_ascii_case(lower.as_bytes());
        let coded = self.coding.is_some();
        match name.len() {
            4 if is("etag") => Some((name, self.etag.as_deref().unwrap_or(value))),
            // Parts would be of the bytes before.
            13 if coded && is("accept-ranges") => None,
            14 if coded && is("content-length") => None,
            16 if self.drops_identity && is("content-encoding") => None,
            _ => Some((name, value)),
        }
    }
}

fn request_traits(request: &Request) -> RequestTraits {
    let fields = &request.head.fields;
    RequestTraits {
        accept: AcceptEncoding::parse(fields.all("accept-encoding")),
        is_http10: request.head.version == Version::Http10,
        is_secure: request.scheme() == Scheme::Https,
        no_transform: fields.has_token("cache-control", "no-transform"),
    }
}

fn is_feed(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}
