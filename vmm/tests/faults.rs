//! Runs that must fail: each ends by itself, says what was wrong and where, and leaves no thread behind.

mod support;

use std::time::{Duration, Instant};

use plan::{Control, Engine, EngineError, Inject, Mode, RunPlan, RunRecord, RunStatus, Sched};
use support::{kvm_usable, plan, run};
use vmm::run_shared::{Fault, FaultHook};
use vmm::sched::VcpuIndex;

use vmm::{Kvm, Options};

/// Threads of this process with a vCPU's name.
fn vcpu_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("vcpu")).count()
}

/// Runs guest code instead of the kernel, on 2 vCPUs.
fn run_code(code: &[u8], watchdog: Duration) -> RunRecord {
    run_code_under(Sched::Lab, code, watchdog)
}

fn run_code_under(sched: Sched, code: &[u8], watchdog: Duration) -> RunRecord {
    let plan = RunPlan { vcpus: 2, ..plan(Mode::Base, 1, sched) };
    run(&plan, Options { guest_code: Some(code.to_vec()), watchdog, ..Options::default() })
}

fn assert_fails(record: &RunRecord, check: &str, says: &str) {
    assert_eq!(record.status, RunStatus::Failed);
    let failure = record.failures.iter().find(|failure| failure.check == check);
    let failure = failure.unwrap_or_else(|| panic!("no {check} in {:?}", record.failures));
    assert!(failure.message.contains(says), "{}", failure.message);
    assert!(failure.message.contains("VM 0 vCPU"), "{}", failure.message);
}

/// `mov edx, port; mov eax, arg`: what precedes an OUT.
fn call(port: u16, arg: u32) -> Vec<u8> {
    let mut code = vec![0xba];
    code.extend(u32::from(port).to_le_bytes());
    code.push(0xb8);
    code.extend(arg.to_le_bytes());
    code
}

const OUT_DX_EAX: u8 = 0xef;
const OUT_DX_AL: u8 = 0xee;
const IN_EAX_DX: u8 = 0xed;
/// `jmp $`
const SPIN: [u8; 2] = [0xeb, 0xfe];
/// `jmp $-1`: back to a one-byte instruction before it.
const AGAIN: [u8; 2] = [0xeb, 0xfd];
const UD2: [u8; 2] = [0x0f, 0x0b];
const PATIENT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(500);

#[test]
fn guests_that_misuse_the_doorbell_are_named_with_what_they_did() {
    if !kvm_usable("guests_that_misuse_the_doorbell_are_named_with_what_they_did") {
        return;
    }
    for (port, arg, instruction, says) in [
        (0x50c, 0, OUT_DX_EAX, "wrote to port 0x50c, which is not a doorbell call"),
        (0x500, 0, OUT_DX_AL, "rang Nop with 1 bytes"),
        (0x500, 0, IN_EAX_DX, "read from port 0x500"),
        (0x503, 2, OUT_DX_EAX, "kicked vCPU 2 of a VM that has vCPUs 0 to 1"),
        (0x508, 99, OUT_DX_EAX, "made report 99"),
    ] {
        let code = [&call(port, arg)[..], &[instruction], &SPIN].concat();
        let record = run_code(&code, PATIENT);
        assert_fails(&record, "guest-crash", says);
    }
}

/// What a guest may have the host remember is bounded.
#[test]
fn a_guest_that_floods_the_disk_is_ended() {
    if kvm_usable("a_guest_that_floods_the_disk_is_ended") {
        let code = [&call(0x508, 1)[..], &[OUT_DX_EAX], &call(0x50a, 0), &[OUT_DX_EAX], &AGAIN].concat();
        let mut plan = RunPlan { vcpus: 2, duration_ns: 30_000_000_000, ..plan(Mode::Base, 1, Sched::Lab) };
        plan.params.disk_us = 1_000_000;
        let record = run(&plan, Options { guest_code: Some(code), watchdog: PATIENT, ..Options::default() });
        assert_fails(&record, "guest-crash", "asked the disk with 8192 requests");
    }
}

#[test]
fn a_guest_exception_is_reported_with_vector_and_address() {
    if kvm_usable("a_guest_exception_is_reported_with_vector_and_address") {
        let record = run_code(&UD2, PATIENT);
        assert_fails(&record, "guest-crash", "exception 6");
        let address = format!("at {:#x}", vmm::boot::CODE);
        assert!(record.failures[0].message.contains(&address), "{:?}", record.failures);
        // A port that the I/O bitmap does not open.
        assert_fails(&run_code(&[&call(0x3f8, 0)[..], &[OUT_DX_EAX]].concat(), PATIENT), "guest-crash", "exception 13");
    }
}

