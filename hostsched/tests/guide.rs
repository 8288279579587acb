//! `docs/writing-a-policy.md` tells the truth.
#[allow(dead_code, reason = "its main is for the example")]
#[path = "../examples/urgent_wake.rs"]
mod urgent_wake;

use urgent_wake::measure;

const PAGE: &str = include_str!("../../docs/writing-a-policy.md");
const CODE: &str = include_str!("../examples/urgent_wake.rs");

#[test]
fn every_block_of_the_page_is_code_that_compiles() {
    let blocks: Vec<&str> = PAGE.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        assert!(CODE.contains(block), "not in examples/urgent_wake.rs:\n{block}");
    }
}

#[test]
fn an_interrupted_vcpu_runs_sooner_and_no_vm_pays_for_it() {
    let (cfs, urgent) = (measure(false, 7_300_000).unwrap(), measure(true, 7_300_000).unwrap());
    assert!(urgent.latency_ns * 10 < cfs.latency_ns, "{urgent:?} against {cfs:?}");
    // The figures of the page.
    assert_eq!((cfs.latency_ns / 10_000, urgent.latency_ns / 10_000), (165, 7));
    assert_eq!(urgent.vms_ns.map(|ns| ns / 1_000_000), [3334, 3332, 3333]);
}

#[test]
fn a_storm_of_interrupts_does_not_take_from_the_others() {
    let storm = measure(true, 100_000).unwrap();
    assert!(storm.boosts > 1000, "{storm:?}");
    for ns in storm.vms_ns {
        assert!(ns.abs_diff(10_000_000_000 / 3) < 20_000_000, "{storm:?}");
    }
}
