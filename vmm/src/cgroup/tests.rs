//! Of the cgroups of a run. Those that need a writable hierarchy are skipped by name where there is none.

use std::path::Path;

use super::home::{directory, parse_mount};
use super::*;

/// The cgroups of a run of `vms`, or a word on why the test is skipped.
fn create(test: &str, vms: u32) -> Option<RunCgroup> {
    match RunCgroup::create(None, vms, 0, true) {
        Ok(run) => Some(run),
        Err(error) => {
            println!("skipped {test}: {error}");
            None
        }
    }
}

#[test]
fn the_kernel_counts_a_thread_to_the_vm_it_joined() {
    let Some(run) = create("the_kernel_counts_a_thread_to_the_vm_it_joined", 2) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run.join(1).unwrap();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            assert_eq!(run.members(1).unwrap(), [tid]);
            assert!(run.members(0).unwrap().is_empty());
        });
    });
}

#[test]
fn the_flag_is_read_from_the_directory() {
    let Some(run) = create("the_flag_is_read_from_the_directory", 2) else { return };
    assert!(run.gang(0).unwrap() && run.gang(1).unwrap());
    set_gang_flag(&run.vms[1], false).unwrap();
    set_gang_flag(&run.vms[1], false).unwrap();
    assert!(run.gang(0).unwrap() && !run.gang(1).unwrap());
    let listed = list_gangs(Some(run.path())).unwrap();
    assert_eq!(listed, [GangEntry { path: run.vms[0].clone(), gang: true, threads: 0 }]);
}

#[test]
fn nothing_is_left_after_a_panic_in_a_member_thread() {
    let Some(run) = create("nothing_is_left_after_a_panic_in_a_member_thread", 1) else { return };
    let dir = run.path().to_owned();
    std::thread::scope(|scope| {
        let member = scope.spawn(|| {
            run.join(0).unwrap();
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(member.join().is_err());
    });
    drop(run);
    assert!(!dir.exists());
}

#[test]
fn a_dead_process_is_swept_and_a_living_one_is_not() {
    let Some(run) = create("a_dead_process_is_swept_and_a_living_one_is_not", 1) else { return };
    let home = run.path().parent().unwrap();
    // Process ids end at 2^22 (Linux: PID_MAX_LIMIT).
    let dead = home.join("vmmlab-4194305-0");
    threaded(&dead).unwrap();
    threaded(&dead.join("vm0")).unwrap();
    sweep(home);
    assert!(!dead.exists() && run.path().exists());
}

#[test]
fn a_directory_that_is_no_cgroup_is_named() {
    let error = RunCgroup::create(Some(Path::new("/proc/no-such-cgroup")), 1, 0, true).unwrap_err();
    assert!(error.to_string().contains("/proc/no-such-cgroup"), "{error}");
}

#[test]
fn mounts_and_own_group_are_read_as_the_kernel_writes_them() {
    let line = "36 25 0:30 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:9 - cgroup2 cgroup2 rw";
    assert_eq!(parse_mount(line).unwrap(), ("/".into(), "/sys/fs/cgroup/uni fied".into()));
    assert_eq!(parse_mount("36 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
    assert_eq!(parse_mount("nonsense"), None);
    let groups = "4:memory:/a\n0::/box/a.scope\n";
    assert_eq!(directory(groups, "/".as_ref(), "/c".as_ref()).unwrap(), Path::new("/c/box/a.scope"));
    assert_eq!(directory(groups, "/box".as_ref(), "/c".as_ref()).unwrap(), Path::new("/c/a.scope"));
    assert_eq!(directory("4:memory:/a\n", "/".as_ref(), "/c".as_ref()), None);
}