#[test]
fn a_triple_fault_ends_the_run() {
    if kvm_usable("a_triple_fault_ends_the_run") {
        // mov qword [PML4], 0: without page tables no exception can be delivered.
        let code = [&[0x48, 0xc7, 0x04, 0x25, 0, 0, 0x60, 0, 0, 0, 0, 0][..], &UD2].concat();
        let record = run_code(&code, SHORT);
        assert_eq!(record.status, RunStatus::Failed, "{:?}", record.failures);
        assert!(record.failures[0].message.contains("VM 0 vCPU"), "{:?}", record.failures);
    }
}

#[test]
fn a_guest_that_never_reports_is_ended_by_the_watchdog() {
    if !kvm_usable("a_guest_that_never_reports_is_ended_by_the_watchdog") {
        return;
    }
    for sched in [Sched::Host, Sched::Lab] {
        assert_fails(&run_code_under(sched, &SPIN, SHORT), "watchdog", "at RIP");
    }
    // The same with doorbells that do nothing, halts that nobody ends, and a console that never stops.
    for (port, arg) in [(0x500, 0), (0x502, 0), (0x507, 512)] {
        let code = [&call(port, arg)[..], &[OUT_DX_EAX], &AGAIN].concat();
        assert_fails(&run_code(&code, SHORT), "watchdog", "no progress");
    }
}

