/// What matters about the head of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseTraits<'f> {
    /// Its `Content-Type`.
    pub content_type: Option<&'f [u8]>,
    /// Its `ETag`.
    pub etag: Option<&'f [u8]>,
    /// It has a `Content-Encoding`, `identity` included.
    pub is_encoded: bool,
    /// Its `Content-Encoding` is `identity`: the app's word for "do not compress". It is not sent (RFC 9110 §8.4.1: reserved for
    /// `Accept-Encoding`).
    pub is_identity: bool,
    /// `Cache-Control: no-transform` (RFC 9111 §5.2.2.6).
    pub no_transform: bool,
    /// It sets a cookie.
    pub sets_cookie: bool,
    /// A digest or signature of its bytes as they are: `Content-MD5`, `Digest`, and those of RFC 9530 and RFC 9421.
    pub is_signed: bool,
    /// It has a `Content-Range`.
    pub is_part: bool,
    /// Its `Vary` names `Accept-Encoding`, or everything.
    pub varies: bool,
}

impl<'f> ResponseTraits<'f> {
    /// Reads the fields, with names in any case.
    pub fn of(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Self {
        let mut found = Self::default();
        fields.for_each(|(name, value)| found.note(name, value));
        found
    }

    /// Whether it is several parts of something of another type (RFC 9110 §14.6).
    pub(super) fn is_multipart(&self) -> bool {
        const TYPE: &[u8] = b"multipart/byteranges";
        let start = self.content_type.and_then(|content_type| content_type.get(..TYPE.len()));
        start.is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
    }

    /// By length first: that alone rules out nearly every other field.
    fn note(&mut self, name: &[u8], value: &'f [u8]) {
        let is = |lower: &str| name.eq_ignore_ascii_case(lower.as_bytes());
        match name.len() {
            4 if is("etag") => self.etag = Some(value),
            4 if is("vary") => self.varies |= has_member(value, &["*", "accept-encoding"]),
            6 if is("digest") => self.is_signed = true,
            9 if is("signature") => self.is_signed = true,
            10 if is("set-cookie") => self.sets_cookie = true,
            11 if is("content-md5") || is("repr-digest") => self.is_signed = true,
            12 if is("content-type") => self.content_type = Some(value),
            13 if is("cache-control") => self.no_transform |= has_member(value, &["no-transform"]),
            13 if is("content-range") => self.is_part = true,
            14 if is("content-digest") => self.is_signed = true,
            16 if is("content-encoding") => {
                self.is_identity = !self.is_encoded && value.trim_ascii().eq_ignore_ascii_case(b"identity");
                self.is_encoded = true;
            }
            _ => {}
        }
    }
}

/// Whether a comma-separated list has one of these members, in any case.
fn has_member(list: &[u8], members: &[&str]) -> bool {
    list.split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|member| members.iter().any(|known| member.eq_ignore_ascii_case(known.as_bytes())))
}
