//! The same seed gives the same bytes, in every build: the digests of a dozen plans, as a committed table.
//!
//! A debug and a release build must both meet it (`.ci/run` runs both). Whoever changes the model on purpose writes the
//! table anew with `SIM_WRITE_DIGESTS=1 cargo test -p sim --test whole digests`, and says why in the commit.
use std::fmt::Write;

use plan::{Control, Engine, Mode, RunPlan};
use sim::swarm::Case;
use sim::{Fault, FaultKind, Options, Sim};

use crate::host::{MS, host, plan};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/digests.txt");

fn digest(topology: &str, plan: &RunPlan, options: Options, faults: &[Fault]) -> u64 {
    let sim = Sim::new(host(topology), options).with_faults(faults.to_vec());
    sim.run(plan, &Control::default()).unwrap().counters["sim_digest"]
}

fn table() -> String {
    let mut table = String::new();
    let mut line = |name: &str, digest: u64| writeln!(table, "{name:<28} {digest:016x}").unwrap();
    for mode in Mode::ALL.iter().copied() {
        line(&format!("{mode} 3x8 on 2s:4c"), digest("2s:4c", &plan(mode, 3, 8, 8), Options::default(), &[]));
    }
    let staggered = Options { stagger_ns: 7 * MS, yield_on_hlt: false, ..Options::default() };
    line("halt-kick staggered", digest("1s:2c:2t", &plan(Mode::HaltKick, 2, 4, 4), staggered, &[]));
    let posted = Options { halt_once: true, ..Options::default() };
    line("halt-kick as posted", digest("2s:4c", &plan(Mode::HaltKick, 3, 8, 8), posted, &[]));
    let fault = |at_ms, kind| Fault { at_ns: at_ms * MS, kind };
    let faults = [
        fault(30, FaultKind::CpuOffline(0)),
        fault(50, FaultKind::GroupRemoved { vm: 1 }),
        fault(70, FaultKind::CpuOnline(0)),
        fault(90, FaultKind::VcpuKilled { vm: 0, vcpu: 1 }),
    ];
    line("gang with faults", digest("2s:2c", &plan(Mode::Gang, 3, 4, 4), Options::default(), &faults));
    let base = host("1s:2c");
    let swarm = (1000..1008).map(|seed| Case::draw(seed, &base).run(None).unwrap().digest);
    line("eight cases of the swarm", swarm.fold(0, |all: u64, one| all.rotate_left(1) ^ one));
    table
}

#[test]
fn every_build_gives_the_digests_of_the_table() {
    let found = table();
    if std::env::var_os("SIM_WRITE_DIGESTS").is_some() {
        std::fs::write(TABLE, found).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(TABLE).unwrap();
    for (committed, found) in committed.lines().zip(found.lines()) {
        assert_eq!(
            committed, found,
            "the simulator does other things than before; if that is meant: \
             SIM_WRITE_DIGESTS=1 cargo test -p sim --test whole digests"
        );
    }
    assert_eq!(committed.lines().count(), found.lines().count());
}