#[test]
fn a_guest_that_scribbles_over_its_state_word_only_fools_itself() {
    if kvm_usable("a_guest_that_scribbles_over_its_state_word_only_fools_itself") {
        // Online; then mov dword gs:[0], -1 and a doorbell, again and again.
        let scribble = [0x65, 0xc7, 0x04, 0x25, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let again = [OUT_DX_EAX, 0xeb, 0xf1];
        let code = [&call(0x508, 1)[..], &[OUT_DX_EAX], &call(0x500, 0), &scribble, &again].concat();
        let record = run_code(&code, PATIENT);
        assert_eq!(record.status, RunStatus::Ok, "{:?}", record.failures);
        assert!(record.counters["state_words_forged"] > 0, "{:?}", record.counters);
    }
}

#[test]
fn an_injected_lost_flush_is_caught() {
    if kvm_usable("an_injected_lost_flush_is_caught") {
        for mode in [Mode::Base, Mode::PvFlush, Mode::Hypercall] {
            let plan =
                RunPlan { inject: Some(Inject::LostFlush), duration_ns: 500_000_000, ..plan(mode, 1, Sched::Host) };
            // How many records a run makes is the host's business; a stale read needs some.
            let caught = (0..20).map(|_| run(&plan, Options::default())).find(|record| record.soft_stale_reads > 0);
            let record = caught.unwrap_or_else(|| panic!("{mode}: 20 runs with a lost flush and no stale read"));
            assert_eq!(record.status, RunStatus::Failed);
            assert!(record.failures.iter().any(|failure| failure.check == "soft-stale-read"));
        }
    }
}

#[test]
fn a_vcpu_thread_that_panics_ends_the_run_and_is_named() {
    if kvm_usable("a_vcpu_thread_that_panics_ends_the_run_and_is_named") {
        for record in run_with_fault(Fault::Panic) {
            assert_fails(&record, "vcpu-thread", "its thread panicked: fault hook of vCPU 1");
        }
    }
}

/// vCPU 1 of one VM fails after some exits, under both schedulers; the record names it and where its guest was.
fn run_with_fault(fault: Fault) -> [RunRecord; 2] {
    [Sched::Host, Sched::Lab].map(|sched| {
        let hook = FaultHook { vcpu: VcpuIndex(1), after_exits: 3, fault };
        let record = run(&plan(Mode::PvFlush, 1, sched), Options { fault_hook: Some(hook), ..Options::default() });
        // All lose their image, and any may be the first to notice.
        let who = if fault == Fault::LoseImage { "VM 0 vCPU" } else { "VM 0 vCPU 1 at RIP" };
        let mut of_threads = record.failures.iter().filter(|failure| failure.check == "vcpu-thread");
        assert!(of_threads.clone().any(|failure| failure.message.contains(who)), "{:?}", record.failures);
        assert!(of_threads.all(|failure| failure.message.contains(" at RIP 0x")), "{:?}", record.failures);
        record
    })
}

#[test]
fn a_vcpu_thread_that_returns_early_ends_the_run_and_is_named() {
    if kvm_usable("a_vcpu_thread_that_returns_early_ends_the_run_and_is_named") {
        for record in run_with_fault(Fault::ReturnEarly) {
            assert_fails(&record, "vcpu-thread", "its thread ended before the run did");
        }
    }
}

#[test]
fn a_kvm_run_that_fails_ends_the_run_and_is_named() {
    if kvm_usable("a_kvm_run_that_fails_ends_the_run_and_is_named") {
        for record in run_with_fault(Fault::LoseImage) {
            // EFAULT from the ioctl, or an exit that reports an internal error: KVM has both for a page that is not there.
            assert_fails(&record, "vcpu-thread", "KVM_RUN");
            let says = |failure: &plan::Failure| {
                failure.message.contains("Bad address") || failure.message.contains("InternalError")
            };
            assert!(record.failures.iter().all(says), "{:?}", record.failures);
        }
    }
}

#[test]
fn a_guest_that_spins_for_ever_with_interrupts_off_is_ended_and_named() {
    if !kvm_usable("a_guest_that_spins_for_ever_with_interrupts_off_is_ended_and_named") {
        return;
    }
    // Ring 3 goes to the stub of exception 6 by an interrupt gate, which clears IF; there it stays.
    let stub = guest::header().expect("the lab's own image").exceptions + 6 * abi::header::STUB_SIZE;
    for sched in [Sched::Host, Sched::Lab] {
        let plan = RunPlan { vcpus: 2, ..plan(Mode::Base, 1, sched) };
        let guest_patches = vec![(stub, SPIN.to_vec())];
        let options = Options { guest_code: Some(UD2.to_vec()), guest_patches, watchdog: SHORT, ..Options::default() };
        let record = run(&plan, options);
        assert_fails(&record, "watchdog", "no progress");
        assert_fails(&record, "watchdog", &format!("at RIP {stub:#x}"));
    }
}

#[test]
fn an_abort_gives_a_partial_record_within_a_second_or_so_and_leaves_no_thread() {
    if !kvm_usable("an_abort_gives_a_partial_record_within_a_second_or_so_and_leaves_no_thread") {
        return;
    }
    let plan = RunPlan { duration_ns: 600_000_000_000, ..plan(Mode::Base, 2, Sched::Lab) };
    let control = Control::default();
    let stop = control.clone();
    let run = std::thread::spawn(move || Kvm::default().run(&plan, &control));
    std::thread::sleep(Duration::from_secs(2));
    let asked = Instant::now();
    stop.abort();
    let record = run.join().expect("no panic").expect("a record");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    assert_eq!(record.status, RunStatus::Partial, "{:?}", record.failures);
    assert!(record.duration_ns > 0 && record.duration_ns < 600_000_000_000);
}

#[test]
fn no_thread_outlives_its_run() {
    if kvm_usable("no_thread_outlives_its_run") {
        // Other tests of this process may run now: their threads come and go, ours must go.
        let _ = run_code(&UD2, PATIENT);
        let limit = Instant::now() + Duration::from_secs(60);
        while vcpu_threads() > 0 {
            assert!(Instant::now() < limit, "{} vCPU threads are left", vcpu_threads());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_guest_that_would_reach_into_kvms_own_pages_is_refused() {
    let mut plan = RunPlan { vcpus: 64, ..plan(Mode::Base, 1, Sched::Host) };
    (plan.params.threads_per_vcpu, plan.params.chunk_pages) = (16, 1024);
    match Kvm::default().run(&plan, &Control::default()) {
        Err(EngineError::BadPlan(text)) => assert!(text.contains("--chunk-pages 1024 need a guest of "), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cpus_that_are_not_there_are_refused_by_name() {
    if kvm_usable("cpus_that_are_not_there_are_refused_by_name") {
        let plan = RunPlan { pcpus: "0,8000".parse().unwrap(), ..plan(Mode::Base, 1, Sched::Host) };
        match Kvm::default().run(&plan, &Control::default()) {
            Err(EngineError::BadPlan(text)) => assert!(text.contains("--pcpus names CPU 8000"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
