//! What is not reproduced of "Gang scheduling in CFS", or not well, and why, in words.

/// A sentence or two each; the numbers stand in the tables.
pub(super) const TEXT: &[&str] = &[
    "What was fitted: the values whose source says so in the machine file, flush_per_mille and the hosts' timer frequency, \
     to the nine numbers of pvflush-nonple and to nothing else. Eight values for nine numbers is a description, not a proof: \
     what was not fitted (the gain tables, the pinned ratios, PLE) is what speaks for it or against it.",
    "The hosts' timer frequency is not published. 1000 Hz leaves base too fast at 8 VMs and gang too fast at 2; 100 Hz fits the \
     nine numbers as well as 250 Hz, but V1 then loses more than a third of what it gained. With 250 Hz a fellow's own tick \
     takes its vCPU away up to 4 ms before the leader moves on, which is what the published gang at 2 VMs and its 23 % of \
     time in the flush wait ask for.",
    "base at 8 VMs is too fast, so V2/base is too low there. Suspected: nearly half of its records come from the time in \
     which few VMs run (the staggered starts), and of the rest a flush here takes 1.3 of the host's rounds, there it took \
     about 2: more vCPUs of a VM stacked on one CPU than our balancing leaves.",
    "Time in the flush wait under gang: published 23 and 7 %, ours less, most of all with PLE. Here fellows answer their leader \
     within microseconds, and a flush costs one interrupt for all targets; theirs did when their handlers let them.",
    "PLE: directed yield is too good here. Ours needs about one exit for a record, the published counts say six, at 27 us of \
     spinning each, and 45 % of the guests' time against 14 %. So base is too fast and gang gains too little; V1 gains too \
     much, because here the hint that a fellow may refuse is refused more seldom once nobody spins long. None of what later \
     kernels changed about the receivers explains it (table ple-switches), nor do costs: the exits at ple_window 2048 bound \
     exit, walk and switch together to a few us. Suspected: waits that no boost of a sibling shortens, such as targets with \
     interrupts off under contended page-allocator locks.",
    "yield-on-hlt, switches: with HLT kept in the guest the published guests lost 44 %, ours lose nothing, because they hardly \
     halt: mmap_sem is their only reason to block. The published hosts also switched five times as often as ours, which \
     points the same way: those guests blocked far more often, briefly. The published pair of numbers is of another set of \
     guests, with four times the records/s of every later table.",
    "on-enter and pvflush come out the same, and should: once those that do not run are marked, the others answer within \
     18 us in 99 of 100 flushes, which is when the spin budget ends; so pvflush has no reason to halt. They differ where \
     targets keep interrupts off.",
    "kernbench, specjbb, hackbench and dbench are shapes, sized by what their published runs asked for and fitted to nothing; \
     each says in its file what it leaves out. Guest spinlocks with preempted holders dominate hackbench here, so every gang \
     gains and far too much; dbench waits for its one disk, so the scheduler changes nothing. Only the signs of the published \
     gains above 10 points are scored; a gain of ours that rounds to 0 has no sign.",
    "32-bit tables: noisier guests that were used again between benchmarks; not attempted.",
];
