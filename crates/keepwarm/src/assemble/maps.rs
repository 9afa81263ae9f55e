//! `map`: variables that are looked up, one table for all that use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use keepwarm_config::Config;
use keepwarm_edge::VariableMap;

use super::{matcher, template::template};

/// The maps of a configuration, by their names.
#[derive(Debug, Default)]
pub(crate) struct Maps(BTreeMap<String, Arc<VariableMap>>);

impl Maps {
    /// # Errors
    /// An expression that cannot be compiled; the configuration has checked them before.
    pub(crate) fn of(config: &Config) -> Result<Self, String> {
        let mut maps = Self::default();
        for map in &config.maps {
            maps.add(&map.name, config)?;
        }
        Ok(maps)
    }

    /// Makes a map after those that it uses. None uses itself; the configuration has checked that.
    fn add(&mut self, name: &str, config: &Config) -> Result<(), String> {
        let Some(map) = config.maps.iter().find(|map| map.name == name) else { return Ok(()) };
        if self.0.contains_key(name) {
            return Ok(());
        }
        for used in map.uses() {
            self.add(used, config)?;
        }
        let values = map
            .values
            .iter()
            .map(|(pattern, value)| Ok((matcher::value(pattern)?, template(value, self))))
            .collect::<Result<_, String>>()?;
        let made = VariableMap::new(template(&map.source, self), values, template(&map.default, self));
        self.0.insert(name.to_owned(), Arc::new(made));
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<VariableMap>> {
        self.0.get(name)
    }
}
