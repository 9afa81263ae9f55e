//! From the command line to targets and settings.

use keepwarm_doctor::{Probe, Settings, Target};

use crate::cli::Check;

/// A server to check.
#[derive(Debug)]
pub(super) struct CheckTarget {
    /// Its name in the report, besides its URL.
    pub(super) label: Option<String>,
    pub(super) target: Target,
    /// How, where that is not how the others are examined.
    pub(super) settings: Option<Settings>,
}

impl CheckTarget {
    /// As it is called while it is examined.
    pub(super) fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.target.to_string())
    }
}

/// Reads all of it.
///
/// # Errors
/// The fault, and what was expected.
pub(super) fn read(options: &Check) -> Result<(Settings, Vec<CheckTarget>), String> {
    let selector = &options.selector;
    for (option, given) in [
        ("--config", selector.config.is_some()),
        ("--pid", selector.pid.is_some()),
        ("--pid-file", selector.pid_file.is_some()),
    ] {
        if given && !options.own {
            return Err(format!("{option} selects the instance for --self; pass --self, and no URL"));
        }
    }
    let settings = settings(options)?;
    let mut subjects = Vec::new();
    for url in &options.urls {
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        let target = allowed(target, &settings);
        subjects.push(CheckTarget { label: None, target, settings: None });
    }
    Ok((settings, subjects))
}

/// With `POST` the target is the path that allows it, and no other.
pub(super) fn allowed(mut target: Target, settings: &Settings) -> Target {
    if let ("POST", Some(path)) = (settings.method.as_str(), &settings.post) {
        target.path.clone_from(path);
    }
    target
}

fn settings(options: &Check) -> Result<Settings, String> {
    let defaults = Settings::default();
    let method = options.method.clone().unwrap_or_else(|| defaults.method.clone());
    if method == "POST" && options.post.is_none() {
        return Err("--method POST: set the path that may be requested with POST by --post PATH; the safe methods are GET, HEAD and OPTIONS".to_owned());
    }
    let via = |url: &String| Target::parse(url).map_err(|error| format!("--via {error}"));
    let mut settings = Settings {
        probes: probes(options)?,
        headers: options.header.clone(),
        method,
        body: options.body.clone().map_or_else(|| defaults.body.clone(), |body| body.0),
        post: options.post.clone(),
        resolve: options.resolve.clone(),
        insecure: options.insecure,
        timeout: options.timeout,
        rate: options.rate,
        intrusive: options.intrusive,
        slow: options.slow,
        via: options.via.iter().map(via).collect::<Result<_, _>>()?,
        // The permission for a POST does not cover the target of a redirect.
        follow: options.method.as_deref() != Some("POST"),
        ..defaults
    };
    if let Some(file) = &options.ca {
        settings.believe(file).map_err(|why| format!("--ca: {why}"))?;
    }
    if let (Some(cert), Some(key)) = (&options.cert, &options.key) {
        settings.identify(cert, key).map_err(|why| format!("--cert, --key: {why}"))?;
    }
    Ok(settings)
}

/// In the order of the report, whatever the order in which they were named.
fn probes(options: &Check) -> Result<Vec<Probe>, String> {
    let wanted = |probe: &Probe| {
        (options.only.is_empty() || options.only.contains(probe)) && !options.skip.contains(probe)
    };
    let probes: Vec<Probe> = Probe::ALL.into_iter().filter(wanted).collect();
    match probes.is_empty() {
        true => Err("--only and --skip together leave no probe to run".to_owned()),
        false => Ok(probes),
    }
}
