/// A text with variables: `https://$host$path`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template(pub Vec<TemplatePiece>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePiece {
    /// This text.
    Text(String),
    /// The value of a variable.
    Variable(Variable),
}

/// What a variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `$host`: the request's host, with its port if it has one.
    Host,
    /// `$host_name`: the request's host without its port.
    HostName,
    /// `$path`: the normalized path with its first slash, without the prefix if `strip_prefix` is set.
    Path,
    /// `$query`: `?` and the query, or nothing if there is none.
    Query,
    /// `$args`: the query without `?`.
    Args,
    /// `$method`
    Method,
    /// `$scheme`: `http` or `https`.
    Scheme,
    /// `$client`: the client's address.
    Client,
    /// `$request_id`
    RequestId,
    /// `$1` to `$9`: what a `*` or a group of the route's path stands for.
    Capture(u8),
    /// `$header_NAME`: the first line of that name, which is in lower case with hyphens.
    Header(String),
    /// `$arg_NAME`: the first decoded value of that argument.
    Argument(String),
    /// `$cookie_NAME`: the first value of that cookie.
    Cookie(String),
    /// `$map_NAME`: the value of [`crate::VariableMap`] NAME.
    Map(String),
    /// In the access log only: `$status` of the response.
    Status,
    /// In the access log only: `$bytes` of the response's body.
    Bytes,
    /// In the access log only: `$seconds` that the request took.
    Seconds,
    /// In the access log only: `$time` of its end.
    Time,
    /// In the access log only: `$target`, as the client sent it.
    Target,
    /// In the access log only: `$version` of HTTP.
    Version,
    /// In the access log only: `$route`, the app, upstream or kind of response.
    Route,
    /// In the access log only: `$reason` of a refusal, cut or retry.
    Reason,
    /// In the access log only: `$user` that the route has authenticated.
    User,
}

impl Template {
    /// The variables.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Variable(variable) => Some(variable),
            TemplatePiece::Text(_) => None,
        })
    }

    /// The number of the highest `$1` to `$9` in it, or 0.
    pub fn captures(&self) -> u8 {
        let numbers = self.variables().map(|variable| match variable {
            Variable::Capture(number) => *number,
            _ => 0,
        });
        numbers.max().unwrap_or(0)
    }
}
