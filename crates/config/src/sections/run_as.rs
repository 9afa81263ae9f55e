//! `user` and `group` of apps and processes, with those of `[server]` as defaults.

use std::path::Path;

use crate::checker::Checker;
use crate::model::Server;
use crate::raw::{Span, Table};
use crate::sources::Account;

/// Where root has been left without them.
const ADD_CAPABILITIES: &str = "containers: add SETUID, SETGID, KILL, CHOWN and DAC_OVERRIDE (`cap_add`, `--cap-add`, `capabilities.add`); systemd: the same with CAP_ in `CapabilityBoundingSet=`";

/// `user` and `group` before the checks.
pub(crate) struct RunAsDraft {
    pub(crate) user: Option<(Account, Span)>,
    pub(crate) group: Option<(u32, Span)>,
    /// The user and group of `[server]`.
    default_user: Option<Account>,
    default_group: Option<u32>,
}

impl RunAsDraft {
    pub(crate) fn new(server: &Server) -> RunAsDraft {
        RunAsDraft { user: None, group: None, default_user: server.user.clone(), default_group: server.group }
    }

    /// The user that `runs` (“the workers of `app.shop`”) gets, if it is not that of this process; checks that it can
    /// run as that user in this directory. `section` is the span of its name.
    pub(crate) fn resolve(
        &self,
        runs: &str,
        directory: &Path,
        section: Span,
        table: &Table,
        cx: &mut Checker<'_>,
    ) -> Option<Account> {
        let own = cx.sources.credentials();
        let user = self.user.as_ref().map(|(user, _)| user).or(self.default_user.as_ref()).cloned();
        // The group of `[server]` belongs to its user: a section with its own user gets that user's group.
        let default_group = self.default_group.filter(|_| self.user.is_none());
        let group = self.group.map(|(group, _)| group).or(default_group);
        if user.is_none() && group.is_none() {
            return None;
        }
        let span = self.user.as_ref().map(|(_, span)| *span).or(self.group.map(|(_, span)| span));
        let mut account = user.unwrap_or_else(|| {
            cx.sources.user(&own.uid.to_string()).unwrap_or_else(|| Account::from_uid(own.uid))
        });
        account.gid = group.unwrap_or(account.gid);
        if (account.uid, account.gid) == (own.uid, own.gid) && !own.may_change {
            // The process already has this user and group, and keeps its supplementary groups.
            return None;
        }
        if !own.may_change {
            let whom = match account.uid == own.uid {
                true => "in a group other than Keepwarm's own".to_owned(),
                false => format!("as `{}`", account.name),
            };
            let (requires, help) = match own.uid {
                0 => (
                    "CAP_SETUID and CAP_SETGID, which Keepwarm or its user namespace lacks",
                    ADD_CAPABILITIES,
                ),
                _ => ("root", "start Keepwarm as root; it then runs them as the configured user"),
            };
            return cx
                .problem(
                    span.unwrap_or(section),
                    format!("cannot run {runs} {whom}: this requires {requires}"),
                )
                .expected("no `user` and no `group`, or those that Keepwarm itself runs as")
                .help(help)
                .reject(cx);
        }
        if account.uid != own.uid && !own.may_signal {
            let message = format!(
                "cannot run {runs} as `{}`: Keepwarm could not stop them, because it lacks CAP_KILL",
                account.name
            );
            return cx
                .problem(span.unwrap_or(section), message)
                .expected("no `user`, the one that Keepwarm itself runs as, or CAP_KILL")
                .help(ADD_CAPABILITIES)
                .reject(cx);
        }
        let directory = directory.to_string_lossy().into_owned();
        if !cx.sources.may_enter(&directory, &account) {
            let at = table.entry("directory").map(|entry| entry.value.span).or(span).unwrap_or(section);
            let name = cx.name();
            cx.problem(
                at,
                format!("the user `{}` of `{name}` cannot enter its directory ({directory})", account.name),
            )
            .expected("a directory that this user can enter, like all directories above it")
            .help("to give that user access, use `chmod o+x` or a group of that user")
            .report(cx);
        }
        Some(account)
    }
}
