//! Converts the head of an HTTP/2 request to that of an HTTP/1.1 request (RFC 9113 §8.3), so that handlers need not distinguish them.

use http::Method;

use crate::bytes::trim;
use crate::fault::{Fault, FaultKind};
use crate::fields::Fields;
use crate::head::{Refusal, RequestBody, RequestHead, TargetForm, Version};
use crate::head_summary::HeadSummary;
use crate::limits::Limits;
use crate::request::ListenerKind;
use crate::target::{is_authority, parse_target};

/// The head of a request of HTTP/2, as its decoder has checked it: complete pseudo-fields, names in lower case, no field about the connection.
#[derive(Clone, Debug)]
pub struct Http2Head<'a, F> {
    /// `:method`
    pub method: &'a Method,
    /// `:authority`
    pub authority: Option<&'a [u8]>,
    /// `:path`
    pub path: &'a [u8],
    /// The other fields, in order.
    pub fields: F,
    /// Those of a head. Cookie crumbs count as fields.
    pub limits: Limits,
    /// No body follows.
    pub ended: bool,
    /// What the listener is.
    pub listener: ListenerKind,
    /// Extended CONNECT (RFC 8441).
    pub connect: Option<ExtendedConnect<'a>>,
}

/// Extended CONNECT (RFC 8441 §4): the rest of the request is that of a `GET` which offers to switch.
#[derive(Clone, Copy, Debug)]
pub struct ExtendedConnect<'a> {
    /// `:protocol`
    pub protocol: &'a [u8],
    /// The nonce of the WebSocket's opening in HTTP/1.1, which this one does not have (RFC 8441 §5).
    pub key: &'a [u8],
}

impl RequestHead {
    /// Fills the head in. Crumbs of cookies are joined (RFC 9113 §8.2.3), and the authority is put into `Host`.
    ///
    /// # Errors
    ///
    /// The client's fault, which concerns this request alone.
    pub fn fill_http2<'f>(
        &mut self,
        head: Http2Head<'_, impl Iterator<Item = (&'f [u8], &'f [u8])>>,
    ) -> Result<(), Fault> {
        self.fill_from(head).map_err(Fault::client)
    }

    fn fill_from<'f>(
        &mut self,
        head: Http2Head<'_, impl Iterator<Item = (&'f [u8], &'f [u8])>>,
    ) -> Result<(), FaultKind> {
        let Http2Head { method, authority, path, fields, limits, ended, listener, connect } = head;
        // The bytes that follow are the other protocol's.
        let ended = ended || *method == Method::CONNECT;
        if method.as_str().len() > Limits::METHOD {
            return Err(FaultKind::MethodTooLong);
        }
        // As if it had been sent in HTTP/1.1: an app must not get longer targets by the other version.
        if method.as_str().len() + path.len() + "  HTTP/1.1".len() > limits.request_line {
            return Err(FaultKind::RequestLineTooLong);
        }
        fill_fields(&mut self.fields, authority, fields, &limits, connect)?;
        let summary = HeadSummary::of(&self.fields, Version::Http11)?;
        match summary.hosts {
            0 => return Err(FaultKind::NoHost),
            1 if is_authority(summary.host) => {}
            1 => return Err(FaultKind::BadHost),
            _ => return Err(FaultKind::SeveralHosts),
        }
        self.host.clear();
        self.host.extend_from_slice(summary.host);
        self.body = match summary.length {
            _ if ended => RequestBody::None,
            Some(0) => RequestBody::None,
            Some(length) => RequestBody::Length(length),
            None => RequestBody::Chunked,
        };
        self.empty_body_declared = summary.length == Some(0);
        self.connection = Default::default();
        self.expects_continue = summary.expects_continue && self.body != RequestBody::None;
        let is_websocket = |connect: ExtendedConnect<'_>| connect.protocol.eq_ignore_ascii_case(b"websocket");
        self.upgrade = connect.is_some_and(is_websocket);
        self.refusal = match *method {
            Method::CONNECT if self.upgrade => None,
            Method::CONNECT if connect.is_some() => Some(Refusal::Protocol),
            Method::CONNECT if listener == ListenerKind::Origin => Some(Refusal::Connect),
            Method::CONNECT => None,
            Method::TRACE => Some(Refusal::Trace),
            _ if summary.expects_other => Some(Refusal::Expectation),
            _ => None,
        };
        self.listener = listener;
        // RFC 8441 §5: everything else is as in the GET of HTTP/1.1.
        let method = if connect.is_some() { &Method::GET } else { method };
        self.method = method.clone();
        self.version = Version::Http11;
        self.target.clear();
        self.target.extend_from_slice(if *method == Method::CONNECT { &self.host } else { path });
        (self.form, self.parts) = parse_target(method, &self.target, limits.raw_targets)?;
        match self.form {
            // RFC 9113 §8.3.1: `:path` is path and query.
            TargetForm::Absolute => Err(FaultKind::BadTarget),
            TargetForm::Origin | TargetForm::Authority | TargetForm::Asterisk => Ok(()),
        }
    }
}

