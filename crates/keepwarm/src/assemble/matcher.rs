//! What routes match, with the patterns compiled.

use keepwarm_config as config;
use keepwarm_edge::{
    Conditions, Glob, HostPattern, PathPattern, PatternSet, RegularExpression, ValueCondition, ValuePattern,
};
use keepwarm_net::Scheme;

use super::cidr;

/// # Errors
/// An expression that cannot be compiled; the configuration has checked them before.
pub(super) fn host(pattern: &config::HostPattern) -> Result<HostPattern, String> {
    Ok(match pattern {
        config::HostPattern::Exact(host) => HostPattern::Exact(host.clone()),
        config::HostPattern::Suffix(suffix) => HostPattern::Below(suffix.clone()),
        config::HostPattern::Glob(glob) => HostPattern::Glob(Glob::new(glob)),
        config::HostPattern::Regex(regex) => HostPattern::Regex(RegularExpression::new(regex)?),
    })
}

/// # Errors
/// As [`host`].
pub(super) fn path(pattern: &config::PathPattern) -> Result<PathPattern, String> {
    Ok(match pattern {
        config::PathPattern::Any => PathPattern::Any,
        config::PathPattern::Exact(path) => PathPattern::Exact(path.clone()),
        config::PathPattern::Prefix(prefix) => PathPattern::Prefix(prefix.clone()),
        config::PathPattern::Glob(glob) => PathPattern::Glob(Glob::new(glob)),
        config::PathPattern::Regex(regex) => PathPattern::Regex(RegularExpression::new(regex)?),
    })
}

/// `None`: there are none.
///
/// # Errors
/// As [`host`].
pub(super) fn conditions(conditions: &config::Conditions) -> Result<Option<Box<Conditions>>, String> {
    if conditions.is_empty() {
        return Ok(None);
    }
    let values = |list: &[config::ValueCondition]| list.iter().map(value_condition).collect::<Result<_, _>>();
    Ok(Some(Box::new(Conditions {
        not_hosts: conditions.not_hosts.iter().map(host).collect::<Result<_, _>>()?,
        paths: set(&conditions.paths, path)?,
        headers: values(&conditions.headers)?,
        arguments: values(&conditions.query)?,
        cookies: values(&conditions.cookies)?,
        clients: set(&conditions.clients, |block| cidr(block).ok_or_else(|| block.to_string()))?,
        scheme: conditions.scheme.map(|scheme| match scheme {
            config::Scheme::Http => Scheme::Http,
            config::Scheme::Https => Scheme::Https,
        }),
    })))
}

fn value_condition(condition: &config::ValueCondition) -> Result<ValueCondition, String> {
    Ok(ValueCondition { name: condition.name.as_str().into(), values: set(&condition.values, value)? })
}

/// # Errors
/// As [`host`].
pub(super) fn value(pattern: &config::ValuePattern) -> Result<ValuePattern, String> {
    Ok(match pattern {
        config::ValuePattern::Exact(value) => ValuePattern::Exact(value.as_bytes().into()),
        config::ValuePattern::Glob(glob) => ValuePattern::Glob(Glob::new(glob)),
        config::ValuePattern::Regex(regex) => ValuePattern::Regex(RegularExpression::new(regex)?),
    })
}

fn set<P, Q>(
    set: &config::PatternSet<P>,
    compile: impl Fn(&P) -> Result<Q, String>,
) -> Result<PatternSet<Q>, String> {
    let compiled = |list: &[P]| list.iter().map(&compile).collect::<Result<_, _>>();
    Ok(PatternSet { any: compiled(&set.any)?, none: compiled(&set.none)? })
}
