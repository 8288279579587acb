//! Runs to which something happens from outside: disks fill up, devices vanish, CPUs and cgroups are taken away, processes are
//! stopped. Each ends with its exit code, a sentence that names the thing, a result that is marked, and a clean host.
//!
//! What needs root or a second CPU is skipped by name without it. Signals are in `kvm.rs`, faults of guests and of threads in
//! `vmm/tests/faults.rs`.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plan::RunStatus;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use support::kvm;
use vmmlab::result::{self, ResultFile};

const VMMLAB: &str = env!("CARGO_BIN_EXE_vmmlab");

/// Real guests, few and small.
const KVM: &str = "run --engine kvm --vms 2 --vcpus 2 --warmup 0ns --out out";
/// Simulated ones, as fast as they come.
const SIM: &str = "run --engine sim --topology 1s:2c --vms 1 --vcpus 2 --mode base,pvflush --duration 20ms --warmup 0ns \
                   --blocks 1000 --seed 1";

/// True for root in a system that lets it mount; else says that `test` is skipped.
fn can_mount(test: &str) -> bool {
    let can = geteuid().is_root()
        && Command::new("unshare")
            .args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
            .output()
            .is_ok_and(|o| o.status.success());
    if !can {
        println!("skipped {test}: it needs root, unshare(1) and mount(2)");
    }
    can
}

/// A shell that may mount what it likes, with `$vmmlab` as the program, in a directory of its own.
fn shell(directory: &Path, script: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.current_dir(directory).env("vmmlab", VMMLAB).output().expect("unshare(1)")
}

