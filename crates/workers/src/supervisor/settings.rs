//! What a worker is as a process: told by Keepwarm as one argument of the launcher, and carried out IN THE CHILD.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Gid as FileGroup, Mode, Uid as FileUser, fchown};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// The user and groups that a worker runs as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
}

/// What is limited for a worker, soft and hard alike (`setrlimit(2)`).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// Open files.
    Files,
    /// Bytes of address space.
    Memory,
    /// Processes of the user.
    Processes,
    /// Bytes of a core file.
    Core,
    /// Seconds of processor time.
    Cpu,
}

/// What a worker has otherwise than Keepwarm; by default nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessSettings {
    /// Another user.
    pub credentials: Option<Credentials>,
    /// Another mask for the modes of files.
    pub umask: Option<u32>,
    /// Other limits.
    pub limits: Vec<(Limit, u64)>,
    /// Where the open files are not limited: another soft limit of them.
    pub soft_files: Option<u64>,
}

const LIMITS: [(Limit, &str, Resource); 5] = [
    (Limit::Files, "files", Resource::Nofile),
    (Limit::Memory, "memory", Resource::As),
    (Limit::Processes, "processes", Resource::Nproc),
    (Limit::Core, "core", Resource::Core),
    (Limit::Cpu, "cpu", Resource::Cpu),
];

/// As the launcher takes it: `uid=1000,gid=1000,groups=1000+4,umask=18,files=1024`.
impl fmt::Display for ProcessSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(Credentials { uid, gid, groups }) = &self.credentials {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            parts.push(format!("uid={uid},gid={gid},groups={}", groups.join("+")));
        }
        parts.extend(self.umask.map(|mask| format!("umask={mask}")));
        parts.extend(self.soft_files.map(|files| format!("soft_files={files}")));
        for (limit, value) in &self.limits {
            let name = LIMITS.iter().find(|(known, ..)| known == limit).map_or("", |(_, name, _)| name);
            parts.push(format!("{name}={value}"));
        }
        f.write_str(&parts.join(","))
    }
}

impl ProcessSettings {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut settings = Self::default();
        let mut credentials = Credentials { uid: 0, gid: 0, groups: Vec::new() };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            match name {
                "uid" => credentials.uid = value.parse().ok()?,
                "gid" => credentials.gid = value.parse().ok()?,
                "groups" => {
                    let groups = value.split('+').filter(|group| !group.is_empty());
                    credentials.groups = groups.map(|group| group.parse().ok()).collect::<Option<_>>()?;
                    settings.credentials = Some(credentials.clone());
                }
                "soft_files" => settings.soft_files = Some(value.parse().ok()?),
                "umask" => settings.umask = Some(value.parse().ok()?),
                _ => {
                    let (limit, ..) = LIMITS.iter().find(|(_, known, _)| *known == name)?;
                    settings.limits.push((*limit, value.parse().ok()?));
                }
            }
        }
        Some(settings)
    }

    /// Applies these to this process. Set the parent-death signal afterwards: a change of the user clears it.
    ///
    /// # Errors
    /// What could not be done, in words, and why.
    pub(super) fn apply(&self) -> Result<(), (String, io::Error)> {
        if let Some(files) = self.soft_files {
            let maximum = getrlimit(Resource::Nofile).maximum;
            let current = Some(maximum.map_or(files, |maximum| files.min(maximum)));
            // A lower one is always allowed.
            let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
        }
        // Before the user changes, who may not raise a limit.
        for (limit, value) in &self.limits {
            let Some((_, name, resource)) = LIMITS.iter().find(|(known, ..)| known == limit) else {
                continue;
            };
            let both = Rlimit { current: Some(*value), maximum: Some(*value) };
            setrlimit(*resource, both)
                .map_err(|error| (format!("cannot set the limit {name} to {value}"), error.into()))?;
        }
        if let Some(mask) = self.umask {
            umask(Mode::from_bits_truncate(mask));
        }
        self.credentials.as_ref().map_or(Ok(()), become_user)
    }
}

fn become_user(Credentials { uid, gid, groups }: &Credentials) -> Result<(), (String, io::Error)> {
    // Some programs reopen `/dev/stdout` and `/dev/stderr`, which works only if the user owns the pipe.
    let (user, group) = (FileUser::from_raw(*uid), FileGroup::from_raw(*gid));
    for pipe in [rustix::stdio::stdout().as_fd(), rustix::stdio::stderr().as_fd()] {
        // An error: such programs fail, and say so.
        let _ = fchown(pipe, Some(user), Some(group));
    }
    let failed = |what: &str, error: nix::Error| {
        let why = match error {
            nix::Error::EINVAL => ", which the user namespace does not map (/proc/self/uid_map, gid_map)",
            _ => "",
        };
        (format!("{what}{why}"), io::Error::from(error))
    };
    let groups: Vec<nix::unistd::Gid> =
        groups.iter().map(|&group| nix::unistd::Gid::from_raw(group)).collect();
    nix::unistd::setgroups(&groups).map_err(|error| failed("cannot set the groups", error))?;
    nix::unistd::setgid(nix::unistd::Gid::from_raw(*gid))
        .map_err(|error| failed(&format!("cannot set the group {gid}"), error))?;
    nix::unistd::setuid(nix::unistd::Uid::from_raw(*uid))
        .map_err(|error| failed(&format!("cannot set the user {uid}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        let all = ProcessSettings {
            credentials: Some(Credentials { uid: 1000, gid: 33, groups: vec![33, 4] }),
            umask: Some(0o027),
            limits: vec![(Limit::Files, 1024), (Limit::Cpu, 60)],
            soft_files: Some(256),
        };
        assert_eq!(all.to_string(), "uid=1000,gid=33,groups=33+4,umask=23,soft_files=256,files=1024,cpu=60");
        let lonely = ProcessSettings {
            credentials: Some(Credentials { uid: 1, gid: 2, groups: Vec::new() }),
            ..ProcessSettings::default()
        };
        for settings in [all, lonely, ProcessSettings::default()] {
            assert_eq!(ProcessSettings::parse(&settings.to_string()), Some(settings));
        }
        for nonsense in ["uid", "uid=x", "files=-1", "other=1", "groups=1+x"] {
            assert_eq!(ProcessSettings::parse(nonsense), None, "{nonsense}");
        }
    }
}
