//! `netperf` over loopback: TCP_RR (one byte there and back) and UDP_STREAM (64 KiB datagrams one way).
//!
//! Caveats: TCP_RR does nothing but schedule and send, so it is the worst case of a wake-up; no real load is that thin.
//! UDP_STREAM is two tasks that copy the same data one after the other: it measures whether they share a cache. The
//! published confidence interval is a part of its result.
//!
//! Model: *bound* puts both ends of TCP_RR on the first CPU (the thread does not say how it bound them). Datagrams have
//! netperf's 65,507 bytes; the receiver's 212,992 bytes take two of them, a third is dropped, and the sender never waits. The
//! ends are of two sessions: `netserver` is a daemon. They begin rested: between its iterations, netperf waits for the
//! receiver's time to run out, seconds after the last datagram.
use hostsched::CpuId;

use super::{Kind, Layout};
use crate::tasks::program::{Loop, Op};

/// netperf's own loop on each side.
const LOOP_NS: u64 = 150;
/// Stack, sockets.
const RR_FOOTPRINT_KB: u64 = 10;
/// netperf goes round 212,992 / 65,507 + 1 = 4 buffers of a datagram on either side.
const STREAM_FOOTPRINT_KB: u64 = 256;
const DATAGRAM: u64 = 65_507;

pub(super) fn tcp_rr(layout: &mut Layout, pin: Option<CpuId>) {
    let (ask, answer) = (layout.channel(Kind::Tcp), layout.channel(Kind::Tcp));
    let send = |to| Op::Send { to, bytes: 1, note: 0 };
    let client = vec![Op::Work(LOOP_NS), send(ask), Op::Recv(answer), Op::Count(1)];
    let server = vec![Op::Recv(ask), Op::Work(LOOP_NS), send(answer)];
    layout.task(Loop::boxed(client), RR_FOOTPRINT_KB);
    layout.servant(Loop::boxed(server), RR_FOOTPRINT_KB);
    layout.tasks.iter_mut().for_each(|task| task.pin = pin);
}

pub(super) fn udp_stream(layout: &mut Layout) {
    let stream = layout.channel(Kind::Udp);
    let send = Op::Send { to: stream, bytes: DATAGRAM, note: 0 };
    layout.task(Loop::boxed(vec![Op::Work(LOOP_NS), send]), STREAM_FOOTPRINT_KB);
    let receive = vec![Op::Recv(stream), Op::Work(LOOP_NS), Op::Count(DATAGRAM)];
    layout.servant(Loop::boxed(receive), STREAM_FOOTPRINT_KB);
}
