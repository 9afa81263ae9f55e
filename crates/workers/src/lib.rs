//! The processes of an app: [`supervisor`] keeps them, [`dispatch`] gives them requests.

pub mod dispatch;
pub mod supervisor;
