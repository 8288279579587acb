//! The properties that the module's page promises, over presets, hand-made cases and random machines.

use proptest::prelude::*;

use super::*;

fn machine(text: &str) -> Machine {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn domains(text: &str) -> SchedDomains {
    let machine = machine(text);
    build_sched_domains(&machine, machine.online(), BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// One CPU's domains, lowest first: `NAME span group group ...`.
fn shown(domains: &SchedDomains, cpu: u32) -> Vec<String> {
    let group = |group: &SchedGroup| format!(" {}", group.cpus);
    let line = |sd: &SchedDomain| format!("{} {}:{}", sd.level, sd.span, sd.groups().map(group).collect::<String>());
    domains.of(CpuId(cpu)).iter().map(line).collect()
}

/// The buddies of all CPUs at a place in their stacks.
fn buddies(domains: &SchedDomains, at: usize) -> Vec<Option<u32>> {
    let buddy = |cpu: CpuId| domains.of(cpu).get(at).and_then(|sd| sd.idle_buddy).map(|cpu| cpu.0);
    domains.cpu_map().iter().map(buddy).collect()
}

#[test]
fn the_drawing_of_the_module_page_is_true() {
    let domains = domains("2s:2c:2t");
    assert_eq!(shown(&domains, 2), ["SIBLING 2-3: 2 3", "MC 0-3: 2-3 0-1", "CPU 0-7: 0-3 4-7"]);
    assert_eq!(shown(&domains, 5), ["SIBLING 4-5: 5 4", "MC 4-7: 4-5 6-7", "CPU 0-7: 4-7 0-3"]);
    let power = |at: usize| domains.initial_power(domains.of(CpuId(2))[at].local_group().sgp);
    assert_eq!([power(0), power(1), power(2)], [589, 1178, 2356]);
}

#[test]
fn flags_and_names_are_those_of_the_golden_kernel() {
    for (text, cpu, want) in [
        ("8s:1c", 0, vec![("CPU", 4143, 8, 1024)]),
        ("1s:4c", 3, vec![("MC", 4655, 4, 1024)]),
        ("2s:4c", 5, vec![("MC", 4655, 4, 1024), ("CPU", 4143, 2, 4096)]),
        ("1s:1c", 0, vec![]),
    ] {
        let domains = domains(text);
        let row = |sd: &SchedDomain| {
            (sd.level.name(), sd.params.flags.0, sd.group_count(), domains.initial_power(sd.local_group().sgp))
        };
        assert_eq!(domains.of(CpuId(cpu)).iter().map(row).collect::<Vec<_>>(), want, "{text}");
    }
}

#[test]
fn published_machines_have_the_domains_that_their_kernels_printed() {
    // "All better", select_idle_sibling thread, 2012-05-26.
    let q6600 = domains("q6600");
    assert_eq!(shown(&q6600, 1), ["MC 0-1: 1 0", "CPU 0-3: 0-1 2-3"]);
    assert_eq!(shown(&q6600, 2), ["MC 2-3: 2 3", "CPU 0-3: 2-3 0-1"]);
    // "3.4 went broke for Q6600".
    let broken = machine("q6600-broken");
    let error = build_sched_domains(&broken, broken.online(), BuildOptions::default()).unwrap_err().to_string();
    assert!(error.contains("MC domain 0-3 holds CPUs beyond its last-level cache 0,3"), "{error}");
    let allow = BuildOptions { allow_broken: true, ..BuildOptions::default() };
    let loaded = build_sched_domains(&broken, broken.online(), allow).unwrap();
    assert_eq!(shown(&loaded, 2), ["MC 0-3: 2 3 0 1"]);
    assert_eq!(loaded.broken().len(), 1);
}

#[test]
fn numa_levels_are_those_of_the_chosen_kernel() {
    assert_eq!(shown(&domains("4n:1s:2c"), 4), ["MC 4-5: 4 5", "NODE 0-7: 4-5 6-7 0-1 2-3"]);
    let line =
        machine("pkg=0/1/2/3:node0=0:node1=1:node2=2:node3=3:dist=10,20,30,40/20,10,20,30/30,20,10,20/40,30,20,10");
    let by_distance = BuildOptions { numa: NumaLevels::ByDistance, ..BuildOptions::default() };
    let error = build_sched_domains(&line, line.online(), by_distance).unwrap_err().to_string();
    assert!(error.contains("CPU 0: group 1-3 of the NUMA domain 0-2 holds CPU 3, which is outside"), "{error}");
    let allow = BuildOptions { allow_broken: true, ..by_distance };
    let loaded = build_sched_domains(&line, line.online(), allow).unwrap();
    assert_eq!(shown(&loaded, 0), ["NUMA 0-1: 0 1", "NUMA 0-2: 0-1 1-3", "NUMA 0-3: 0-2 1-3"]);
    // 3.4 takes the 16 nearest nodes and has no such trouble.
    assert!(build_sched_domains(&line, line.online(), BuildOptions::default()).is_ok());
}

#[test]
fn more_than_16_nodes_have_an_allnodes_level_above_node() {
    let domains = domains("18n:1s:1c");
    assert_eq!(
        domains.of(CpuId(0)).iter().map(|sd| (sd.level, sd.span_weight)).collect::<Vec<_>>(),
        [(Level::Node, 16), (Level::AllNodes, 18)]
    );
}

#[test]
fn a_core_that_crosses_caches_is_refused_with_the_reason() {
    let error = build_sched_domains(
        &machine("pkg=0-7:smt=0-1,4-5/2-3,6-7:llc=0-3/4-7"),
        &CpuSet::first_n(8),
        BuildOptions::default(),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the SIBLING domain 0-1,4-5 is not inside the MC domain 0-3"), "{error}");
}

#[test]
fn buddies_are_cross_wired_by_core_and_by_thread() {
    let some = |buddies: &[u32]| buddies.iter().copied().map(Some).collect::<Vec<_>>();
    assert_eq!(buddies(&domains("six-core"), 0), some(&[1, 0, 3, 2, 5, 4]));
    assert_eq!(buddies(&domains("1s:5c"), 0), some(&[1, 0, 3, 2, 3]));
    let e5620 = domains("e5620");
    assert_eq!(buddies(&e5620, 0), some(&[1, 0, 3, 2, 5, 4, 7, 6]));
    assert_eq!(buddies(&e5620, 1), some(&[2, 2, 0, 0, 6, 6, 4, 4]));
    // Packages share no cache: no buddy above the LLC.
    assert_eq!(buddies(&domains("x3650m2"), 1), [None; 8]);
    // Four threads a core: pairs, not a ring.
    assert_eq!(buddies(&domains("1s:2c:4t"), 0), some(&[1, 0, 3, 2, 5, 4, 7, 6]));
}

#[test]
fn the_gang_span_is_the_smallest_domain_that_is_large_enough() {
    let domains = domains("2s:4c:2t");
    for (cpu, gang_cpus, want) in
        [(3, 1, "2-3"), (3, 2, "2-3"), (3, 3, "0-7"), (9, 8, "8-15"), (9, 9, "0-15"), (9, 64, "0-15")]
    {
        assert_eq!(domains.gang_span(CpuId(cpu), gang_cpus).to_string(), want, "CPU {cpu}, gang_cpus {gang_cpus}");
    }
    assert_eq!(super::tests::domains("1s:1c").gang_span(CpuId(0), 8).to_string(), "0");
}

#[test]
fn an_offline_cpu_is_nowhere_and_comes_back_as_it_was() {
    let machine = machine("e5620");
    let mut online = machine.online().clone();
    online.remove(CpuId(4));
    let without = build_sched_domains(&machine, &online, BuildOptions::default()).unwrap();
    // CPU 5 has lost its sibling: no SMT domain.
    assert_eq!(shown(&without, 5), ["MC 0-3,5-7: 5 6-7 0-1 2-3"]);
    assert!(without.of(CpuId(4)).is_empty());
    let again = build_sched_domains(&machine, machine.online(), BuildOptions::default()).unwrap();
    assert_eq!(shown(&again, 5), shown(&domains("e5620"), 5));
}

#[test]
fn text_errors_name_position_value_and_remedy() {
    for (text, want) in [
        ("", "position 1, found 'nothing'"),
        ("2s:4x", "position 4, found '4x'"),
        ("2s:0c", "position 4, found '0c'"),
        ("4c:2s", "position 4, found '2s'"),
        ("2s", "a count of cores"),
        ("2s:8192c", "at most 8192 CPUs"),
        ("99999999999s:1c", "position 1"),
        ("2é", "position 1"),
        ("pkg=0-3:smt=0-1/1-2", "CPU 1 at position 17 was named before"),
        ("pkg=0-3:smt=0-1", "'smt' does not say where CPU 2 belongs"),
        ("pkg=0-1:smt=0-2", "every CPU in 'pkg'"),
        ("pkg=3-0", "runs upwards at position 5"),
        ("pkg=0-9000", "CPUs below 8192 at position 7"),
        ("pkg=0:llc=0:llc=0", "position 13"),
        ("pkg=0:node0=0:node00=", "position 15"),
        ("pkg=0:dist=10,20", "node 0 has 2 distances; it needs 1"),
        ("pkg=0-1:offline=7", "CPU 7 is marked offline"),
        ("pkg=0-1:offline=0-1", "no online CPU"),
        ("smt=0", "a part 'pkg=...'"),
    ] {
        let error = text.parse::<Machine>().unwrap_err().to_string();
        assert!(error.contains(want), "'{text}' gave: {error}");
    }
}

/// Machines with gaps in their numbers, cores of differing width, partial caches, nodes without CPUs, offline CPUs.
fn machines() -> impl Strategy<Value = Machine> {
    let cpu = (0u32..200, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0u32..10);
    (prop::collection::vec(cpu, 1..60), 0u32..5, 16u32..40).prop_map(|(rows, memory_nodes, far)| {
        let (mut core, mut llc, mut package, mut node) = (0, 0, 0, 0);
        let mut cpus: Vec<Cpu> = Vec::new();
        let mut offline = CpuSet::new();
        for (id, new_node, new_package, new_llc, new_core, off) in rows {
            // Each level may only change where the one above it does: nested by construction.
            let (new_node, new_package) =
                (new_node && new_package && new_llc && new_core, new_package && new_llc && new_core);
            node += 3 * u32::from(new_node);
            package += u32::from(new_package);
            llc += u32::from(new_package || new_llc && new_core);
            core += u32::from(new_core);
            if cpus.iter().all(|cpu| cpu.id.0 != id) {
                cpus.push(Cpu { id: CpuId(id), core, thread: 0, llc, mc: llc, package, node });
                if off == 0 && cpus.len() > 1 {
                    offline.insert(CpuId(id));
                }
            }
        }
        let ids: Vec<u32> = (0..=node / 3).map(|node| node * 3).chain((0..memory_nodes).map(|n| 500 + n)).collect();
        let distance = |from: usize| (0..ids.len()).map(|to| if from == to { 10 } else { far }).collect();
        let nodes = ids.iter().enumerate().map(|(at, id)| Node { id: *id, distance: distance(at) }).collect();
        Machine::new(cpus, nodes, &offline).unwrap()
    })
}

proptest! {
    #[test]
    fn a_machine_prints_and_reads_back(machine in machines()) {
        let text = machine.to_string();
        let again: Machine = text.parse().unwrap();
        prop_assert_eq!(again.to_string(), text);
        prop_assert_eq!(again, machine);
    }

    #[test]
    fn regular_machines_print_as_they_were_asked_for(
        s in 1u32..5, n in 1u32..4, inside: bool, l in 1u32..4, c in 1u32..5, t in 1u32..4
    ) {
        let outer = if inside { format!("{s}s:{n}n") } else { format!("{n}n:{s}s") };
        let machine = machine(&format!("{outer}:{l}l:{c}c:{t}t"));
        prop_assert_eq!(machine.online().weight(), s * n * l * c * t);
        let normal = machine.to_string();
        prop_assert!(!normal.contains('='), "{}", normal);
        prop_assert_eq!(super::tests::machine(&normal), machine);
    }

    #[test]
    fn any_text_is_answered(text in ".{0,60}", parts in "(pkg|smt|llc|mc|node[0-9]|dist|offline)=[0-9,/-]{0,12}(:(pkg|smt|node1|dist)=[0-9,/-]{0,12}){0,4}") {
        let _ = text.parse::<Machine>();
        let _ = parts.parse::<Machine>();
    }

    #[test]
    fn domains_are_nested_covered_by_their_groups_and_equal_round_the_ring(machine in machines()) {
        let domains = build_sched_domains(&machine, machine.online(), BuildOptions::default()).unwrap();
        for cpu in machine.online() {
            let stack = domains.of(cpu);
            if let Some(top) = stack.last() {
                prop_assert_eq!(&*top.span, machine.online());
            } else {
                prop_assert_eq!(machine.online().weight(), 1);
            }
            for pair in stack.windows(2) {
                prop_assert!(pair[0].span.is_subset(&pair[1].span));
            }
            for sd in stack {
                prop_assert!(sd.span.contains(cpu) && sd.local_group().cpus.contains(cpu));
                prop_assert_eq!(sd.span_weight, sd.span.weight());
                let covered = sd.groups().fold(CpuSet::new(), |all, group| all.or(&group.cpus));
                prop_assert_eq!(&covered, &*sd.span);
                prop_assert_eq!(sd.groups().map(|group| group.group_weight).sum::<u32>(), sd.span_weight);
                if let Some(buddy) = sd.idle_buddy {
                    prop_assert!(sd.span.contains(buddy));
                }
                for other in sd.span.iter() {
                    let theirs = domains.of(other).iter().find(|their| their.level == sd.level);
                    if let Some(theirs) = theirs {
                        let start = theirs.groups().position(|group| group == sd.local_group()).unwrap();
                        let turned = theirs.groups().cycle().skip(start).take(theirs.group_count());
                        prop_assert!(turned.eq(sd.groups()));
                    }
                }
            }
        }
    }

    #[test]
    fn power_adds_up_and_an_absent_cpu_is_never_mentioned(machine in machines(), gone in 0u32..200) {
        let mut online = machine.online().clone();
        online.remove(CpuId(gone));
        let domains = build_sched_domains(&machine, &online, BuildOptions::default()).unwrap();
        for cpu in &online {
            let cores = machine.partition(&online, |cpu| cpu.core);
            for sd in domains.of(cpu) {
                prop_assert!(!sd.span.contains(CpuId(gone)));
                prop_assert!(sd.idle_buddy.is_none_or(|buddy| online.contains(buddy)));
                for group in sd.groups() {
                    let own = |cpu: CpuId| {
                        let threads = cores[&machine.cpu(cpu).unwrap().core].weight();
                        if threads > 1 { 1178 / threads } else { SCHED_POWER_SCALE }
                    };
                    let want: u32 = group.cpus.iter().map(own).sum();
                    prop_assert_eq!(domains.initial_power(group.sgp), want);
                }
            }
            prop_assert!(!domains.gang_span(cpu, 8).contains(CpuId(gone)));
        }
    }
}
