//! The trace that a call is part of (W3C Trace Context, level 1).

use keepwarm_http1::Fields;
use keepwarm_serve::Request;
use keepwarm_telemetry::trace::TRACEPARENT_LEN;
use keepwarm_telemetry::{RequestId, TraceContext};

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// What a call says about its trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace {
    context: TraceContext,
    /// It was begun here: a `tracestate` without its `traceparent` is of no trace (§4.3).
    begun: bool,
}

impl Trace {
    /// Of a call: the trace it names, or a new one.
    pub(crate) fn of(request: &Request) -> Self {
        match named(&request.head.fields) {
            Some(context) => Self { context, begun: false },
            None => Self { context: TraceContext::of(RequestId::new(request.number())), begun: true },
        }
    }

    /// The field of one attempt, which gets a name of its own.
    pub(crate) fn field(&self) -> [u8; TRACEPARENT_LEN] {
        self.context.call(crate::random())
    }

    /// Whether a field of the call is not passed on.
    pub(crate) fn replaces(&self, lower_name: &[u8]) -> bool {
        lower_name == TRACEPARENT || (self.begun && lower_name == TRACESTATE)
    }

    pub(crate) fn id(&self) -> [u8; 32] {
        self.context.trace_id()
    }

    /// The name of the field.
    pub(crate) const NAME: &[u8] = TRACEPARENT;
}

/// The trace that fields name. Two `traceparent` name none: they are ambiguous.
fn named(fields: &Fields) -> Option<TraceContext> {
    let mut parents = fields.all("traceparent");
    let first = parents.next()?;
    if parents.next().is_some() {
        return None;
    }
    TraceContext::parse(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn one_that_is_well_formed_is_gone_on_with() {
        let mut fields = Fields::new();
        assert!(named(&fields).is_none());
        fields.push(b"traceparent", PARENT);
        assert!(named(&fields).is_some_and(|context| context.is_sampled()));
        fields.push(b"traceparent", PARENT);
        assert!(named(&fields).is_none());
    }

    #[test]
    fn a_state_goes_with_its_trace_only() {
        let context = TraceContext::parse(PARENT).unwrap();
        for (begun, dropped) in [(false, false), (true, true)] {
            let trace = Trace { context, begun };
            assert_eq!(trace.replaces(b"tracestate"), dropped);
            assert!(trace.replaces(b"traceparent") && !trace.replaces(b"tracer"));
            let field = trace.field();
            assert!(field.starts_with(&PARENT[..36]) && field.ends_with(b"-01") && field[..] != *PARENT);
        }
    }
}