fn start(directory: &Path, arguments: &str) -> Child {
    let mut command = Command::new(VMMLAB);
    command.current_dir(directory).args(arguments.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program")
}

/// Waits until `there` is true of a run that goes on.
fn wait_until(child: &mut Child, there: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !there() {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended");
        assert!(Instant::now() < limit, "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The output of a child, which must end by itself.
fn output(mut child: Child) -> Output {
    let limit = Instant::now() + Duration::from_secs(120);
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > limit {
            child.kill().expect("a child");
            panic!("it hangs: {}", said(&child.wait_with_output().expect("output")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("output")
}

fn said(output: &Output) -> String {
    format!("{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

fn assert_ends(output: &Output, code: i32, says: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(says.iter().all(|words| said.contains(words)), "{said}");
}

fn read(run: &Path) -> ResultFile {
    result::read(run).unwrap_or_else(|error| panic!("{error}"))
}

/// Threads of a process, with their names.
fn threads(id: u32) -> Vec<(i32, String)> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let named = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, name.trim().to_owned()))
    });
    named.collect()
}

fn vcpu_threads(id: u32) -> Vec<i32> {
    threads(id).into_iter().filter(|(_, name)| name.starts_with("vcpu")).map(|(thread, _)| thread).collect()
}

/// The run's directory of process `id` in the cgroup v2 hierarchy.
fn run_cgroup(id: u32) -> Option<PathBuf> {
    let mut todo = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("vmmlab-{id}-")) {
                return Some(entry.path());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(entry.path());
            }
        }
    }
    None
}

// ── Where results go ────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_full_disk_is_named_and_keeps_what_was_whole() {
    const TEST: &str = "a_full_disk_is_named_and_keeps_what_was_whole";
    if !can_mount(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let script = format!(
        "mkdir disk && mount -t tmpfs -o size=256k none disk && $vmmlab {SIM} --out disk/out; code=$?; \
         cp -r disk/out saved; exit $code"
    );
    let output = shell(root.path(), &script);
    assert_ends(&output, 70, &["Cannot write disk/out/", "No space left on device"]);
    let saved = root.path().join("saved");
    let result = read(&saved);
    assert!(result.status == RunStatus::Partial && !result.runs.is_empty(), "{:?}", result.status);
    let parts = |dir: PathBuf| {
        fs::read_dir(dir)
            .expect("a directory")
            .flatten()
            .filter(|e| e.path().extension().is_some_and(|x| x == "part"))
            .count()
    };
    assert_eq!(parts(saved.clone()) + parts(saved.join("blocks")), 0, "a half-written file is left");
}

#[test]
fn a_file_size_limit_is_an_error_and_no_death_by_signal() {
    let root = tempfile::tempdir().expect("a directory");
    let script = format!("ulimit -f 512; exec '{VMMLAB}' {SIM} --out out");
    let output = Command::new("sh").current_dir(root.path()).args(["-c", &script]).output().expect("sh");
    assert_ends(&output, 70, &["Cannot write out/", "File too large"]);
    assert_eq!(read(&root.path().join("out")).status, RunStatus::Partial);
}

#[test]
fn a_read_only_place_is_refused_before_the_run() {
    const TEST: &str = "a_read_only_place_is_refused_before_the_run";
    if !can_mount(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let output =
        shell(root.path(), &format!("mkdir disk && mount -t tmpfs -o ro none disk && $vmmlab {SIM} --out disk/out"));
    assert_ends(&output, 2, &["--out disk/out: cannot create it (Read-only file system", "name a new directory"]);
}

#[test]
fn a_disk_that_becomes_read_only_ends_the_run_with_its_name() {
    const TEST: &str = "a_disk_that_becomes_read_only_ends_the_run_with_its_name";
    if !can_mount(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let script = format!(
        "mkdir disk && mount -t tmpfs none disk && {{ $vmmlab {SIM} --out disk/out & }} && run=$!; \
         until [ -e disk/out/blocks/0000.json ]; do sleep 0.05; done; \
         until mount -o remount,ro disk 2>/dev/null; do :; done; \
         wait $run; code=$?; cp -r disk/out saved; exit $code"
    );
    let output = shell(root.path(), &script);
    assert_ends(&output, 70, &["Cannot write disk/out/", "Read-only file system"]);
    assert_eq!(read(&root.path().join("saved")).status, RunStatus::Partial);
}

// ── What runs depend on ─────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_kvm_that_vanishes_between_runs_ends_with_4_and_a_marked_result() {
    const TEST: &str = "a_kvm_that_vanishes_between_runs_ends_with_4_and_a_marked_result";
    if !kvm(TEST) || !can_mount(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let script = format!(
        "$vmmlab {KVM} --mode base,pvflush --duration 400ms --blocks 50 & run=$!; until [ -e out/blocks/0000.json ]; do sleep 0.05; done; \
         mount --bind /dev/null /dev/kvm; wait $run"
    );
    let output = shell(root.path(), &script);
    assert_ends(&output, 4, &["/dev/kvm is not KVM"]);
    let result = read(&root.path().join("out"));
    assert!(result.status == RunStatus::Partial && !result.runs.is_empty(), "{:?}", result.status);
}

/// Takes CPU 1 from a run under way, by `take(id)`, as often as it takes until the run ends.
fn cpu_taken(test: &str, take: impl Fn(u32)) -> Option<Output> {
    if !kvm(test) {
        return None;
    }
    let allowed = sched_getaffinity(None).expect("affinity");
    if !(allowed.is_set(0) && allowed.is_set(1)) {
        println!("skipped {test}: it needs CPUs 0 and 1");
        return None;
    }
    let root = tempfile::tempdir().expect("a directory");
    let mut child = start(root.path(), &format!("{KVM} --mode base,pvflush --duration 1s --pcpus 0-1 --blocks 2"));
    let id = child.id();
    wait_until(&mut child, || vcpu_threads(id).len() == 4);
    take(id);
    let output = output(child);
    assert!(result::read(&root.path().join("out")).is_ok(), "{}", said(&output));
    assert_eq!(run_cgroup(id), None, "a cgroup is left");
    Some(output)
}

#[test]
fn threads_that_are_moved_to_one_cpu_by_others_are_moved_back() {
    let mut only_0 = CpuSet::new();
    only_0.set(0);
    let take = |id| {
        for thread in vcpu_threads(id) {
            // A thread that has ended meanwhile needs no CPU.
            let _ = sched_setaffinity(Pid::from_raw(thread), &only_0);
        }
    };
    // The dispatcher binds a thread again when it moves it; until then it runs elsewhere than it believes, and says so by
    // its stolen time. Either way the run ends as any other.
    if let Some(output) = cpu_taken("threads_that_are_moved_to_one_cpu_by_others_are_moved_back", take) {
        assert_ends(&output, 0, &[]);
    }
}

#[test]
fn a_cpu_that_is_taken_from_the_cpuset_ends_the_run_with_its_name() {
    const TEST: &str = "a_cpu_that_is_taken_from_the_cpuset_ends_the_run_with_its_name";
    let Some(cpuset) = Cpuset::new() else {
        println!("skipped {TEST}: no writable cpuset hierarchy");
        return;
    };
    if let Some(output) = cpu_taken(TEST, |id| cpuset.take_in(id)) {
        // Under way the dispatcher cannot bind a thread to it; the next run is not begun.
        let page = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            Some(1) => assert!(page.contains("to CPU 1: Invalid argument"), "{page}"),
            _ => assert_ends(&output, 2, &["--pcpus names CPU 1, which this process may not use; it may use 0"]),
        }
    }
}

/// A cpuset of CPU 0 alone; removed again.
struct Cpuset(PathBuf);

impl Cpuset {
    fn new() -> Option<Self> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/cpuset/vmmlab-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let made = Self(path);
        let set = |file: &str| fs::write(made.0.join(file), "0").is_ok();
        (set("cpuset.mems") && set("cpuset.cpus")).then_some(made)
    }

    fn take_in(&self, id: u32) {
        fs::write(self.0.join("cgroup.procs"), id.to_string()).expect("a cpuset");
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        // Its processes have ended; the kernel may take a moment to notice.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn cgroups_that_are_removed_under_a_run_do_not_matter() {
    const TEST: &str = "cgroups_that_are_removed_under_a_run_do_not_matter";
    if !kvm(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let mut child = start(root.path(), &format!("{KVM} --mode gang,gang-next --duration 1s --blocks 1"));
    let id = child.id();
    wait_until(&mut child, || vcpu_threads(id).len() == 4);
    let Some(dir) = run_cgroup(id) else {
        println!("skipped {TEST}: no cgroup v2 hierarchy to write to");
        drop(output(child));
        return;
    };
    let home = dir.parent().expect("a home");
    let removed = (0..200).any(|_| {
        for vm in ["vm0", "vm1"] {
            // Its vCPUs, and the thread that KVM starts beside them.
            let inside = fs::read_to_string(dir.join(vm).join("cgroup.threads")).unwrap_or_default();
            inside.lines().for_each(|thread| fs::write(home.join("cgroup.threads"), thread).unwrap_or(()));
        }
        let _ = (fs::remove_dir(dir.join("vm0")), fs::remove_dir(dir.join("vm1")));
        std::thread::sleep(Duration::from_millis(1));
        fs::remove_dir(&dir).is_ok() || !dir.exists()
    });
    assert!(removed, "{} cannot be removed", dir.display());
    assert_ends(&output(child), 0, &[]);
    assert_eq!(run_cgroup(id), None, "a cgroup is left");
}

// ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_process_that_is_stopped_and_continued_is_no_stuck_guest() {
    const TEST: &str = "a_process_that_is_stopped_and_continued_is_no_stuck_guest";
    if !kvm(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let mut child = start(root.path(), &format!("{KVM} --mode pvflush --duration 2s --blocks 1"));
    let (id, pid) = (child.id(), Pid::from_child(&child));
    wait_until(&mut child, || vcpu_threads(id).len() == 4);
    std::thread::sleep(Duration::from_millis(500));
    kill_process(pid, Signal::STOP).expect("a child");
    // Longer than the watchdog's patience.
    std::thread::sleep(Duration::from_secs(11));
    kill_process(pid, Signal::CONT).expect("a child");
    assert_ends(&output(child), 0, &[]);
    let result = read(&root.path().join("out"));
    let notices = &result.runs[0].notices;
    assert!(notices.iter().any(|notice| notice.contains("stood still for")), "{notices:?}");
}

#[test]
fn what_schedules_and_measures_reads_no_clock_that_can_be_set() {
    // The clock of day is for the date of a result. Everything else must not care if it is set: testbed/run sets one under way.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut looked_at = 0;
    for source in ["vmm/src", "sim/src", "hostsched/src", "guest", "plan/src", "trace/src", "experiments/src"] {
        let mut todo = vec![root.join(source)];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).expect("a directory").flatten().map(|entry| entry.path()));
            } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("cli/run.rs") {
                looked_at += 1;
                let text = fs::read_to_string(&path).expect("a source");
                for clock in ["SystemTime", "Realtime", "CLOCK_REALTIME", "gettimeofday"] {
                    assert!(!text.contains(clock), "{} names {clock}", path.display());
                }
            }
        }
    }
    assert!(looked_at > 200, "only {looked_at} sources were looked at");
}

