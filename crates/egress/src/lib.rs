//! The back door: an application calls a door on this machine, and its call goes on over a connection that is kept, shared by all workers and threads, to the
//! service behind it.
