//! The resource: what all that is sent is about; and the scope, which says who measured it.

use std::fs::read_to_string;
use std::sync::OnceLock;

use keepwarm_config as config;
use keepwarm_telemetry::trace::random;

use super::messages::{InstrumentationScope, KeyValue, Resource};

/// The conventions that names of attributes follow.
pub(super) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.27.0";

/// Keepwarm itself.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "keepwarm".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// This process. Attributes of the configuration replace its own.
pub(super) fn resource(config: &config::Otlp) -> Resource {
    Resource { attributes: attributes(config) }
}

fn attributes(config: &config::Otlp) -> Vec<KeyValue> {
    let own = [
        ("service.name", config.service_name.clone()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance()),
        ("host.name", host()),
    ];
    let is_set = |name: &str| config.resource.contains_key(name);
    let mut all: Vec<KeyValue> = own
        .into_iter()
        .filter(|(name, value)| !is_set(name) && !value.is_empty())
        .map(|(name, value)| KeyValue::string(name, value))
        .collect();
    if !is_set("process.pid") {
        all.push(KeyValue::int("process.pid", std::process::id().into()));
    }
    all.extend(config.resource.iter().map(|(name, value)| KeyValue::string(name, value.as_str())));
    all
}

/// A random UUID (RFC 9562 §5.4): no other process has it, and all that this one sends has the same.
fn instance() -> String {
    static IDS: OnceLock<(u64, u64)> = OnceLock::new();
    let (high, low) = *IDS.get_or_init(|| (random(), random()));
    let (high, low) = (high & !0xf000 | 0x4000, low & !(0b11 << 62) | 0b10 << 62);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

/// The name of this machine, as hostname(1) prints it.
fn host() -> String {
    read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::messages::AnyKind;

    fn value(all: &[KeyValue], name: &str) -> Vec<AnyKind> {
        let of = all.iter().filter(|attribute| attribute.key == name);
        of.filter_map(|attribute| attribute.value.clone()?.value).collect()
    }

    #[test]
    fn attributes_of_the_configuration_replace_its_own() {
        let own = [("host.name", "edge-1"), ("deployment.environment.name", "test")];
        let config = config::Otlp {
            upstream: "collector".to_owned(),
            headers: Vec::new(),
            service_name: "shop".to_owned(),
            resource: own.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            gzip: false,
            timeout: std::time::Duration::from_secs(10),
            traces: Some(config::OtlpTraces::default()),
            metrics: None,
            logs: None,
        };
        let all = attributes(&config);
        let string = |text: &str| vec![AnyKind::String(text.to_owned())];
        assert_eq!(value(&all, "service.name"), string("shop"));
        assert_eq!(value(&all, "host.name"), string("edge-1"));
        assert_eq!(value(&all, "deployment.environment.name"), string("test"));
        assert_eq!(value(&all, "process.pid"), [AnyKind::Int(std::process::id().into())]);
        assert_eq!(value(&all, "service.version"), string(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn an_instance_has_a_random_uuid() {
        let id = instance();
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
        assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        assert_eq!(id, instance(), "it is that of the process");
    }
}
