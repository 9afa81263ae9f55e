//! Properties of a worker process: user, group, umask, resource limits.

use std::time::Duration;

use super::Time;
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::Shape;
use crate::raw::{Directive, Span, Value};
use crate::sources::{Account, Resource, Sources};

/// The name or number of a user or group of the system.
pub(crate) struct SystemName<V> {
    noun: &'static str,
    /// The database of getent(1).
    database: &'static str,
    lookup: fn(&dyn Sources, &str) -> Option<V>,
}

/// `user`
pub(crate) const USER: SystemName<Account> =
    SystemName { noun: "user", database: "passwd", lookup: |sources, name| sources.user(name) };

/// `group`
pub(crate) const GROUP: SystemName<u32> =
    SystemName { noun: "group", database: "group", lookup: |sources, name| sources.group(name) };

/// `umask`: octal digits.
pub(crate) struct Umask;

/// The value of another shape, if this process may set it as a resource limit.
pub(crate) struct ResourceLimit<S>(pub(crate) Resource, pub(crate) S);

impl<V> Describe for SystemName<V> {
    fn description(&self) -> Description {
        let expected = format!("the name or number of a {} of this system, in quotes", self.noun);
        Description::new(expected, "name or number in quotes", Json::of_type("string"))
    }
}

impl<V> Shape for SystemName<V> {
    type Out = (V, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<(V, Span)> {
        if let Value::Integer(number) = directive.value {
            return cx
                .wrong(directive.span, "is a number")
                .help(format!("write it in quotes: \"{number}\""))
                .reject(cx);
        }
        let name = cx.text(directive)?;
        if let Some(value) = (self.lookup)(cx.sources, &name.text) {
            return Some((value, directive.span));
        }
        let what = format!("is {}, but there is no such {}", cx.quote(name), self.noun);
        cx.wrong(directive.span, &what).help(format!("`getent {}` lists them", self.database)).reject(cx)
    }
}

impl Describe for Umask {
    fn description(&self) -> Description {
        Description::new(
            "octal digits in quotes, up to \"777\"",
            "octal digits in quotes",
            Json::pattern("^0?[0-7]{1,3}$"),
        )
    }
}

impl Shape for Umask {
    type Out = u32;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u32> {
        if let Value::Integer(number) = directive.value {
            return cx
                .wrong(directive.span, "is a number, whose digits would not be read as octal")
                .help(format!("write the mask in quotes: \"{number:03o}\" is this value in octal"))
                .reject(cx);
        }
        let text = cx.text(directive)?;
        let digits = text.text.as_str();
        let octal =
            (1..=4).contains(&digits.len()) && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        if let Some(mask) = u32::from_str_radix(digits, 8).ok().filter(|&mask| octal && mask <= 0o777) {
            return Some(mask);
        }
        let quoted = cx.quote(text);
        cx.wrong(directive.span, &format!("is {quoted}")).reject(cx)
    }
}

impl<S: Describe> Describe for ResourceLimit<S> {
    fn description(&self) -> Description {
        self.1.description()
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.1.children(path)
    }
}

impl<S: Shape> Shape for ResourceLimit<S>
where
    S::Out: Into<u64> + Copy,
{
    type Out = u64;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u64> {
        let value = self.1.read(directive, cx)?.into();
        match cx.sources.hard_limit(self.0) {
            Some(hard) if value > hard => cx
                .wrong(directive.span, &format!("is above the hard limit of this process, which is {hard}"))
                .help("raise that limit (systemd: Limit…=, a container: --ulimit), or start Keepwarm as root")
                .reject(cx),
            _ => Some(value),
        }
    }
}

/// A time in whole seconds, which is the unit of RLIMIT_CPU.
pub(crate) struct CpuSeconds;

const TIME: Time = Time(Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3600));

impl Describe for CpuSeconds {
    fn description(&self) -> Description {
        TIME.description()
    }
}

impl Shape for CpuSeconds {
    type Out = u64;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u64> {
        TIME.read(directive, cx).map(|time| time.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
    }
}
