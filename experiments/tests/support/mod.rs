//! What the tests of the command line share: the gate of those that need real guests.

/// True where guests can run; else says why `test` is skipped, or panics where VMMLAB_REQUIRE_KVM=1 forbids it.
pub(crate) fn kvm(test: &str) -> bool {
    let Err(reason) = vmm::probe::probe().kvm else { return true };
    let required = std::env::var("VMMLAB_REQUIRE_KVM").is_ok_and(|value| value == "1");
    assert!(!required, "{test} needs KVM (VMMLAB_REQUIRE_KVM=1): {reason}");
    println!("skipped {test}: {reason}");
    false
}
