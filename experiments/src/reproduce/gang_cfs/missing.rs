//! What is not reproduced of "Gang scheduling in CFS", or not well, and why, in words.

/// What is not reproduced, and why.
pub(super) const TEXT: &[&str] = &[
    "kernbench, specjbb, hackbench, dbench: the simulator has no model of them yet (fork and exec phases; stop-the-world \
     barriers; guest spinlocks with holder preemption; a shared disk). Their rows are left out, not guessed.",
    "32-bit tables: noisier guests that were used again between benchmarks; not attempted.",
    "Time in the flush wait under gang: published 7 and 23 %, ours less. Suspected: here fellows answer their leader within \
     microseconds; theirs did when their interrupt handler and their vCPU's exit let them.",
    "PLE: directed yield is too good here, so base is too fast, exits are too few and gang gains nothing. The published \
     counts want many exits and few useful yields. Later kernels' limits on who receives are switches of the policy, \
     and off, as in 3.2; none of them was fitted.",
    "yield-on-hlt: the published guests lost 44 % with HLT kept in the guest; ours halt too rarely for that (mmap_sem is \
     their only reason to block).",
    "pin/base is too high at 2 and 4 VMs, V2/base too low at 8: base here profits less from free placement at few VMs, and \
     more at many, than the published one.",
];
