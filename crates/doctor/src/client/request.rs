//! A request, as bytes.

/// A request: built field by field, sent as it is, whole or in parts.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request of HTTP/1.1 with these fields.
    #[must_use]
    pub fn new(method: &str, target: &str, fields: Vec<(String, String)>) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            fields,
            body: Vec::new(),
        }
    }

    /// As HTTP/1.0.
    #[must_use]
    pub fn http10(mut self) -> Self {
        self.version = "HTTP/1.0";
        self
    }

    /// With this field, in place of any of its name.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without this field.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// For another path.
    #[must_use]
    pub fn target(mut self, target: &str) -> Self {
        self.target = target.to_owned();
        self
    }

    /// With a body and its length.
    #[must_use]
    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.field("Content-Length", &body.len().to_string())
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The request line, for evidence: `GET /path HTTP/1.1`.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {} {}", self.method, self.target, self.version)
    }

    /// The head, with the empty line.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.line());
        for (name, value) in &self.fields {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// The body alone.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.body
    }

    /// Head and body.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
