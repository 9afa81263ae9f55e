//! What a worker is as a process: its user, its group, its mask, its limits.

use crate::checker::Checker;
use crate::json::Json;
use crate::key::{Describe, Info, Shape};
use crate::raw::{Directive, Span, Value};
use crate::sources::{Account, Resource};

/// `user`: one that the system knows.
pub(crate) struct Users;

/// `group`: one that the system knows.
pub(crate) struct Groups;

/// `umask`: octal digits.
pub(crate) struct Mask;

/// What the inner shape reads, if this process may set it for others.
pub(crate) struct Limited<S>(pub(crate) Resource, pub(crate) S);

impl Describe for Users {
    fn expected(&self) -> String {
        "the name or number of a user of this system, in quotes".to_owned()
    }

    fn type_name(&self) -> String {
        "name or number in quotes".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for Users {
    type Out = (Account, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<(Account, Span)> {
        let name = name(directive, cx)?;
        match cx.sources.user(&name) {
            Some(account) => Some((account, directive.span)),
            None => unknown(directive, &name, "user", cx),
        }
    }
}

impl Describe for Groups {
    fn expected(&self) -> String {
        "the name or number of a group of this system, in quotes".to_owned()
    }

    fn type_name(&self) -> String {
        "name or number in quotes".to_owned()
    }

    fn schema(&self) -> Json {
        Json::of_type("string")
    }
}

impl Shape for Groups {
    type Out = (u32, Span);

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<(u32, Span)> {
        let name = name(directive, cx)?;
        match cx.sources.group(&name) {
            Some(group) => Some((group, directive.span)),
            None => unknown(directive, &name, "group", cx),
        }
    }
}

fn name(directive: &Directive, cx: &mut Checker<'_>) -> Option<String> {
    if let Value::Integer(number) = directive.value {
        let problem =
            cx.wrong(directive.span, "is a number").help(format!("write it in quotes: \"{number}\""));
        cx.push(problem);
        return None;
    }
    Some(cx.text(directive)?.text.clone())
}

fn unknown<T>(directive: &Directive, name: &str, what: &str, cx: &mut Checker<'_>) -> Option<T> {
    let quoted = match &directive.value {
        Value::Text(text) => cx.quote(text),
        _ => format!("`{name}`"),
    };
    let problem = cx
        .wrong(directive.span, &format!("is {quoted}, but there is no such {what}"))
        .help(format!("`getent {0}` lists them", if what == "user" { "passwd" } else { "group" }));
    cx.push(problem);
    None
}

impl Describe for Mask {
    fn expected(&self) -> String {
        "octal digits in quotes, up to \"777\"".to_owned()
    }

    fn type_name(&self) -> String {
        "octal digits in quotes".to_owned()
    }

    fn schema(&self) -> Json {
        Json::pattern("^0?[0-7]{1,3}$")
    }
}

impl Shape for Mask {
    type Out = u32;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u32> {
        if let Value::Integer(number) = directive.value {
            let problem = cx
                .wrong(directive.span, "is a number, whose digits would not be read as octal")
                .help(format!("write the mask in quotes: \"{number:03o}\" is this value in octal"));
            cx.push(problem);
            return None;
        }
        let text = cx.text(directive)?;
        let digits = text.text.as_str();
        let octal =
            (1..=4).contains(&digits.len()) && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let mask = u32::from_str_radix(digits, 8).ok().filter(|&mask| octal && mask <= 0o777);
        if mask.is_none() {
            let quoted = cx.quote(text);
            let problem = cx.wrong(directive.span, &format!("is {quoted}"));
            cx.push(problem);
        }
        mask
    }
}

impl<S: Describe> Describe for Limited<S> {
    fn expected(&self) -> String {
        self.1.expected()
    }

    fn type_name(&self) -> String {
        self.1.type_name()
    }

    fn schema(&self) -> Json {
        self.1.schema()
    }

    fn children(&self, path: &str) -> Vec<Info> {
        self.1.children(path)
    }
}

impl<S: Shape> Shape for Limited<S>
where
    S::Out: Into<u64> + Copy,
{
    type Out = u64;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u64> {
        let value = self.1.read(directive, cx)?.into();
        match cx.sources.hard_limit(self.0) {
            Some(hard) if value > hard => {
                let problem = cx
                    .wrong(directive.span, &format!("is above the hard limit of this process, which is {hard}"))
                    .help("raise that limit (systemd: Limit…=, a container: --ulimit), or start Keepwarm as root");
                cx.push(problem);
                None
            }
            _ => Some(value),
        }
    }
}

/// Seconds of processor time, as a limit counts them: whole ones.
pub(crate) struct Seconds;

const TIME: super::Time = super::Time {
    min: std::time::Duration::from_secs(1),
    max: std::time::Duration::from_secs(365 * 24 * 3600),
};

impl Describe for Seconds {
    fn expected(&self) -> String {
        TIME.expected()
    }

    fn type_name(&self) -> String {
        TIME.type_name()
    }

    fn schema(&self) -> Json {
        TIME.schema()
    }
}

impl Shape for Seconds {
    type Out = u64;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<u64> {
        TIME.read(directive, cx).map(|time| time.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
    }
}