fn fill_fields<'f>(
    all: &mut Fields,
    authority: Option<&[u8]>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    limits: &Limits,
    connect: Option<ExtendedConnect<'_>>,
) -> Result<(), FaultKind> {
    all.clear();
    if let Some(authority) = authority {
        all.push(b"host", authority);
    }
    let (mut count, mut bytes, mut cookies, mut has_host) = (0, 0, Vec::new(), false);
    for (name, value) in fields {
        count += 1;
        // RFC 9113 §8.2.1: white space at the ends may not go further. In HTTP/1.1 it is not part of the value.
        let value = trim(value);
        bytes += name.len() + value.len() + ": \r\n".len();
        match name {
            // Of the opening in HTTP/1.1 only, or about a body that there is not.
            b"sec-websocket-key" | b"sec-websocket-accept" | b"upgrade" | b"content-length" | b"expect"
                if connect.is_some() => {}
            b"cookie" => {
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value);
            }
            // RFC 9113 §8.3.1: it may accompany `:authority`, and must then have the same value.
            // More than one is a fault in any version (RFC 9110 §7.2).
            b"host" if std::mem::replace(&mut has_host, true) => return Err(FaultKind::SeveralHosts),
            b"host" => match authority {
                Some(authority) if authority.eq_ignore_ascii_case(value) => {}
                Some(_) => return Err(FaultKind::SeveralHosts),
                None => all.push(name, value),
            },
            _ => all.push(name, value),
        }
    }
    if count > limits.fields {
        return Err(FaultKind::TooManyFields);
    }
    if bytes > limits.header_block {
        return Err(FaultKind::HeaderBlockTooLarge);
    }
    if !cookies.is_empty() {
        all.push(b"cookie", &cookies);
    }
    if let Some(ExtendedConnect { protocol, key }) = connect {
        all.push(b"upgrade", protocol);
        all.push(b"sec-websocket-key", key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(
        method: &Method,
        authority: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
        ended: bool,
    ) -> Result<RequestHead, &'static str> {
        let mut head = RequestHead::default();
        head.fill_http2(Http2Head {
            method,
            authority: authority.map(str::as_bytes),
            path: path.as_bytes(),
            fields: fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            limits: Limits { fields: 4, request_line: 40, header_block: 60, ..Limits::default() },
            ended,
            listener: ListenerKind::Origin,
            connect: None,
        })
        .map(|()| head)
        .map_err(|fault| fault.name())
    }

    #[test]
    fn the_parts_of_a_head_are_where_those_of_http_1_are() {
        let fields = [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")];
        let head = filled(&Method::GET, Some("a.test:81"), "/x%2F?y", &fields, true).unwrap();
        assert_eq!(
            (head.authority(), head.path(), head.query()),
            (&b"a.test:81"[..], &b"/x%2F"[..], Some(&b"y"[..]))
        );
        assert_eq!(head.fields.first("host"), Some(&b"a.test:81"[..]));
        assert_eq!(head.fields.all("cookie").collect::<Vec<_>>(), [b"a=1; b=2"]);
        assert_eq!((head.body, head.version, head.refusal), (RequestBody::None, Version::Http11, None));
    }

    #[test]
    fn white_space_at_the_ends_is_not_part_of_a_value() {
        let fields = [("x", " \ta b\t "), ("y", " "), ("cookie", " a=1 "), ("cookie", "b=2\t")];
        let head = filled(&Method::GET, Some("a"), "/", &fields, true).unwrap();
        for (name, value) in [("x", "a b"), ("y", ""), ("cookie", "a=1; b=2")] {
            assert_eq!(head.fields.first(name), Some(value.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_body_is_framed_by_its_length_or_by_its_end() {
        let framing = |fields: &[(&str, &str)], ended| {
            filled(&Method::POST, Some("a"), "/", fields, ended).map(|head| head.body)
        };
        assert_eq!(framing(&[("content-length", "5")], false), Ok(RequestBody::Length(5)));
        assert_eq!(framing(&[("content-length", "0")], false), Ok(RequestBody::None));
        assert_eq!(framing(&[], false), Ok(RequestBody::Chunked));
        assert_eq!(framing(&[], true), Ok(RequestBody::None));
        assert_eq!(framing(&[("content-length", "x")], false), Err("bad_content_length"));
    }

    #[test]
    fn host_and_authority_must_agree() {
        let host = |authority, fields: &[(&str, &str)]| {
            filled(&Method::GET, authority, "/", fields, true).map(|head| head.authority().to_vec())
        };
        assert_eq!(host(Some("a"), &[("host", "A")]), Ok(b"a".to_vec()));
        assert_eq!(host(None, &[("host", "b")]), Ok(b"b".to_vec()));
        assert_eq!(host(Some("a"), &[("host", "b")]), Err("several_hosts"));
        assert_eq!(host(Some("a"), &[("host", "a"), ("host", "a")]), Err("several_hosts"));
        assert_eq!(host(None, &[("host", "a"), ("host", "a")]), Err("several_hosts"));
        assert_eq!(host(None, &[]), Err("no_host"));
        assert_eq!(host(Some("u@a"), &[]), Err("bad_host"));
    }

    #[test]
    fn an_extended_connect_is_the_get_that_offers_a_websocket() {
        let fields = [
            ("sec-websocket-key", "theirs"),
            ("sec-websocket-version", "13"),
            ("content-length", "5"),
            ("origin", "http://a"),
        ];
        let filled = |protocol: &'static str, listener| {
            let mut head = RequestHead::default();
            let connect = ExtendedConnect { protocol: protocol.as_bytes(), key: b"ours" };
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            head.fill_http2(Http2Head {
                method: &Method::CONNECT,
                authority: Some(b"a.test"),
                path: b"/chat?x",
                fields,
                limits: Limits::default(),
                ended: false,
                listener,
                connect: Some(connect),
            })
            .map(|()| head)
        };
        let head = filled("websocket", ListenerKind::Origin).unwrap();
        assert_eq!((&head.method, head.path(), head.query()), (&Method::GET, &b"/chat"[..], Some(&b"x"[..])));
        assert_eq!((head.body, head.refusal, head.upgrade), (RequestBody::None, None, true));
        assert_eq!(head.upgrade_protocols().collect::<Vec<_>>(), [b"websocket"]);
        assert_eq!(head.fields.all("sec-websocket-key").collect::<Vec<_>>(), [b"ours"]);
        assert_eq!(head.fields.first("sec-websocket-version"), Some(&b"13"[..]));
        assert_eq!(head.fields.first("content-length"), None);
        let other = filled("connect-udp", ListenerKind::ForwardProxy).unwrap();
        assert_eq!((other.refusal, other.upgrade), (Some(Refusal::Protocol), false));
    }

    #[test]
    fn targets_and_methods_are_judged_as_in_http_1() {
        let refusal = |method: &Method, path: &str| {
            filled(method, Some("a:1"), path, &[], true).map(|head| head.refusal)
        };
        assert_eq!(refusal(&Method::OPTIONS, "*"), Ok(None));
        assert_eq!(refusal(&Method::CONNECT, ""), Ok(Some(Refusal::Connect)));
        assert_eq!(refusal(&Method::TRACE, "/"), Ok(Some(Refusal::Trace)));
        assert_eq!(refusal(&Method::GET, "http://a/"), Err("bad_target"));
        assert_eq!(refusal(&Method::GET, "/ "), Err("bad_target"));
        assert_eq!(refusal(&Method::GET, &format!("/{}", "x".repeat(26))), Ok(None));
        assert_eq!(refusal(&Method::GET, &format!("/{}", "x".repeat(27))), Err("request_line_too_long"));
        let block = |value: &str| filled(&Method::GET, Some("a"), "/", &[("a", value)], true).err();
        assert_eq!(block(&"x".repeat(55)), None);
        assert_eq!(block(&"x".repeat(56)), Some("header_block_too_large"));
        let many = [("a", ""), ("b", ""), ("c", ""), ("cookie", ""), ("cookie", "")];
        assert_eq!(filled(&Method::GET, Some("a"), "/", &many, true).err(), Some("too_many_fields"));
    }
}
