// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions with one slow instruction, and where the clock's samples of them lie. That an idiv's, a
//! missing load's and a locked instruction's lie on the next one, and those of `rep movsb` on itself,
//! was seen with perf's cpu-clock on a virtual machine (94, 98, 94 and 100 % of them).

use super::super::disassembly::Kind;
use super::super::words::{hot_instruction, hot_words, HotInstruction, Named, Side};
use super::{assemble, profile};
use plumb_model::profile::{Origin, Profile};

const F: Named<'_> = Named { function: "f", module: "prog", origin: Origin::User };

/// The hot instruction of assembled text, with samples by the place in it; the offsets too.
fn hot(text: &str, samples: &[(usize, u64)]) -> Option<(Option<HotInstruction>, Vec<u64>, Profile)> {
    let shown = assemble(text)?;
    let code: Vec<u8> = shown.iter().flat_map(|s| s.bytes.iter().copied()).collect();
    let at: Vec<u64> = shown.iter().map(|s| s.address).collect();
    let samples: Vec<(u64, u64)> = samples.iter().map(|(i, n)| (at[*i], *n)).collect();
    let p = profile(&code, &samples);
    Some((hot_instruction(&p, "x86_64", F), at, p))
}

#[test]
fn a_division_is_blamed_for_the_samples_behind_it() {
    let text = "mov $1,%esi\n1: mov %r8,%rax\ncqto\nidivq %rsi\nadd %rax,%rcx\nadd $1,%rsi\ncmp %rsi,%rdi\njne 1b\nret";
    let Some((hot, at, _)) = hot(text, &[(3, 58), (4, 1918), (5, 70)]) else { return };
    let hot = hot.expect("a hot instruction");
    let culprit = hot.culprit.clone().expect("a culprit");
    assert_eq!((hot.offset, culprit.offset, culprit.kind), (at[4], at[3], Kind::Divide));
    assert_eq!((culprit.side, hot.jumped_to, hot.samples), (Side::Before, false, 1918));
    let l = hot.r#loop.expect("a loop");
    assert_eq!((l.place.from, l.place.to, l.place.instructions), (at[1], at[7], 7));
    assert_eq!(
        hot.sentence,
        "94 % of f lies at +0xd (right behind `idiv %rsi`): a division takes many cycles; \
         in a loop of 7 instructions from +0x5 to +0x17 (100 %)"
    );
}

#[test]
fn a_copy_has_its_own_samples_and_those_behind_it() {
    let text = "mov %rdx,%rcx\nrep movsb\nnop\nret";
    for at in [1, 2] {
        let Some((hot, _, _)) = hot(text, &[(at, 34), (0, 49)]) else { return };
        // Most samples are elsewhere.
        assert_eq!(hot.expect("a hot instruction").offset, 0);
    }
    let side = |at| {
        let (hot, _, _) = hot(text, &[(at, 50), (0, 33)])?;
        let culprit = hot.expect("a hot instruction").culprit.expect("a culprit");
        assert_eq!((culprit.kind, culprit.instruction.as_str()), (Kind::Copy, "rep movsb"));
        Some(culprit.side)
    };
    let (Some(on), Some(behind)) = (side(1), side(2)) else { return };
    assert_eq!((on, behind), (Side::At, Side::Before));
}

#[test]
fn what_is_slow_is_named_by_its_kind() {
    // Two instructions: the one to blame, and where the samples lie.
    let cases = [
        ("mov (%rdi),%rax\nadd %rax,%rcx", Kind::Load),
        ("add %rcx,8(%rdi)\nnop", Kind::Load),
        ("vgatherdpd %ymm0,(%rdi,%xmm1,8),%ymm2\nnop", Kind::Load),
        ("lock incq (%rdi)\nnop", Kind::Atomic),
        ("xchg %rax,(%rdi)\nnop", Kind::Atomic),
        ("pause\ncmp %eax,%ecx", Kind::Pause),
        ("syscall\ncmp $0xfffffffffffff001,%rax", Kind::SystemCall),
        ("cpuid\nnop", Kind::Hypervisor),
        ("outb %al,%dx\nnop", Kind::Hypervisor),
        ("wrmsr\nnop", Kind::Hypervisor),
        ("hlt\nnop", Kind::Hypervisor),
        ("rdtsc\nshl $32,%rdx", Kind::Clock),
        ("mfence\nnop", Kind::Serialise),
        ("mov %rax,%cr3\nnop", Kind::Serialise),
        ("sti\nnop", Kind::Unmask),
        ("popfq\nnop", Kind::Unmask),
        ("sqrtsd %xmm0,%xmm0\nnop", Kind::Root),
        ("divsd %xmm1,%xmm0\nnop", Kind::Divide),
        ("rep stosq\nnop", Kind::Fill),
        ("repe cmpsb\nnop", Kind::Scan),
        ("clflush (%rdi)\nnop", Kind::Flush),
        ("call *%rax\nnop", Kind::Call),
    ];
    for (text, kind) in cases {
        let Some((hot, _, _)) = hot(&format!("nop\n{text}\nret"), &[(2, 20)]) else { return };
        let culprit = hot.expect(text).culprit.expect(text);
        assert_eq!((culprit.kind, culprit.side), (kind, Side::Before), "{text}");
    }
}

