//! Ring 0, all of it, and the two places of ring 3 that ring 0 knows by address. Pure integer assembly.
//!
//! Under kvm_pvm every instruction here costs about 1 us, and no SSE state is saved: no Rust code runs in ring 0. All
//! of it runs with interrupts off (interrupt gates), and none of it touches the window.
//!
//! | symbol | entered by | does |
//! |---|---|---|
//! | `flush_handler` | vector 0xf0 | flush, acknowledge, kick |
//! | `flush_handler_lost` | the same under `--inject lost-flush` | acknowledge, kick |
//! | `timer_handler` | vector 0xec | preemption off: set need_resched; else go on in `preempt_trampoline` (ring 3) |
//! | `exception_stubs` | exceptions 0 to 31, 16 bytes each | `gate_flush`, `gate_halt`, `gate_walk` (#UD), `probe_read` (#PF), else report |
//!
//! Order in the flush handler: the generation is read before CR3 is loaded and published after it, so that the
//! acknowledgement covers only flushes whose cleared entries this flush has seen. Then `waiters` is taken by an
//! exchange, a full barrier: see "Halting" in docs/guest-abi.md.

use core::arch::global_asm;
use core::mem::offset_of;

use abi::call::{Call, Report};
use abi::header::{ImageHeader, MAGIC, STUB_SIZE};
use abi::layout;
use abi::vcpu::VcpuPage;

unsafe extern "C" {
    fn _start();
    fn flush_handler();
    fn flush_handler_lost();
    fn timer_handler();
    fn exception_stubs();
    /// First instruction of a thread, on its own stack.
    pub(crate) fn thread_begin();
    /// Saves the callee-saved registers on the stack and its pointer in `save`, and goes on with the stack `sp`, which an
    /// earlier call saved or which begins with six words for registers and the address of `thread_begin`.
    pub(crate) fn switch_stack(save: *mut u64, sp: u64);
    /// Flushes this vCPU's TLB, real and soft (its epoch).
    pub(crate) safe fn gate_flush();
    /// `Call::Halt` from ring 0, with interrupts off: only a kick ends it, or nothing at all.
    pub(crate) safe fn gate_halt();
    /// Looks at a page-table entry and reads the stamp of its frame, and again `turns` turns of a loop later (at least one), all
    /// with interrupts off; zeroes if the entry is clear.
    pub(crate) fn gate_walk(entry: u64, turns: u64) -> Walked;
    /// Reads 8 bytes; a page fault gives `ok = 0` instead of an exception. Nothing is read that `address` does not map.
    pub(crate) safe fn probe_read(address: u64) -> Probe;
}

/// What [`probe_read`] found, in the two registers of a C return value.
#[repr(C)]
pub(crate) struct Probe {
    pub(crate) value: u64,
    pub(crate) ok: u64,
}

/// What [`gate_walk`] found, in the two registers of a C return value.
#[repr(C)]
pub(crate) struct Walked {
    /// The stamp at the end of the walk.
    pub(crate) last: u64,
    /// The stamp at its beginning.
    pub(crate) first: u64,
}

/// Function addresses as the header wants them.
#[repr(C)]
struct Header {
    magic: u64,
    version: u64,
    handlers: [unsafe extern "C" fn(); 5],
}

const _: () = assert!(size_of::<Header>() == size_of::<ImageHeader>());

#[used]
#[unsafe(link_section = ".vmmlab.header")]
static HEADER: Header = Header {
    magic: MAGIC,
    version: abi::VERSION as u64,
    handlers: [_start, flush_handler, flush_handler_lost, timer_handler, exception_stubs],
};

