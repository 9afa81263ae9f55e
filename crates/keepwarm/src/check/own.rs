//! `--self`: the running Keepwarm, part by part.

use std::net::ToSocketAddrs;
use std::process::ExitCode;

use keepwarm_doctor::{Server, Settings, Target};

use super::CheckTarget;
use crate::cli::Check;
use crate::find::Instance;
use crate::{complain, exit, subjects};

/// What the selected instance serves and calls. Targets that cannot be examined are named.
///
/// # Errors
/// There is nothing to examine: already reported, with the matching exit status.
pub(super) fn subjects(options: &Check, settings: &Settings) -> Result<Vec<CheckTarget>, ExitCode> {
    let unreached = ExitCode::from(super::status::UNREACHED);
    let refuse = |message: &str| {
        complain(message);
        Err(unreached)
    };
    let instance = Instance::meant(&options.selector)
        .map_err(|status| if status == ExitCode::from(exit::FAILED) { unreached } else { status })?;
    let response = match instance.ask("subjects") {
        Ok(response) => response,
        Err(message) => return refuse(&message),
    };
    let Some(all) = response.as_array() else {
        return refuse("the running Keepwarm has a version that this one cannot examine");
    };
    let mut subjects = Vec::new();
    for one in all.iter().filter_map(subjects::OwnTarget::from_json) {
        match subject(&one, settings) {
            Ok(subject) => subjects.push(subject),
            Err(why) => complain(&format!("{} ({}) is not examined: {why}", one.label, one.url)),
        }
    }
    match subjects.is_empty() {
        true => refuse("the running Keepwarm serves nothing that can be examined"),
        false => Ok(subjects),
    }
}

fn subject(one: &subjects::OwnTarget, settings: &Settings) -> Result<CheckTarget, String> {
    if let Some(why) = &one.skipped {
        return Err(why.clone());
    }
    let target = Target::parse(&one.url).map_err(|error| error.to_string())?;
    let target = super::options::allowed(target, settings);
    let mut settings = settings.clone();
    // The target is the listener that redirects, not the location it redirects to.
    settings.follow = false;
    settings.server = one.is_ours.then_some(Server::Keepwarm);
    if let Some(host) = one.host.as_ref().filter(|host| **host != target.authority()) {
        settings.headers.insert(0, ("Host".to_owned(), host.clone()));
    }
    if let Some(connect) = &one.connect {
        let addresses = connect.to_socket_addrs().map_err(|error| format!("{connect}: {error}"))?;
        let resolved = addresses.map(|address| (target.host.clone(), target.port, address.ip()));
        settings.resolve.splice(..0, resolved);
    }
    if let Some(file) = &one.ca {
        settings.believe(file)?;
    }
    if let Some((cert, key)) = &one.identity {
        settings.identify(cert, key)?;
    }
    Ok(CheckTarget { label: Some(one.label.clone()), target, settings: Some(settings) })
}
