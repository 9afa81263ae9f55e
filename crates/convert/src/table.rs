//! Values and tables of keepwarm.toml, each with the directive that it comes from.

use crate::ledger::{Ledger, Origin};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    /// A text whose `${NAME}` are placeholders for variables of the environment.
    Open(String),
    Integer(i64),
    Flag(bool),
    List(Vec<Value>),
    Table(Table),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<Table> for Value {
    fn from(table: Table) -> Value {
        Value::Table(table)
    }
}

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(list: Vec<V>) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

/// A list of one is written as the item.
pub(crate) fn one_or_list(mut items: Vec<String>) -> Value {
    match items.len() {
        1 => Value::Text(items.remove(0)),
        _ => items.into(),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: Option<Origin>,
    /// A comment in place of the directive's position.
    pub(crate) note: Option<String>,
}

/// Keys in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) items: Vec<Item>,
}

/// Where values come from does not matter, nor their order.
impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.items.len() == other.items.len()
            && self.items.iter().all(|item| other.get(&item.key) == Some(&item.value))
    }
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.items.iter().find(|item| item.key == key).map(|item| &item.value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Where the value of a key comes from.
    pub(crate) fn origin(&self, key: &str) -> Option<Origin> {
        self.items.iter().find(|item| item.key == key).and_then(|item| item.origin)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sets a key, in place of what it was.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>, origin: impl Into<Option<Origin>>) {
        self.remove(key);
        let (value, origin) = (value.into(), origin.into());
        self.items.push(Item { key: key.to_owned(), value, origin, note: None });
    }

    /// Sets a key that no directive stands for, with a comment that says why.
    pub(crate) fn note(&mut self, key: &str, value: impl Into<Value>, note: &str) {
        self.remove(key);
        let note = Some(note.to_owned());
        self.items.push(Item { key: key.to_owned(), value: value.into(), origin: None, note });
    }

    pub(crate) fn set_if_missing(
        &mut self,
        key: &str,
        value: impl Into<Value>,
        origin: impl Into<Option<Origin>>,
    ) {
        if !self.has(key) {
            self.set(key, value, origin);
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Item> {
        let at = self.items.iter().position(|item| item.key == key)?;
        Some(self.items.remove(at))
    }

    /// Sets a key of a table within tables.
    pub(crate) fn set_in(&mut self, path: &[&str], key: &str, value: impl Into<Value>, origin: Origin) {
        self.within(path, origin).set(key, value, origin);
    }

    /// Adds to the list of a key of a table within tables; a single value stays one.
    pub(crate) fn push_in(&mut self, path: &[&str], key: &str, value: impl Into<Value>, origin: Origin) {
        let table = self.within(path, origin);
        let value = value.into();
        match table.items.iter_mut().find(|item| item.key == key) {
            None => table.set(key, value, origin),
            Some(item) => match &mut item.value {
                Value::List(list) if list.contains(&value) => {}
                Value::List(list) => list.push(value),
                old if *old == value => {}
                old => *old = Value::List(vec![std::mem::replace(old, Value::Flag(false)), value]),
            },
        }
    }

    /// Sets what another table has: its keys, and those of the tables within.
    pub(crate) fn merge(&mut self, other: &Table) {
        for item in &other.items {
            let known =
                self.items.iter_mut().find(|known| known.key == item.key).map(|known| &mut known.value);
            match (known, &item.value) {
                (Some(Value::Table(known)), Value::Table(new)) => known.merge(new),
                _ => {
                    self.remove(&item.key);
                    self.items.push(item.clone());
                }
            }
        }
    }

    /// The table at a path, made where it is not there.
    pub(crate) fn within(&mut self, path: &[&str], origin: impl Into<Option<Origin>>) -> &mut Table {
        let origin = origin.into();
        let Some((first, rest)) = path.split_first() else { return self };
        let is_table = matches!(self.get(first), Some(Value::Table(_)));
        if !is_table {
            self.set(first, Table::default(), origin);
        }
        let found = self.items.iter_mut().find(|item| item.key == *first).map(|item| &mut item.value);
        match found {
            Some(Value::Table(table)) => table.within(rest, origin),
            // It was set above.
            _ => unreachable!("a key that was just set is a table"),
        }
    }

    /// Marks what the table comes from as a part of something that is not used.
    pub(crate) fn ignore(&self, ledger: &mut Ledger) {
        for item in &self.items {
            if let Some(origin) = item.origin {
                ledger.ignored(origin, "a part of what is not used");
            }
            if let Value::Table(table) = &item.value {
                table.ignore(ledger);
            }
        }
    }

    /// Marks what the table comes from as carried.
    pub(crate) fn settle(&self, ledger: &mut Ledger) {
        for item in &self.items {
            if let Some(origin) = item.origin {
                ledger.carried(origin);
            }
            settle_value(&item.value, ledger);
        }
    }
}

fn settle_value(value: &Value, ledger: &mut Ledger) {
    match value {
        Value::Table(table) => table.settle(ledger),
        Value::List(list) => list.iter().for_each(|value| settle_value(value, ledger)),
        Value::Text(_) | Value::Open(_) | Value::Integer(_) | Value::Flag(_) => {}
    }
}
