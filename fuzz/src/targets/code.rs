// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks of other processes and the files that their code comes from.

use plumb_probe::parsers;

/// The image of this process's vdso: a small ELF file with unwind tables, symbols and a build id, which every
/// kernel maps.
fn vdso() -> Vec<u8> {
    parsers::vdso().expect("every kernel maps a vdso, but with vdso=0")
}

/// Registers, the length of the stack's copy, the copy, an ELF file.
pub fn stacks() -> Vec<Vec<u8>> {
    let elf = vdso();
    [0x500_u64, 0x900, 0xb00, 0xe00]
        .iter()
        .map(|ip| {
            let stack: Vec<u8> =
                (0..64_u64).flat_map(|i| (0x7ff0_0000 + 8 * (i + 2)).to_le_bytes()).collect();
            let registers = [*ip, 0x7ff0_0000, 0x7ff0_0010, 0];
            let mut out: Vec<u8> = registers.iter().flat_map(|r| r.to_le_bytes()).collect();
            out.extend((stack.len() as u16).to_le_bytes());
            out.extend(stack);
            out.extend(&elf);
            out
        })
        .collect()
}

pub fn stack(input: &[u8]) -> u64 {
    let Some((registers, rest)) = input.split_first_chunk::<32>() else { return 0 };
    let Some((length, rest)) = rest.split_first_chunk::<2>() else { return 0 };
    let (copy, elf) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|b| registers[8 * i + b]));
    parsers::walk([word(0), word(1), word(2), word(3)], copy, elf)
}

/// The first byte says which reader.
pub fn names() -> Vec<Vec<u8>> {
    let mut go = vec![1, 0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    for word in [1_u64, 0, 0x4000, 72, 0, 0, 0, 100] {
        go.extend(word.to_le_bytes());
    }
    go.extend(b"main.f\0");
    go.resize(101, 0);
    for word in [0_u32, 12, 16, 0, 0] {
        go.extend(word.to_le_bytes());
    }
    let mut notes = vec![4];
    for word in [4_u32, 20, 3] {
        notes.extend(word.to_ne_bytes());
    }
    notes.extend(b"GNU\0");
    notes.extend([7; 20]);
    let mut map = vec![3];
    map.extend(10_u32.to_ne_bytes());
    map.extend([0; 68]);
    map.extend(b"/usr/lib/libc.so\0\0\0\0\0\0\0\0");
    map.extend([0; 24]);
    let first = |n: u8, text: &str| [&[n], text.as_bytes()].concat();
    vec![
        [&[0], &vdso()[..]].concat(),
        go,
        first(2, "7f0010 20 f\n0x7f0040 10 Lpkg/Class;::method(I)V\nffffffffffffff00 ff last\n"),
        map,
        notes,
        first(5, "_ZN4core3ptr13drop_in_place17h0123456789abcdefE"),
        first(5, "_RNvCs1234_7mycrate3foo"),
        first(5, "_ZNSt6vectorIiSaIiEE9push_backERKi"),
        first(6, "7f00-7f10 r-xp 00001000 fe:01 123                        /a b (deleted)\n"),
    ]
}

pub fn name(input: &[u8]) -> u64 {
    let Some((which, rest)) = input.split_first() else { return 0 };
    u64::from(*which) << 32 | parsers::read(*which, rest)
}
