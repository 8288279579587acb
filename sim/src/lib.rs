//! The simulator (issue: its own). Today only the crate and its place in the picture exist.
#![forbid(unsafe_code)]