global_asm!(
    ".pushsection .text.stubs,\"ax\",@progbits",
    // A function in the symbol table, with its size: the guest profile names samples by it.
    ".macro function name",
    "    .balign 16",
    "    .global \\name",
    "    .type \\name, @function",
    "\\name:",
    ".endm",
    ".macro end name",
    "    .size \\name, . - \\name",
    ".endm",

    "function _start",
    "    mov edi, gs:[{index}]",
    "    call {main}",
    "    ud2",
    "end _start",

    // rax = the generation to acknowledge.
    "function flush_handler",
    "    push rax",
    "    push rcx",
    "    mov rax, [{tlb_gen}]",
    "    mov rcx, cr3",
    "    mov cr3, rcx",
    "    inc qword ptr gs:[{epoch}]",
    ".Lflush_acknowledge:",
    "    mov gs:[{flushed_gen}], rax",
    "    xor eax, eax",
    "    xchg gs:[{waiters}], rax",
    "    test rax, rax",
    "    jnz .Lflush_kick",
    ".Lflush_return:",
    "    pop rcx",
    "    pop rax",
    "    iretq",

    // rax = vCPUs that wait for this one; rbx = all bits but this vCPU's.
    ".Lflush_kick:",
    "    push rdx",
    "    push rbx",
    "    mov ecx, gs:[{index}]",
    "    mov rbx, -2",
    "    rol rbx, cl",
    "1:  bsf rcx, rax",
    "    btr rax, rcx",
    "    mov edx, ecx",
    "    shl rdx, 12",
    "    lock and qword ptr [rdx + {vcpu} + {remaining}], rbx",
    "    jnz 2f",
    "    push rax",
    "    mov eax, ecx",
    "    mov edx, {kick_port}",
    "    out dx, eax",
    "    pop rax",
    "2:  test rax, rax",
    "    jnz 1b",
    "    pop rbx",
    "    pop rdx",
    "    jmp .Lflush_return",
    "end flush_handler",

    "function flush_handler_lost",
    "    push rax",
    "    push rcx",
    "    mov rax, [{tlb_gen}]",
    "    jmp .Lflush_acknowledge",
    "end flush_handler_lost",

    // Preemptible: continues in ring 3 at the trampoline, with preemption off, and the old RIP pushed below the red zone of
    // the thread's stack. Interrupts come in ring 3 only, so the frame is always the thread's.
    "function timer_handler",
    "    cmp dword ptr gs:[{preempt_count}], 0",
    "    jne 1f",
    "    mov dword ptr gs:[{preempt_count}], 1",
    "    push rax",
    "    push rcx",
    "    mov rcx, [rsp + 16]",
    "    mov rax, [rsp + 40]",
    "    sub rax, 136",
    "    mov [rax], rcx",
    "    mov [rsp + 40], rax",
    "    mov qword ptr [rsp + 16], offset preempt_trampoline",
    "    pop rcx",
    "    pop rax",
    "    iretq",
    "1:  mov dword ptr gs:[{need_resched}], 1",
    "    iretq",
    "end timer_handler",

    // Vectors that push an error code: 8, 10 to 14, 17, 21, 29, 30.
    ".macro stub_plain vector",
    "    .balign {stub_size}",
    "    push 0",
    "    push \\vector",
    "    jmp exception_report",
    ".endm",
    ".macro stub_error vector",
    "    .balign {stub_size}",
    "    push \\vector",
    "    jmp exception_report",
    ".endm",
    "function exception_stubs",
    ".irp vector, 0, 1, 2, 3, 4, 5",
    "    stub_plain \\vector",
    ".endr",
    "    .balign {stub_size}",
    "    jmp exception_ud",
    "    stub_plain 7",
    "    stub_error 8",
    "    stub_plain 9",
    ".irp vector, 10, 11, 12, 13",
    "    stub_error \\vector",
    ".endr",
    "    .balign {stub_size}",
    "    jmp exception_pf",
    "    stub_plain 15",
    "    stub_plain 16",
    "    stub_error 17",
    ".irp vector, 18, 19, 20",
    "    stub_plain \\vector",
    ".endr",
    "    stub_error 21",
    ".irp vector, 22, 23, 24, 25, 26, 27, 28",
    "    stub_plain \\vector",
    ".endr",
    "    stub_error 29",
    "    stub_error 30",
    "    stub_plain 31",
    "end exception_stubs",

    // For the gates, rax, rcx, rdx and rsi are the caller's loss: the C ABI lets a function change them.
    "function exception_ud",
    "    cmp qword ptr [rsp], offset .Lgate_site",
    "    jne 1f",
    "    mov rcx, cr3",
    "    mov cr3, rcx",
    "    inc qword ptr gs:[{epoch}]",
    "    add qword ptr [rsp], 2",
    "    iretq",
    "1:  cmp qword ptr [rsp], offset .Lhalt_site",
    "    jne 2f",
    "    xor eax, eax",
    "    mov edx, {halt_port}",
    "    out dx, eax",
    "    add qword ptr [rsp], 2",
    "    iretq",
    "2:  cmp qword ptr [rsp], offset .Lwalk_site",
    "    jne 5f",
    "    xor edx, edx",
    "    mov rax, [rdi]",
    "    mov rcx, {frame_mask}",
    "    and rax, rcx",
    "    jz 4f",
    "    mov rdx, [rax]",
    "3:  dec rsi",
    "    jnz 3b",
    "    mov rax, [rax]",
    "4:  add qword ptr [rsp], 2",
    "    iretq",
    "5:  push 0",
    "    push 6",
    "    jmp exception_report",
    "end exception_ud",

    "function exception_pf",
    "    cmp qword ptr [rsp + 8], offset .Lprobe_site",
    "    jne 1f",
    "    mov qword ptr [rsp + 8], offset .Lprobe_fault",
    "    add rsp, 8",
    "    iretq",
    "1:  push 14",
    "    jmp exception_report",
    "end exception_pf",

    // On the stack: vector, error code, RIP, CS, RFLAGS, RSP. Never returns.
    "function exception_report",
    "    pop rax",
    "    mov gs:[{exc_vector}], rax",
    "    pop rax",
    "    mov gs:[{exc_error}], rax",
    "    pop rax",
    "    mov gs:[{exc_rip}], rax",
    "    pop rax",
    "    mov gs:[{exc_cs}], rax",
    "    pop rax",
    "    mov gs:[{exc_rflags}], rax",
    "    pop rax",
    "    mov gs:[{exc_rsp}], rax",
    "    mov rax, cr2",
    "    mov gs:[{exc_cr2}], rax",
    "    mov eax, {report_exception}",
    "    mov edx, {report_port}",
    "    out dx, eax",
    "2:  xor eax, eax",
    "    mov edx, {halt_port}",
    "    out dx, eax",
    "    jmp 2b",
    "end exception_report",

    // Ring 3 from here.
    "function gate_flush",
    ".Lgate_site:",
    "    ud2",
    "    ret",
    "end gate_flush",

    "function gate_walk",
    ".Lwalk_site:",
    "    ud2",
    "    ret",
    "end gate_walk",

    "function gate_halt",
    ".Lhalt_site:",
    "    ud2",
    "    ret",
    "end gate_halt",

    // All that a function call may change is saved here, SSE included; the rest by `switch_stack`. The stack pointer stands
    // at the interrupted RIP, above which is the red zone. The last subtraction lets the next tick in.
    "function preempt_trampoline",
    "    pushfq",
    "    cld",
    ".irp register, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbp",
    "    push \\register",
    ".endr",
    "    mov rbp, rsp",
    "    and rsp, -16",
    "    sub rsp, 512",
    "    fxsave64 [rsp]",
    "    call {tick_due}",
    "    fxrstor64 [rsp]",
    "    mov rsp, rbp",
    ".irp register, rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax",
    "    pop \\register",
    ".endr",
    "    sub dword ptr gs:[{preempt_count}], 1",
    "    popfq",
    "    ret 128",
    "end preempt_trampoline",

    "function switch_stack",
    ".irp register, rbp, rbx, r12, r13, r14, r15",
    "    push \\register",
    ".endr",
    "    mov [rdi], rsp",
    "    mov rsp, rsi",
    ".irp register, r15, r14, r13, r12, rbx, rbp",
    "    pop \\register",
    ".endr",
    "    ret",
    "end switch_stack",

    "function thread_begin",
    "    call {thread_main}",
    "    ud2",
    "end thread_begin",

    "function probe_read",
    ".Lprobe_site:",
    "    mov rax, [rdi]",
    "    mov edx, 1",
    "    ret",
    ".Lprobe_fault:",
    "    xor eax, eax",
    "    xor edx, edx",
    "    ret",
    "end probe_read",
    ".popsection",

    main = sym crate::main,
    frame_mask = const crate::window::ADDRESS,
    thread_main = sym crate::thread::thread_main,
    tick_due = sym crate::runqueue::tick_due,
    preempt_count = const offset_of!(VcpuPage, sched.0.preempt_count),
    need_resched = const offset_of!(VcpuPage, sched.0.need_resched),
    tlb_gen = sym crate::flush::SPACE,
    index = const offset_of!(VcpuPage, host.0.index),
    epoch = const offset_of!(VcpuPage, flush.0.epoch),
    flushed_gen = const offset_of!(VcpuPage, flush.0.flushed_gen),
    waiters = const offset_of!(VcpuPage, kick.0.waiters),
    remaining = const offset_of!(VcpuPage, kick.0.remaining),
    vcpu = const layout::VCPU,
    stub_size = const STUB_SIZE,
    kick_port = const Call::KickCpu.port(),
    report_port = const Call::Report.port(),
    halt_port = const Call::Halt.port(),
    report_exception = const Report::Exception as u32,
    exc_vector = const offset_of!(VcpuPage, exception.0.vector),
    exc_error = const offset_of!(VcpuPage, exception.0.error),
    exc_rip = const offset_of!(VcpuPage, exception.0.rip),
    exc_cs = const offset_of!(VcpuPage, exception.0.cs),
    exc_rflags = const offset_of!(VcpuPage, exception.0.rflags),
    exc_rsp = const offset_of!(VcpuPage, exception.0.rsp),
    exc_cr2 = const offset_of!(VcpuPage, exception.0.cr2),
);
