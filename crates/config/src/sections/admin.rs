use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Bind, Secret};
use crate::raw::Span;
use crate::shape::{BindAddresses, Token};

/// `[admin]` before the checks of the whole file, with the spans that these checks report.
#[derive(Default)]
pub(crate) struct AdminDraft {
    pub(crate) bind: Vec<(Bind, Span)>,
    pub(crate) token: Option<Secret>,
}

pub(crate) static ADMIN: Section<AdminDraft> = Section {
    keys: &[
        Key {
            name: "bind",
            brief: "Addresses that serve health, metrics and status",
            long: "Same format as `bind` of a listener: one address or a list. On an address of this machine (`127.0.0.1`, `[::1]`, `localhost`, `unix:`), everybody may read; on any other, `token` is required. Requests that change something need a Unix socket or the token.",
            default: DefaultValue::Required,
            right: "bind = \"127.0.0.1:9090\"",
            wrong: "bind = \"9090\"",
            value: &Set(BindAddresses, |admin: &mut AdminDraft, bind| admin.bind = bind),
            ..Key::LIVE
        },
        Key {
            name: "token",
            brief: "Token that clients send as `Authorization: Bearer TOKEN`",
            long: "Required for reading from another machine, and for changes over anything other than a Unix socket. At least 16 characters. Keep it out of the file: `token = \"${file:/run/secrets/keepwarm}\"`.",
            default: DefaultValue::Words(
                "none: reads from this machine only, changes over a Unix socket only",
            ),
            right: "token = \"0123456789abcdef0123456789abcdef\"",
            wrong: "token = \"short\"",
            value: &Set(Token, |admin: &mut AdminDraft, token| admin.token = Some(token)),
            ..Key::LIVE
        },
    ],
};
