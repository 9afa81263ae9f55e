//! The processes of an app: [`supervisor`] keeps them.

pub mod supervisor;
