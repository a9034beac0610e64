//! The processor's time-stamp counter. Where there is none it reads zero, and says that it is not invariant.

/// The counter of the core this thread happens to run on. Not ordered with the instructions around it: it may be read a
/// few nanoseconds early or late.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: RDTSC reads a register. Every x86-64 processor has it; a system that forbids it to programs stops them
        // when they use it, and none that we know does.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

/// Whether the processor promises that its counter runs at one rate in every power state: CPUID leaf 0x8000_0007, EDX
/// bit 8. False where nobody can say.
pub(crate) fn counter_is_invariant() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        const POWER_LEAF: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
        highest >= POWER_LEAF && core::arch::x86_64::__cpuid(POWER_LEAF).edx & INVARIANT != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}
