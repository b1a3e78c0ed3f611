// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the kernel's code as it runs, by a BPF program (bpf/peek.bpf.c).

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{PrintLevel, ProgramInput};
use std::mem::MaybeUninit;

#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/peek.skel.rs"));
}

/// Bytes at an address of the kernel.
///
/// # Errors
/// The kernel refuses the program (5.14 is the first that has its kind; CAP_BPF and
/// CAP_PERFMON, lockdown below confidentiality), or nothing is there.
pub(super) fn read(address: u64, bytes: usize) -> Result<Vec<u8>, String> {
    if std::env::var_os("PLUMB_LIBBPF_LOG").is_none() {
        libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
    }
    let refused = |e: libbpf_rs::Error| format!("the kernel rejected the BPF program that reads it ({e})");
    let mut object = MaybeUninit::uninit();
    let open = skel::PeekSkelBuilder::default().open(&mut object).map_err(refused)?;
    let mut skel = open.load().map_err(refused)?;
    let mut out = Vec::with_capacity(bytes);
    while out.len() < bytes {
        let at = address.wrapping_add(out.len() as u64);
        let shared = &mut skel.maps.bss_data.as_deref_mut().ok_or("BPF object without .bss")?.peek;
        let chunk = (bytes - out.len()).min(shared.data.len());
        shared.address = at;
        shared.bytes = chunk as u32;
        skel.progs.read_kernel.test_run(ProgramInput::default()).map_err(refused)?;
        let shared = &skel.maps.bss_data.as_deref().ok_or("BPF object without .bss")?.peek;
        if shared.result != 0 {
            return Err(format!("{at:#x}: {}", std::io::Error::from_raw_os_error(-shared.result)));
        }
        out.extend_from_slice(&shared.data[..chunk]);
    }
    Ok(out)
}
