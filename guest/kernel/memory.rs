//! The four functions that the compiler expects of a C library, and the one it expects of an unwinder.
//!
//! In assembly: written in Rust, the compiler may turn their loops into calls of themselves.

use core::arch::global_asm;

global_asm!(
    ".pushsection .text.memory,\"ax\",@progbits",
    ".irp name, memcpy, memmove, memset, memcmp",
    "    .global \\name",
    "    .type \\name, @function",
    ".endr",
    "memcpy:",
    "    mov rax, rdi",
    "    mov rcx, rdx",
    "    rep movsb",
    "    ret",
    ".size memcpy, . - memcpy",
    // Backwards if the destination begins inside the source.
    "memmove:",
    "    mov rax, rdi",
    "    mov rcx, rdi",
    "    sub rcx, rsi",
    "    cmp rcx, rdx",
    "    mov rcx, rdx",
    "    jae 1f",
    "    lea rdi, [rdi + rdx - 1]",
    "    lea rsi, [rsi + rdx - 1]",
    "    std",
    "    rep movsb",
    "    cld",
    "    ret",
    "1:  rep movsb",
    "    ret",
    ".size memmove, . - memmove",
    "memset:",
    "    mov r8, rdi",
    "    mov eax, esi",
    "    mov rcx, rdx",
    "    rep stosb",
    "    mov rax, r8",
    "    ret",
    ".size memset, . - memset",
    "memcmp:",
    "    xor eax, eax",
    "    mov rcx, rdx",
    "    cmp eax, eax",
    "    repe cmpsb",
    "    je 1f",
    "    movzx eax, byte ptr [rdi - 1]",
    "    movzx ecx, byte ptr [rsi - 1]",
    "    sub eax, ecx",
    "1:  ret",
    ".size memcmp, . - memcmp",
    ".popsection",
);

/// Referenced by the precompiled core library; never called, because panics abort.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
