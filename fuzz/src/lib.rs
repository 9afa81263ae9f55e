//! What the fuzz targets share.

pub mod byte_source;
pub mod http1;
pub mod strict;
