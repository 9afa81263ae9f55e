//! Heads: the request's as it is sent to the upstream, the response's as it is passed on.

use std::borrow::Cow;

use keepwarm_http1::{HopByHop, ResponseHead};
use keepwarm_net::{Call, CallHead, Scheme};
use keepwarm_serve::{FieldNames, MAX_FORWARDS, Request, forwards_left, request_target, response_fields};

use crate::origin::Origin;
use crate::stats::{SERVER_TIMING, ServerTiming, Trace};

/// How a door, a route or a forward proxy forwards its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardOptions<'m> {
    /// What goes as `Host`.
    pub(crate) host: HostSource<'m>,
    /// The path goes as a route has normalized it, instead of as it came; and fields say who the client is.
    pub(crate) routed: bool,
    /// `Via` is added to requests and responses. Without this, a route may still have it added to requests.
    pub(crate) via: bool,
    /// Redirects to the upstream's own origin come back here.
    pub(crate) returns_redirects: bool,
    /// The upstream decides about expectations; otherwise we accept them for it.
    pub(crate) forwards_expectation: bool,
    /// Responses carry `Server-Timing`.
    pub(crate) says_timing: bool,
    /// An app calls, perhaps for a request.
    pub(crate) is_of_app: bool,
}

/// Where the value of `Host` comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HostSource<'m> {
    /// The endpoint's own.
    Endpoint,
    /// The client's, as it came.
    Client,
    /// This one.
    Fixed(&'m [u8]),
}

/// Our name in the `Via` of a response (RFC 9110 §7.6.3).
pub(crate) const VIA: (&[u8], &[u8]) = (b"via", b"1.1 keepwarm");
/// Where the route has stripped a prefix, what it was.
const PREFIX: &[u8] = b"x-forwarded-prefix";

/// What an attempt adds to the head of the client's request.
pub(super) struct HeadContext<'o> {
    pub(super) scheme: Scheme,
    /// The endpoint's.
    pub(super) authority: &'o [u8],
    pub(super) framing: keepwarm_http1::RequestBody,
    pub(super) expects: bool,
    pub(super) upgrade: Option<&'o [u8]>,
    pub(super) websocket_accept: Option<&'o str>,
    pub(super) trace: Trace,
    /// The name of the attempt in it.
    pub(super) span: u64,
}

impl ForwardOptions<'_> {
    /// Begins the call.
    pub(super) fn begin(&self, call: &mut Call, request: &Request, context: &HeadContext<'_>) {
        let head = &request.head;
        let authority = match self.host {
            HostSource::Fixed(host) => host,
            HostSource::Endpoint => context.authority,
            // HTTP/1.0 may have none, and 1.1 must.
            HostSource::Client if head.authority().is_empty() => context.authority,
            HostSource::Client => head.authority(),
        };
        let target = self.target(request);
        let hop_by_hop = HopByHop::of(&head.fields);
        let (routed, mounted) = (self.routed, self.routed && request.mount() > 0);
        let (trace, traceparent) = (context.trace, context.trace.field(context.span));
        let is_traced = request.notes.trace.is_some();
        let forwards = forwards_left(head);
        let counts = forwards.is_some();
        let dropped = move |name: &[u8]| {
            hop_by_hop.removes(name)
                || trace.replaces(name)
                || (routed && request.drops_field(name, FieldNames::Http))
                || (mounted && name == PREFIX)
                || (counts && name == MAX_FORWARDS)
        };
        let theirs = head.fields.iter().filter(move |(name, _)| !dropped(name));
        let prefix = request.path().get(..request.mount()).filter(|_| mounted).map(|prefix| (PREFIX, prefix));
        let forwards = forwards.as_ref().map(|left| (MAX_FORWARDS, left.as_bytes()));
        let via = (self.via || (self.routed && request.passing().via)).then(|| request.via());
        let ours = [Some((Trace::NAME, traceparent.as_slice())), prefix, forwards, via];
        // An app would get the span of the request as its parent, an upstream gets that of the attempt.
        let extra = request.extra_fields.iter().filter(move |(name, _)| !is_traced || *name != Trace::NAME);
        let fields = theirs.chain(extra).chain(ours.into_iter().flatten());
        call.begin(CallHead {
            method: &head.method,
            scheme: context.scheme,
            authority,
            target: &target,
            fields,
            framing: context.framing,
            expect: context.expects,
            te_trailers: head.fields.has_token("te", "trailers"),
            upgrade: context.upgrade,
            websocket_accept: context.websocket_accept,
        });
    }

    /// Path and query as the upstream gets them.
    pub(super) fn target<'r>(&self, request: &'r Request) -> Cow<'r, [u8]> {
        if self.routed { Cow::Owned(request_target(request)) } else { received_target(request) }
    }

    /// What says that we have passed a response on.
    pub(super) fn names_us(&self) -> Option<(&'static [u8], &'static [u8])> {
        self.via.then_some(VIA)
    }

    /// The fields of a response as the client gets them; `location` in place of the one that came.
    pub(super) fn response_fields<'h>(
        &self,
        head: &'h ResponseHead,
        location: Option<&'h [u8]>,
        timing: Option<&'h ServerTiming>,
    ) -> impl Iterator<Item = (&'h [u8], &'h [u8])> + Clone {
        let rewritten = move |(name, value)| match location {
            Some(location) if name == b"location" => (name, location),
            _ => (name, value),
        };
        let timing = timing.map(|timing| (SERVER_TIMING.as_bytes(), timing.value()));
        response_fields(head).map(rewritten).chain(self.names_us()).chain(timing)
    }

    /// Where a redirect leads that would lead past the door: to the door.
    pub(super) fn location(
        &self,
        head: &ResponseHead,
        request: &Request,
        scheme: Scheme,
        authority: &str,
    ) -> Option<Vec<u8>> {
        if !self.returns_redirects {
            return None;
        }
        let location = head.fields.first("location")?;
        // It goes by the name it was called by, too.
        let called = match self.host {
            HostSource::Fixed(host) => std::str::from_utf8(host).ok(),
            HostSource::Endpoint | HostSource::Client => None,
        };
        let its_own = |authority: &str| Origin::new(scheme, authority)?.strip_from(location);
        let rest = its_own(authority).or_else(|| its_own(called?))?;
        let authority = request.head.authority();
        let mut local = Vec::with_capacity(authority.len() + rest.len() + 8);
        if !authority.is_empty() {
            local.extend_from_slice(request.peer().scheme.as_str().as_bytes());
            local.extend_from_slice(b"://");
            local.extend_from_slice(authority);
        }
        if !rest.starts_with(b"/") {
            local.push(b'/');
        }
        local.extend_from_slice(rest);
        Some(local)
    }
}

/// Path and query as they came, in origin form.
fn received_target(request: &Request) -> Cow<'_, [u8]> {
    let head = &request.head;
    if !head.names_authority() {
        return Cow::Borrowed(head.target());
    }
    let mut target = head.path().to_vec();
    if let Some(query) = head.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    Cow::Owned(target)
}
