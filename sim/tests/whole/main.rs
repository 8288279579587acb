//! Whole runs of the simulator, through what it offers to others. The hosts are the tests' own ([`host`]), not the
//! machines that are fitted and change.
mod digests;
mod event_log;
mod faults;
mod host;
mod neighbour;
mod swarm;
