//! The rules, from tables; and a few servers, each with one fault, on the wire.
