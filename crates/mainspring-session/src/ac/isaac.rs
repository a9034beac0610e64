//! ISAAC, Robert Jenkins' generator of 1996, seeded as the format does: the stream of keys of one direction.
//!
//! Both seeds cross the network in clear. The keys tell packets of this session from others' and from damage; they keep
//! no secret and stop nobody who listens.

/// A stream of 32-bit keys; 2 KiB.
///
/// ```
/// let mut keys = mainspring_session::ac::Isaac::new(0x1234_5678);
/// assert_eq!(keys.draw(), 0xfdd4_afeb);
/// assert_eq!(keys.draw(), 0x3983_11d2);
/// ```
#[derive(Clone)]
pub struct Isaac {
    memory: [u32; 256],
    results: [u32; 256],
    /// Results not drawn yet; they are drawn from the last to the first.
    left: usize,
    a: u32,
    b: u32,
    c: u32,
}

impl Isaac {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut words = [0x9e37_79b9; 8];
        for _ in 0..4 {
            mix(&mut words);
        }
        // Twice over the memory: first with the results, which are all zero, then with the memory itself.
        let mut memory = [0_u32; 256];
        for _ in 0..2 {
            for block in memory.as_chunks_mut::<8>().0 {
                for (word, more) in words.iter_mut().zip(&*block) {
                    *word = word.wrapping_add(*more);
                }
                mix(&mut words);
                *block = words;
            }
        }
        let mut keys = Self { memory, results: [0; 256], left: 256, a: seed, b: seed, c: seed };
        keys.round();
        keys
    }

    /// The next key. A round of 256 is made at a time: a few nanoseconds each.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        if self.left == 0 {
            self.round();
            self.left = 256;
        }
        self.left -= 1;
        self.results[self.left & 255]
    }

    #[inline(never)]
    fn round(&mut self) {
        self.c = self.c.wrapping_add(1);
        self.b = self.b.wrapping_add(self.c);
        for group in 0..64 {
            let at = group * 4;
            self.step(at, self.a << 13);
            self.step(at + 1, self.a >> 6);
            self.step(at + 2, self.a << 2);
            self.step(at + 3, self.a >> 16);
        }
    }

    #[inline(always)]
    fn step(&mut self, at: usize, shifted: u32) {
        let x = self.memory[at & 255];
        self.a = (self.a ^ shifted).wrapping_add(self.memory[(at + 128) & 255]);
        let y = self.memory[(x >> 2) as usize & 255].wrapping_add(self.a).wrapping_add(self.b);
        self.memory[at & 255] = y;
        self.b = self.memory[(y >> 10) as usize & 255].wrapping_add(x);
        self.results[at & 255] = self.b;
    }
}

/// The keys to come are nobody's business in a log.
impl std::fmt::Debug for Isaac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Isaac").finish_non_exhaustive()
    }
}

fn mix(words: &mut [u32; 8]) {
    const LEFT: [u32; 8] = [11, 0, 8, 0, 10, 0, 8, 0];
    const RIGHT: [u32; 8] = [0, 2, 0, 16, 0, 4, 0, 9];
    for i in 0..8 {
        let next = words[(i + 1) & 7];
        words[i] ^= if i % 2 == 0 { next << LEFT[i] } else { next >> RIGHT[i] };
        words[(i + 3) & 7] = words[(i + 3) & 7].wrapping_add(words[i]);
        words[(i + 1) & 7] = next.wrapping_add(words[(i + 2) & 7]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First draws, the 256th, 257th and 1000th of five seeds; independent implementations publish the same.
    #[test]
    fn published_streams() {
        let cases: [(u32, [u32; 6], u32, u32, u32); 5] = [
            (
                0,
                [0x1826_00f3, 0x300b_4a8d, 0x301b_6622, 0xb08a_cd21, 0x296f_d679, 0x9952_06e9],
                0xe76d_d339,
                0x7a68_710f,
                0xa4c5_e05f,
            ),
            (
                1,
                [0x3816_8fdd, 0x173f_f3d7, 0x832d_dc13, 0xc429_1d70, 0x56ea_8d9b, 0xc41d_285c],
                0xfe83_b016,
                0x1ba8_a003,
                0xf6fd_aaf2,
            ),
            (
                0x1234_5678,
                [0xfdd4_afeb, 0x3983_11d2, 0xc718_29a4, 0xb19d_f96a, 0x7ed4_a1e7, 0xb718_a446],
                0xdf7c_a7e9,
                0xa608_787a,
                0x48a2_edc5,
            ),
            (
                0xdead_beef,
                [0x5da2_2d96, 0xdb3b_a3b6, 0x9fd9_67f9, 0x0748_7047, 0x0a8e_4664, 0x7480_3c1f],
                0x3643_ea82,
                0x4d3c_fb7b,
                0x4048_d3dc,
            ),
            (
                0xffff_ffff,
                [0x4317_c641, 0x1d12_4727, 0xe877_449d, 0x5c32_6457, 0x3852_3b75, 0x7172_f54c],
                0xfe83_b016,
                0xe28d_c1f7,
                0x53c3_d78b,
            ),
        ];
        for (seed, first, nth_256, nth_257, nth_1000) in cases {
            let mut keys = Isaac::new(seed);
            let draws: Vec<u32> = (0..1000).map(|_| keys.draw()).collect();
            assert_eq!(draws[..6], first, "{seed:08x}");
            assert_eq!((draws[255], draws[256], draws[999]), (nth_256, nth_257, nth_1000));
        }
    }

    #[test]
    fn more_published_first_draws() {
        assert_eq!(Isaac::new(0x99e7_7855).draw(), 0xad49_7df3);
        assert_eq!(Isaac::new(0xc838_24ab).draw(), 0x1518_cf56);
        assert_eq!(Isaac::new(0xfbd5_2c87).draw(), 0x9ff3_700a);
    }
}
