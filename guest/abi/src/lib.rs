//! Channels between guest and host.
#![no_std]
