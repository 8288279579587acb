//! lmbench: `lat_ctx` with two processes of size 0, and `bw_tcp`.
//!
//! Caveats: lat_ctx subtracts what reading and writing a pipe costs one process alone, so its figure is the switch plus
//! whatever placement adds. bw_tcp's transfer is one way, and its published runs scatter by 20 %.
use super::pipe::token;
use super::{Kind, Layout};
use crate::tasks::program::{Loop, Op};

/// bw_tcp writes and reads so much at once.
const CHUNK: u64 = 65_536;
const STREAM_FOOTPRINT_KB: u64 = 64;
/// The processes of lat_ctx touch nothing but the kernel's path.
const CTX_FOOTPRINT_KB: u64 = 4;

pub(super) fn ctx_switch(layout: &mut Layout) {
    token(layout, 1, CTX_FOOTPRINT_KB);
}

pub(super) fn bw_tcp(layout: &mut Layout) {
    let stream = layout.channel(Kind::Tcp);
    layout.task(Loop::boxed(vec![Op::Send { to: stream, bytes: CHUNK, note: 0 }]), STREAM_FOOTPRINT_KB);
    layout.servant(Loop::boxed(vec![Op::Recv(stream), Op::Count(CHUNK)]), STREAM_FOOTPRINT_KB);
}