#[test]
fn what_is_fast_is_not_blamed() {
    let quick = [
        "lea (%rdi),%rax\nnop",
        "nopl (%rax)\nnop",
        "mov %rax,(%rdi)\nnop",
        "push %rax\nnop",
        "mov 8(%rsp),%rax\nnop",
        "movsd %xmm1,%xmm0\nnop",
        "xchg %rax,%rcx\nnop",
        "prefetcht0 (%rdi)\nnop",
    ];
    for text in quick {
        let Some((hot, _, _)) = hot(&format!("nop\n{text}\nret"), &[(2, 20)]) else { return };
        let hot = hot.expect(text);
        assert_eq!(hot.culprit, None, "{text}");
        assert!(hot.sentence.ends_with("nothing there is known to be slow"), "{}", hot.sentence);
    }
}

#[test]
fn no_instruction_is_blamed_that_does_not_lead_there() {
    let text = "test %eax,%eax\nje 2f\nidivq %rsi\njmp 3f\n2: nop\n3: ret";
    let Some((found, at, _)) = hot(text, &[(4, 20)]) else { return };
    let found = found.expect("a hot instruction");
    assert_eq!((found.offset, found.jumped_to, found.culprit), (at[4], true, None));
    assert!(found.sentence.contains("jumps lead to"), "{}", found.sentence);
    // A division far before is not it, one a little before perhaps.
    let near = |nops: usize| {
        let nops = "nop\n".repeat(nops);
        let (hot, at, _) = hot(&format!("idivq %rsi\n{nops}nop\nret"), &[(nops.lines().count() + 1, 20)])?;
        Some((hot.expect("a hot instruction").culprit.map(|c| (c.offset, c.side, c.distance)), at))
    };
    assert_eq!(near(2).map(|(c, _)| c), Some(Some((0, Side::Near, 3))));
    assert_eq!(near(3).map(|(c, _)| c), Some(None));
}

#[test]
fn a_few_samples_or_a_small_part_are_no_hot_instruction() {
    let text = "nop\nidivq %rsi\nnop\nnop\nnop\nnop\nret";
    let Some((nine, _, _)) = hot(text, &[(2, 9)]) else { return };
    assert_eq!(nine, None);
    let flat: Vec<(usize, u64)> = (0..5).map(|i| (i, 20)).collect();
    let Some((flat, _, p)) = hot(text, &flat) else { return };
    assert_eq!((flat, hot_words(&p, "x86_64", F)), (None, None));
    let Some((ten, _, p)) = hot(text, &[(2, 10), (0, 10), (3, 10), (4, 10)]) else { return };
    assert!(ten.is_some());
    assert_eq!(
        hot_instruction(&p, "x86_64", Named { origin: Origin::Kernel, ..F }),
        None,
        "another's function"
    );
    assert_eq!(hot_instruction(&p, "x86_64", Named { module: "libx.so", ..F }), None);
    assert_eq!(hot_instruction(&p, "x86_64", Named { function: "g", ..F }), None);
    assert_eq!(hot_instruction(&p, "aarch64", F), None, "not taken apart");
}

#[test]
fn samples_all_over_a_loop_name_the_loop() {
    let text = "xor %eax,%eax\n1: add $1,%rax\nxor %rax,%rcx\nrol $3,%rcx\nadd %rcx,%rdx\ncmp %rax,%rdi\njne 1b\nret";
    let flat: Vec<(usize, u64)> = (1..7).map(|i| (i, 20)).chain([(0, 5)]).collect();
    let Some((hot, _, p)) = hot(text, &flat) else { return };
    assert_eq!(hot, None);
    assert_eq!(
        hot_words(&p, "x86_64", F).as_deref(),
        Some(
            "96 % of f lies in a loop of 6 instructions from +0x2 to +0x13; no single instruction stands out"
        )
    );
}
