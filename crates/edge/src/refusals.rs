//! The errors that a listener responds with itself.

keepwarm_serve::error_responses! {
    /// No route of the listener matches the host and the path.
    NO_ROUTE = 404 "no_route", "Nothing was found at this host and path.";

    /// The path has `%2F`, `%5C`, `%3B`, `;`, `\\` or `//`, and an application that takes it for a separator would see a path of another route (see `docs/guide/routes.md`).
    AMBIGUOUS_PATH = 400 "ambiguous_path", "The path of this request can be understood in more than one way.";

    /// The route's `rewrite` makes a path of the request that is not in normal form: with a dot segment, for example.
    BAD_REWRITE = 400 "bad_rewrite", "The path of this request cannot be rewritten.";

    /// Routes match the host and the path, with other methods: `Allow` lists those.
    METHOD_NOT_ALLOWED = 405 "method_not_allowed", "This method is not supported at this path.";

    /// The instance, the listener or the app is under maintenance (`keepwarm maintenance on`).
    MAINTENANCE = 503 "maintenance", "The site is under maintenance. Please try again later.";

    /// The `allow` or `deny` of the route or the listener excludes the client's address.
    ADDRESS_DENIED = 403 "address_denied", "Access from your address is not allowed.";

    /// The route has `basic_auth`, and the request has no valid user and password.
    UNAUTHORIZED = 401 "unauthorized", "A user name and a password are required.";

    /// 64 passwords wait to be checked: somebody tries many. Add a `rate_limit` to the route.
    AUTH_BUSY = 503 "auth_busy", "Too many passwords are being checked.", retry after 1 s;

    /// The service of the route's `auth_request` is not reachable, has no free slot, or returned 503; the log has the cause (`auth_request_failed`).
    AUTH_UNAVAILABLE = 503 "auth_unavailable", "Your access cannot be checked at the moment.", retry after 1 s;

    /// The service of the route's `auth_request` did not respond within `auth_request.timeout`.
    AUTH_TIMEOUT = 503 "auth_timeout", "Checking your access took too long.", retry after 1 s;

    /// The service of the route's `auth_request` returned a 5xx, 304, two users, an invalid response or one over `auth_request.max_response`; the log has the cause (`auth_request_failed`).
    AUTH_FAILED = 502 "auth_failed", "Your access could not be checked.";

    /// The client has as many requests of the route in progress as `concurrency.per_client` allows.
    TOO_MANY_OF_CLIENT = 429 "client_concurrency", "Only {} requests at once are allowed here.", retry after 1 s;

    /// The route has as many requests in progress as `concurrency.total` allows, and none of them ended within `concurrency.wait`.
    TOO_MANY_OF_ROUTE = 503 "route_concurrency", "Too many requests are in progress here.", retry after 1 s;

    /// The app named another path in place of its response (RFC 3875 §6.2.2), more than ten times in a row or an invalid one; the log has it.
    LOCAL_REDIRECT = 502 "local_redirect", "The application returned a local redirect that cannot be followed.";

    /// The target of a `redirect` contains `{host}`, and the HTTP/1.0 request has none.
    REDIRECT_WITHOUT_HOST = 400 "redirect_without_host",
        "The redirect at this path requires a request with a host name.";

    /// A header of a `redirect` or `respond` is invalid. This is a bug: the configuration should have been rejected.
    BAD_FIELD_CONFIGURED = 500 "bad_field_in_response", "The server is misconfigured: {}.";

    /// There is no file of this name in the directory of the route.
    NO_FILE = 404 "no_file", "There is no such file.";

    /// The system does not allow Keepwarm's user to read the file.
    FILE_DENIED = 403 "file_denied", "The server is not allowed to read this file.";

    /// The name is one that is never served: of dot files, backups, sources, or denied by an `.htaccess` (see `docs/guide/files.md`).
    FILE_HIDDEN = 403 "file_hidden", "Access to this file is not allowed.";

    /// The file could not be opened, and exists: the log has the system's error.
    FILE_FAILED = 500 "file_failed", "The server could not read the file.";

    /// A file was requested with a method other than `GET` and `HEAD`.
    FILE_METHOD = 405 "method_not_allowed", "Only GET and HEAD are supported for a file.";

    /// `If-Match` or `If-Unmodified-Since` does not hold for the file (RFC 9110 §13.1).
    PRECONDITION_FAILED = 412 "precondition_failed", "The file does not meet the conditions of the request.";

    /// All ranges of the request lie after the end of the file (RFC 9110 §14.2).
    RANGE_NOT_SATISFIABLE = 416 "range_not_satisfiable", "The requested range is outside of the file.";

    /// The app named a file with `X-Accel-Redirect` or `X-Sendfile`, and set a header that cannot be sent with it.
    BAD_FIELD = 502 "bad_field", "The response has a header that cannot be sent.";

    /// The app named a file with `X-Accel-Redirect` or `X-Sendfile` that does not exist or is not below a declared directory; the log has it.
    HANDED_FILE = 502 "sendfile_failed", "The application named a file that cannot be sent.";
}
