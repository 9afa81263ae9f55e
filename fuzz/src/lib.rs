//! What the fuzz targets share.

pub mod http1;
pub mod strict;
pub mod take;
