//! Benchmarks: each is a set of tasks, channels and semaphores.
mod aim7;
mod lmbench;
mod netperf;
mod pipe;
mod server;
mod tbench;
mod volano;

use hostsched::CpuId;
use hostsched::topology::Machine as Topology;

use super::channel::{Chan, Kind, Sem};
use super::program::Program;

/// A benchmark and its parameters; each has a file of its own that says what it does not measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// `tbench N`: client and server pairs over loopback.
    Tbench {
        /// Pairs.
        clients: u32,
    },
    /// `netperf -t TCP_RR`: one byte there and back.
    TcpRr {
        /// Both ends on the first CPU.
        bound: bool,
    },
    /// `netperf -t UDP_STREAM`: one sends 64 KiB datagrams, one receives.
    UdpStream,
    /// `pipe-test`: two tasks, one token.
    PipeTest,
    /// lmbench `lat_ctx -s 0 2`: the token again, with a footprint of nothing.
    CtxSwitch,
    /// lmbench `bw_tcp`: a stream of 64 KiB writes.
    BwTcp,
    /// AIM7 at low load.
    Aim7 {
        /// Simulated users.
        tasks: u32,
    },
    /// VolanoMark: chat rooms.
    Volano {
        /// Rooms.
        rooms: u32,
        /// Users a room, four threads each.
        users: u32,
    },
    /// One dispatcher hands work to many workers (the shape of `pgbench`).
    Server {
        /// Workers.
        workers: u32,
    },
}

/// A task to be.
#[derive(Debug)]
pub(crate) struct TaskPlan {
    pub(crate) program: Box<dyn Program>,
    /// What it touches again and again, see `warmth.rs`.
    pub(crate) footprint_kb: u64,
    pub(crate) pin: Option<CpuId>,
    /// It begins by waiting for another task, and does so before that one has got anywhere.
    pub(crate) servant: bool,
    /// The login session that it belongs to: tasks of one benchmark may have been started from several.
    pub(crate) session: u32,
}

/// Everything that a benchmark consists of.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) channels: Vec<Kind>,
    pub(crate) semaphores: Vec<u64>,
    pub(crate) tasks: Vec<TaskPlan>,
}

impl Layout {
    fn channel(&mut self, kind: Kind) -> Chan {
        self.channels.push(kind);
        Chan(self.channels.len() - 1)
    }

    fn semaphore(&mut self, count: u64) -> Sem {
        self.semaphores.push(count);
        Sem(self.semaphores.len() - 1)
    }

    fn task(&mut self, program: Box<dyn Program>, footprint_kb: u64) {
        self.tasks.push(TaskPlan { program, footprint_kb, pin: None, servant: false, session: 0 });
    }

    /// A server of the benchmark, started from another session before it.
    fn servant(&mut self, program: Box<dyn Program>, footprint_kb: u64) {
        self.tasks.push(TaskPlan { program, footprint_kb, pin: None, servant: true, session: 1 });
    }
}

impl Load {
    /// What [`Outcome::units`](super::Outcome::units) counts.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Tbench { .. } | Self::UdpStream | Self::BwTcp => "bytes",
            Self::TcpRr { .. } | Self::Server { .. } => "transactions",
            Self::PipeTest | Self::CtxSwitch => "round trips",
            Self::Aim7 { .. } => "jobs",
            Self::Volano { .. } => "messages",
        }
    }

    /// Its tasks on that machine; of more than `most`, only so many that the caller sees it.
    pub(crate) fn lay_out(self, topology: &Topology, most: usize) -> Layout {
        let most = u32::try_from(most + 1).unwrap_or(u32::MAX);
        let mut layout = Layout::default();
        match self {
            Self::Tbench { clients } => tbench::lay_out(&mut layout, clients.min(most)),
            Self::TcpRr { bound } => netperf::tcp_rr(&mut layout, topology.online().first().filter(|_| bound)),
            Self::UdpStream => netperf::udp_stream(&mut layout),
            Self::PipeTest => pipe::lay_out(&mut layout),
            Self::CtxSwitch => lmbench::ctx_switch(&mut layout),
            Self::BwTcp => lmbench::bw_tcp(&mut layout),
            Self::Aim7 { tasks } => aim7::lay_out(&mut layout, tasks.min(most)),
            Self::Volano { rooms, users } => {
                let users = users.min(most);
                volano::lay_out(&mut layout, rooms.min(most / users.max(1) + 1), users);
            }
            Self::Server { workers } => server::lay_out(&mut layout, workers.min(most)),
        }
        layout
    }
}
