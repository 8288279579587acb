//! Golden schedules: reading them and judging against them. Shared by the test and the `golden` example.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each of the targets that include this uses a part of it")]

pub mod compare;
pub mod file;
