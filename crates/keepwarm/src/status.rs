//! `keepwarm status` and `GET /status`: the running parts (`view`), the status as JSON (`json`), as a person reads it (`table`), and the command (`command`).

pub(crate) mod command;
pub(crate) mod json;
pub(crate) mod table;
pub(crate) mod view;
