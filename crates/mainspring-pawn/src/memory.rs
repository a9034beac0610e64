//! A script's memory: data, heap and stack in one block of cells, addressed in bytes.
//!
//! ```text
//! 0        hlw        hea              stk         stp
//! | data   | heap --> | no man's land  | <-- stack |0|
//! ```

use crate::error::Code;

/// The block. Every access is checked against it, whoever makes it.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    cells: Vec<i32>,
    hlw: i32,
    stp: i32,
}

impl Memory {
    /// Data, then nothing up to `bytes`, which are a whole number of cells and more than the data.
    pub(crate) fn new(data: &[i32], bytes: u32) -> Self {
        let mut cells = data.to_vec();
        cells.resize(bytes as usize / 4, 0);
        let stp = i32::try_from(bytes - 4).expect("memory is bounded");
        Self { cells, hlw: i32::try_from(data.len() * 4).expect("memory is bounded"), stp }
    }

    /// Where the heap starts.
    pub(crate) fn hlw(&self) -> i32 {
        self.hlw
    }

    /// Where the stack starts.
    pub(crate) fn stp(&self) -> i32 {
        self.stp
    }

    /// Whether a computed address may be followed: not between heap and stack, not outside.
    #[inline(always)]
    pub(crate) fn is_valid(&self, address: i32, hea: i32, stk: i32) -> bool {
        !(hea <= address && address < stk) && address.cast_unsigned() < self.stp.cast_unsigned()
    }

    #[inline(always)]
    pub(crate) fn load(&self, address: i32) -> Result<i32, Code> {
        let address = address.cast_unsigned();
        if address.is_multiple_of(4) {
            self.cells.get(address as usize / 4).copied().ok_or(Code::MemoryAccess)
        } else {
            self.load_ragged(address)
        }
    }

    #[inline(always)]
    pub(crate) fn store(&mut self, address: i32, value: i32) -> Result<(), Code> {
        let address = address.cast_unsigned();
        if address.is_multiple_of(4) {
            let cell = self.cells.get_mut(address as usize / 4).ok_or(Code::MemoryAccess)?;
            *cell = value;
            Ok(())
        } else {
            self.store_ragged(address, value)
        }
    }

    #[cold]
    #[inline(never)]
    fn load_ragged(&self, address: u32) -> Result<i32, Code> {
        let mut bytes = [0; 4];
        for (byte, ahead) in bytes.iter_mut().zip(0..) {
            *byte = self.byte(address.wrapping_add(ahead))?;
        }
        Ok(i32::from_le_bytes(bytes))
    }

    #[cold]
    #[inline(never)]
    fn store_ragged(&mut self, address: u32, value: i32) -> Result<(), Code> {
        // All or nothing.
        self.byte(address.checked_add(3).ok_or(Code::MemoryAccess)?)?;
        for (byte, ahead) in value.to_le_bytes().into_iter().zip(0..) {
            self.set_byte(address.wrapping_add(ahead), byte)?;
        }
        Ok(())
    }

    fn byte(&self, address: u32) -> Result<u8, Code> {
        let cell = self.cells.get(address as usize / 4).ok_or(Code::MemoryAccess)?;
        Ok(cell.to_le_bytes()[address as usize % 4])
    }

    fn set_byte(&mut self, address: u32, byte: u8) -> Result<(), Code> {
        let cell = self.cells.get_mut(address as usize / 4).ok_or(Code::MemoryAccess)?;
        let mut bytes = cell.to_le_bytes();
        bytes[address as usize % 4] = byte;
        *cell = i32::from_le_bytes(bytes);
        Ok(())
    }

    /// One, two or four bytes, the rest zero.
    pub(crate) fn load_bytes(&self, address: i32, size: i32) -> Result<i32, Code> {
        let address = address.cast_unsigned();
        match size {
            1 => Ok(self.byte(address)?.into()),
            2 => Ok(i32::from(u16::from_le_bytes([
                self.byte(address)?,
                self.byte(address.wrapping_add(1))?,
            ]))),
            4 => self.load(address.cast_signed()),
            _ => Err(Code::Instruction),
        }
    }

    /// The lowest one, two or four bytes.
    pub(crate) fn store_bytes(&mut self, address: i32, size: i32, value: i32) -> Result<(), Code> {
        let address = address.cast_unsigned();
        let bytes = value.to_le_bytes();
        match size {
            1 => self.set_byte(address, bytes[0]),
            2 => {
                self.byte(address.checked_add(1).ok_or(Code::MemoryAccess)?)?;
                self.set_byte(address, bytes[0])?;
                self.set_byte(address + 1, bytes[1])
            }
            4 => self.store(address.cast_signed(), value),
            _ => Err(Code::Instruction),
        }
    }

    /// Whether `bytes` from a valid address on end within the block and not between heap and stack.
    pub(crate) fn check_range(
        &self,
        address: i32,
        bytes: i32,
        hea: i32,
        stk: i32,
    ) -> Result<(), Code> {
        let end = address.checked_add(bytes).filter(|_| bytes >= 0);
        let end = end.ok_or(Code::MemoryAccess)?;
        let is_between = hea < end && end < stk;
        if is_between || end > self.stp { Err(Code::MemoryAccess) } else { Ok(()) }
    }

    /// Copies bytes as if through a buffer. The ranges are checked.
    pub(crate) fn copy(&mut self, from: i32, to: i32, bytes: i32) -> Result<(), Code> {
        let (from, to) = (from.cast_unsigned() as usize, to.cast_unsigned() as usize);
        let bytes = bytes.cast_unsigned() as usize;
        if (from | to | bytes).is_multiple_of(4) {
            let (first, last) = (from / 4, (from + bytes) / 4);
            let is_inside = last <= self.cells.len() && (to + bytes) / 4 <= self.cells.len();
            if !is_inside {
                return Err(Code::MemoryAccess);
            }
            self.cells.copy_within(first..last, to / 4);
            return Ok(());
        }
        let copied = self.bytes(from, bytes)?;
        self.write_bytes(to, &copied)
    }

    /// The sign of the first difference between two ranges of bytes.
    pub(crate) fn compare(&self, left: i32, right: i32, bytes: i32) -> Result<i32, Code> {
        let bytes = bytes.cast_unsigned() as usize;
        let left = self.bytes(left.cast_unsigned() as usize, bytes)?;
        let right = self.bytes(right.cast_unsigned() as usize, bytes)?;
        Ok(left.cmp(&right) as i32)
    }

    /// Fills whole cells.
    pub(crate) fn fill(&mut self, to: i32, bytes: i32, value: i32) -> Result<(), Code> {
        for ahead in (0..bytes).step_by(4) {
            self.store(to + ahead, value)?;
        }
        Ok(())
    }

    fn bytes(&self, start: usize, length: usize) -> Result<Vec<u8>, Code> {
        if start + length > self.cells.len() * 4 {
            return Err(Code::MemoryAccess);
        }
        let address = |at: usize| u32::try_from(at).map_err(|_| Code::MemoryAccess);
        (start..start + length).map(|at| self.byte(address(at)?)).collect()
    }

    fn write_bytes(&mut self, start: usize, bytes: &[u8]) -> Result<(), Code> {
        for (at, byte) in (start..).zip(bytes) {
            self.set_byte(u32::try_from(at).map_err(|_| Code::MemoryAccess)?, *byte)?;
        }
        Ok(())
    }

    pub(crate) fn bytes_held(&self) -> usize {
        self.cells.capacity() * 4
    }
}
