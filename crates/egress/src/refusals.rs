//! The errors that doors, routes to upstreams and the forward proxy respond with themselves.

keepwarm_serve::error_responses! {
    /// The call came from a page of another site (`Origin`, `Sec-Fetch-Site`): browsers must not use a door.
    FOREIGN_ORIGIN = 403 "foreign_origin", "Requests from pages of other sites are not allowed here.";

    /// `Host` is neither loopback nor an address of `upstream.NAME.bind`: this protects against DNS rebinding.
    FOREIGN_HOST = 403 "foreign_host",
        "This host name is not accepted here: use the address of the upstream's `bind`, or localhost.";

    /// The request has passed through Keepwarm 16 times (RFC 5842 §7.2): correct the `url` of the upstream.
    LOOP = 508 "loop", "The request has passed through Keepwarm 16 times: an upstream leads back to it.";

    /// `limits.in_flight` calls run and `limits.queue` calls wait.
    QUEUE_FULL = 503 "queue_full", "Upstream {} is at its limit ({}{} queued).", retry after 1 s;

    /// The call waited for `limits.queue_timeout` and got no slot (`limits.in_flight`).
    QUEUE_TIMEOUT = 503 "queue_timeout", "Upstream {} is at its limit: no slot became free within {}.", retry after 1 s;

    /// The call waited for a slot (`limits.in_flight`) until its `timeout`.
    TIMEOUT = 504 "timeout", "Upstream {} is at its limit: no slot became free within the call timeout of {}.";

    /// No endpoint is known: the name lookup failed, or found no address.
    NO_ENDPOINT = 503 "no_endpoint", "Upstream {} has no endpoint to call: {}.", retry after 1 s;

    /// The upstream did not respond to the calls before (`breaker`). `Retry-After` is the time until it is probed.
    BREAKER_OPEN = 503 "breaker_open", "Upstream {} has failed repeatedly, and its breaker is open.";

    /// The upstream's response has a header with an invalid name or value.
    BAD_FIELD = 502 "bad_field", "The response of upstream {} cannot be passed on: {}.";

    /// The client has used up its rate limit (RFC 6585 §4). `Retry-After` is the time until the next request.
    RATE_LIMITED = 429 "rate_limited", "Too many requests: rate limit {} is reached; try again in {} s.";

    /// The shared store of the rate limit does not respond, and `on_store_failure` is `"refuse"`. The reason says how it failed: `store_unreachable`, `store_timeout`, `store_refused`, `store_busy`.
    STORE_FAILED = 503 "store_unreachable",
        "Rate limit {} cannot be checked: {}; requests are refused until it can be.";

    /// `forward_proxy.allow` does not list the host, or lists it and not its address.
    PROXY_DENIED = 403 "proxy_denied", "This proxy does not allow {}: forward_proxy.allow does not list it.";

    /// The forward proxy could not look the host up.
    HOST_UNKNOWN = 502 "host_unknown", "{}.";

    /// The forward proxy cannot call the host; the sentence says why.
    HOST_UNUSABLE = 502 "host_unusable", "{}.";

    /// `CONNECT` without a host and a port, or with a body.
    BAD_CONNECT = 400 "bad_connect", "CONNECT requires a host and a port, and must not have a body.";

    /// A target whose host and port are not valid, to the forward proxy.
    BAD_AUTHORITY = 400 "bad_authority", "The request target has no valid host and port.";

    /// The host of a `CONNECT` refused the connection.
    CONNECT_FAILED = 502 "connect_failed", "Cannot connect to {}: {}.";

    /// The host of a `CONNECT` did not accept the connection in time.
    CONNECT_TIMEOUT = 504 "connect_timeout", "Cannot connect to {} within {}.";
}