// ── Rights ──────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_user_with_access_to_kvm_and_nothing_else_can_run_everything() {
    const TEST: &str = "a_user_with_access_to_kvm_and_nothing_else_can_run_everything";
    if !kvm(TEST) || !can_mount(TEST) {
        return;
    }
    let root = tempfile::tempdir().expect("a directory");
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("rights");
    open(root.path());
    let program = root.path().join("vmmlab");
    fs::copy(VMMLAB, &program).expect("a copy");
    open(&program);
    let device = fs::metadata("/dev/kvm").expect("a device").rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A device of group 107, as distributions have it, and a user of no other rights.
    let script = format!(
        "mkdir dev && mount -t tmpfs none dev && mknod -m 660 dev/kvm c {major} {minor} && chgrp 107 dev/kvm && \
         mount --bind dev/kvm /dev/kvm && ulimit -r 0 && \
         exec setpriv --reuid 65534 --regid 65534 --groups 107 --inh-caps=-all --bounding-set=-all --no-new-privs \
         ./vmmlab {KVM} --mode base,gang,pvflush,ple --duration 400ms --blocks 1"
    );
    let output = shell(root.path(), &script);
    if String::from_utf8_lossy(&output.stderr).contains("setpriv: not found") {
        println!("skipped {TEST}: no setpriv(1)");
        return;
    }
    assert_ends(&output, 0, &[]);
    let result = read(&root.path().join("out"));
    assert_eq!((result.status, result.runs.len()), (RunStatus::Ok, 4));
    let gang = result.runs.iter().find(|run| run.mode == "gang").expect("gang ran");
    assert!(gang.notices.iter().any(|notice| notice.contains("gangs are the VMs, not cgroups")), "{:?}", gang.notices);
}
