//! The host's scheduler.
#![forbid(unsafe_code)]

pub mod topology;
