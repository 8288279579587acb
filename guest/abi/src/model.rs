//! How the protocols of this crate are model-checked: with loom, every interleaving of up to a bounded number of
//! preemptions, and every reordering that the memory model allows, of the product's own types.
//!
//! Run with `LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS="--cfg loom" cargo test -p abi --release model`.
//!
//! A checker that finds nothing proves little until it has found something: each step of a protocol that has been got
//! wrong by others is replaced by its wrong form (a *mutant*), one at a time, and the model must fail. loom weakens
//! SeqCst loads and stores to acquire and release, so it sees mutants of order as well as of atomicity.
//!
//! The models stand beside what they check: `shootdown/model.rs`, `lock/model.rs`, and the end of `idle.rs`.

use std::process::Command;
use std::string::String;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Explores a model that must hold, and tells how many executions that were.
pub(crate) fn check(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    loom::model(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    std::println!("{name}: {} executions", executions.load(Ordering::Relaxed));
}

/// A wrong step, what the model that must see it says, and that model.
pub(crate) type Mutant = (&'static str, &'static str, fn());

const CHILD: &str = "ABI_MUTANT";

/// Lets each mutant die in a process of its own, which the failing model may take with it: `child` is the name of the
/// ignored test that ends in [`run_mutant`].
pub(crate) fn all_caught(child: &str, mutants: &[Mutant]) {
    for (index, (name, words, _)) in mutants.iter().enumerate() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env(CHILD, std::format!("{index}"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "the mutant lives: {name}");
        assert!(text.contains(words), "{name}: caught for another reason: {text}");
        std::println!("caught: {name}");
    }
}

/// The mutant that the parent process named.
pub(crate) fn run_mutant(mutants: &[Mutant]) {
    let index: usize = std::env::var(CHILD).unwrap().parse().unwrap();
    (mutants[index].2)();
}
