//! One running script: a program, its memory, and calls into it.

use std::fmt;
use std::sync::Arc;

use crate::decode::Program;
use crate::error::{Code, LoadError};
use crate::image::Image;
use crate::memory::Memory;
use crate::run::{self, Constants, Exit, MARGIN, Registers};

/// What a script calls: functions of the host, by the number that its table of natives gives them.
pub trait Natives {
    /// Calls the native with this index in [`Image::natives`].
    ///
    /// # Errors
    ///
    /// The run time error that ends the call of the script.
    fn call(
        &mut self,
        machine: &mut Machine,
        native: usize,
        arguments: Arguments,
    ) -> Result<i32, Code>;
}

/// Where the arguments of a native stand.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// Address of their number, in bytes; they follow.
    base: i32,
    /// How many there are.
    pub count: usize,
}

/// Where a call into a script starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `main`.
    Main,
    /// The public with this index in [`Image::publics`].
    Public(usize),
    /// Behind the `sleep` that suspended the script.
    Continue,
}

/// How a call into a script ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned this.
    Returned(i32),
    /// It sleeps, with this value; go on with [`Entry::Continue`].
    Sleeping(i32),
}

/// A call into a script that failed. The script can be called again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub code: Code,
    /// Where, if the script was compiled with debug information: file and line.
    pub place: Option<(String, u32)>,
    /// Address of the instruction in the code, in bytes.
    pub address: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        match &self.place {
            Some((file, line)) => write!(f, ", {file}:{line}"),
            None => write!(f, ", at {:#010x} (compile with -d3 for its line)", self.address),
        }
    }
}

impl std::error::Error for Fault {}

/// A script's machine. Everything that it does stays within its memory and its budget.
///
/// ```
/// # fn load() -> Option<mainspring_pawn::Image> { None }
/// use mainspring_pawn::{Arguments, Code, Entry, Machine, Natives};
///
/// struct Nothing;
/// impl Natives for Nothing {
///     fn call(&mut self, _: &mut Machine, _: usize, _: Arguments) -> Result<i32, Code> {
///         Err(Code::NotFound)
///     }
/// }
///
/// # let Some(image) = load() else { return Ok(()) };
/// let mut machine = Machine::new(image)?;
/// let outcome = machine.call(&mut Nothing, Entry::Main)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    image: Arc<Image>,
    program: Arc<Program>,
    memory: Memory,
    registers: Registers,
    /// Arguments pushed for the next call.
    pushed: i32,
    /// Jumps and calls allowed in each call from outside.
    budget: u64,
    /// How deep calls into the script are nested.
    depth: u32,
    asleep: Option<Asleep>,
}

/// What a sleeping script needs to go on.
#[derive(Clone, Copy, Debug)]
struct Asleep {
    registers: Registers,
    reset: (i32, i32),
}

/// A day's worth for any callback: about a second of nothing but jumps.
pub const BUDGET: u64 = 1_000_000_000;

/// Calls of publics from natives from publics and so on, at most.
const DEPTH: u32 = 64;

impl Machine {
    /// A machine for a script, its memory as the file says. O(its size).
    ///
    /// # Errors
    ///
    /// Why its code cannot be run.
    pub fn new(image: Image) -> Result<Self, LoadError> {
        let program = Program::decode(&image.code)?;
        let entry = |address: u32| program.at(address.cast_signed()).is_some();
        if let Some(public) = image.publics.iter().find(|public| !entry(public.address)) {
            let what = format!("no instruction starts where the public {} should", public.name);
            return Err(LoadError::format(what));
        }
        if image.main.is_some_and(|main| !entry(main)) {
            return Err(LoadError::format("no instruction starts where main should"));
        }
        let memory = Memory::new(&image.data, image.memory_bytes);
        let registers = Registers { hea: memory.hlw(), stk: memory.stp(), ..Registers::default() };
        Ok(Self {
            image: Arc::new(image),
            program: Arc::new(program),
            memory,
            registers,
            pushed: 0,
            budget: BUDGET,
            depth: 0,
            asleep: None,
        })
    }

    /// What the file said.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// How many jumps and calls each call from outside may take; [`BUDGET`] unless it is said.
    pub fn set_budget(&mut self, jumps: u64) {
        self.budget = jumps.max(1);
    }

    /// Whether the script sleeps.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// Calls into the script, with the arguments that were pushed.
    ///
    /// May be called from a native, 64 deep; the budget is then that of the outermost call.
    ///
    /// # Errors
    ///
    /// What went wrong. Heap and stack are as they were before the arguments were pushed.
    pub fn call(&mut self, natives: &mut impl Natives, entry: Entry) -> Result<Outcome, Fault> {
        let arguments = std::mem::take(&mut self.pushed);
        let before = self.registers;
        let reset = match (entry, self.asleep) {
            (Entry::Continue, Some(asleep)) => asleep.reset,
            _ => (before.hea, before.stk.wrapping_add(arguments)),
        };
        if self.depth == 0 {
            self.registers.budget = self.budget;
        }
        self.depth += 1;
        let result = match self.enter(entry, arguments) {
            Ok(()) => self.run(natives, reset),
            Err(code) => Err(Fault { code, place: None, address: 0 }),
        };
        self.depth -= 1;
        if !matches!(result, Ok(Outcome::Sleeping(_))) {
            // What a caller had in its registers is none of its callee's business; the budget is.
            let budget = self.registers.budget;
            self.registers = Registers { hea: reset.0, stk: reset.1, budget, ..before };
        }
        result
    }

    fn enter(&mut self, entry: Entry, arguments: i32) -> Result<(), Code> {
        if self.depth > DEPTH {
            return Err(Code::Stack);
        }
        let address = match entry {
            Entry::Continue => {
                let budget = self.registers.budget;
                let asleep = self.asleep.take().ok_or(Code::Index)?;
                self.registers = Registers { budget, ..asleep.registers };
                return Ok(());
            }
            Entry::Main => self.image.main,
            Entry::Public(index) => self.image.publics.get(index).map(|public| public.address),
        };
        let start = address.and_then(|address| self.program.at(address.cast_signed()));
        self.registers.pc = start.ok_or(Code::Index)? as usize;
        self.push_raw(arguments)?;
        // The address that the function returns to: there is a `halt 0`.
        self.push_raw(0)?;
        if self.registers.hea.wrapping_add(MARGIN) > self.registers.stk {
            return Err(Code::Stack);
        }
        Ok(())
    }

    fn run(&mut self, natives: &mut impl Natives, reset: (i32, i32)) -> Result<Outcome, Fault> {
        let program = Arc::clone(&self.program);
        let constants = Constants {
            cod: 0,
            dat: i32::try_from(self.image.code_bytes()).unwrap_or(i32::MAX),
            flags: self.image.flags.into(),
        };
        loop {
            match run::run(&program, &mut self.memory, &mut self.registers, constants) {
                Exit::Native { index, drop } => {
                    let base = self.registers.stk;
                    let result = self.call_native(natives, index, base);
                    match result {
                        Ok(value) => self.registers.pri = value,
                        Err(code) => return Err(self.fault(code, self.registers.pc - 1)),
                    }
                    self.registers.stk = self.registers.stk.wrapping_add(drop);
                }
                Exit::Halt(0) => return Ok(Outcome::Returned(self.registers.pri)),
                // One may sleep at a time, and not within a native.
                Exit::Halt(SLEEP) if self.asleep.is_none() && self.depth == 1 => {
                    self.asleep = Some(Asleep { registers: self.registers, reset });
                    return Ok(Outcome::Sleeping(self.registers.pri));
                }
                Exit::Halt(number) => {
                    let code = Code::from_number(number).unwrap_or(Code::General);
                    return Err(self.fault(code, self.registers.pc - 1));
                }
                Exit::Fault(code) => return Err(self.fault(code, self.registers.pc)),
            }
        }
    }

    fn call_native(
        &mut self,
        natives: &mut impl Natives,
        index: i32,
        base: i32,
    ) -> Result<i32, Code> {
        // Natives are not counted by what they do, but they are dearer than a jump.
        let budget = self.registers.budget.checked_sub(JUMPS_FOR_A_NATIVE);
        self.registers.budget = budget.ok_or(Code::Budget)?;
        let native = usize::try_from(index).map_err(|_| Code::NotFound)?;
        if native >= self.image.natives.len() {
            return Err(Code::NotFound);
        }
        let bytes = self.memory.load(base)?;
        let count = usize::try_from(bytes / 4).map_err(|_| Code::Parameters)?;
        let hea = self.registers.hea;
        let result = natives.call(self, native, Arguments { base, count });
        // Nothing that a native has allotted or pushed outlives it.
        self.registers.hea = hea;
        self.forget_arguments();
        result
    }

    #[cold]
    fn fault(&self, code: Code, at: usize) -> Fault {
        let address = self.program.address(at);
        let debug = self.image.debug.as_ref();
        let place = debug.and_then(|debug| debug.place(address));
        let place = place.map(|(file, line)| (file.to_owned(), line));
        Fault { code, place, address }
    }

    fn push_raw(&mut self, value: i32) -> Result<(), Code> {
        let stk = self.registers.stk.wrapping_sub(4);
        self.memory.store(stk, value)?;
        self.registers.stk = stk;
        Ok(())
    }

    /// Forgets a sleep that nobody will end, and gives its stack back.
    pub fn abandon_sleep(&mut self) {
        if let Some(asleep) = self.asleep.take() {
            (self.registers.hea, self.registers.stk) = asleep.reset;
        }
    }

    /// Pushes an argument for the next call; the last one first.
    ///
    /// # Errors
    ///
    /// [`Code::Stack`] if there is no room.
    pub fn push(&mut self, value: i32) -> Result<(), Code> {
        if self.registers.hea.wrapping_add(MARGIN) > self.registers.stk {
            return Err(Code::Stack);
        }
        self.push_raw(value)?;
        self.pushed += 4;
        Ok(())
    }

    /// Takes back what was pushed for a call that is not made after all.
    pub fn forget_arguments(&mut self) {
        self.registers.stk = self.registers.stk.wrapping_add(std::mem::take(&mut self.pushed));
    }

    /// Room for cells on the heap; its address. [`release`](Self::release) gives it back.
    ///
    /// # Errors
    ///
    /// [`Code::Memory`] if there is none.
    pub fn allot(&mut self, cells: usize) -> Result<i32, Code> {
        let address = self.registers.hea;
        let bytes = i32::try_from(cells).ok().and_then(|cells| cells.checked_mul(4));
        let bytes = bytes.ok_or(Code::Memory)?;
        let free = i64::from(self.registers.stk) - i64::from(address) - i64::from(bytes);
        if free < i64::from(MARGIN) {
            return Err(Code::Memory);
        }
        self.registers.hea += bytes;
        Ok(address)
    }

    /// Gives back what was allotted from this address on.
    pub fn release(&mut self, address: i32) {
        if (self.memory.hlw()..self.registers.hea).contains(&address) {
            self.registers.hea = address;
        }
    }

    /// The end of the heap: what [`release`](Self::release) is given to give back all that is allotted from now on.
    #[must_use]
    pub fn heap_end(&self) -> i32 {
        self.registers.hea
    }

    /// Bytes between heap and stack.
    #[must_use]
    pub fn heap_space(&self) -> i32 {
        self.registers.stk.wrapping_sub(self.registers.hea)
    }

    /// A cell of the script's memory.
    ///
    /// # Errors
    ///
    /// [`Code::MemoryAccess`] where the script itself may not look.
    pub fn cell(&self, address: i32) -> Result<i32, Code> {
        self.check(address)?;
        self.memory.load(address)
    }

    /// Sets a cell.
    ///
    /// # Errors
    ///
    /// As [`cell`](Self::cell).
    pub fn set_cell(&mut self, address: i32, value: i32) -> Result<(), Code> {
        self.check(address)?;
        self.memory.store(address, value)
    }

    fn check(&self, address: i32) -> Result<(), Code> {
        let is_valid = self.memory.is_valid(address, self.registers.hea, self.registers.stk);
        if is_valid { Ok(()) } else { Err(Code::MemoryAccess) }
    }

    /// The native's argument with this number, counted from 0.
    ///
    /// # Errors
    ///
    /// [`Code::Parameters`] if it was not passed.
    #[inline]
    pub fn argument(&self, arguments: Arguments, nth: usize) -> Result<i32, Code> {
        if nth >= arguments.count {
            return Err(Code::Parameters);
        }
        let ahead = i32::try_from(nth * 4 + 4).map_err(|_| Code::Parameters)?;
        self.memory.load(arguments.base.wrapping_add(ahead))
    }

    /// The frame of the function that called the native.
    #[must_use]
    pub fn frame(&self) -> i32 {
        self.registers.frm
    }

    /// A string, packed or not, byte by byte, at most `most` of them. O(length).
    ///
    /// # Errors
    ///
    /// [`Code::MemoryAccess`] if it does not lie within memory.
    pub fn string(&self, address: i32, most: usize) -> Result<Vec<u8>, Code> {
        let first = self.cell(address)?;
        let mut text = Vec::new();
        let is_packed = first.cast_unsigned() > 0x00ff_ffff;
        let mut place = address;
        'cells: loop {
            let cell = self.cell(place)?;
            let bytes = cell.to_be_bytes();
            let characters = if is_packed { &bytes[..] } else { &bytes[3..] };
            if !is_packed && cell == 0 {
                break;
            }
            for &character in characters {
                if is_packed && character == 0 || text.len() == most {
                    break 'cells;
                }
                text.push(character);
            }
            place = place.checked_add(4).ok_or(Code::MemoryAccess)?;
        }
        Ok(text)
    }

    /// Writes a string unpacked, and its end, into `cells` cells at most. O(length).
    ///
    /// # Errors
    ///
    /// [`Code::MemoryAccess`] if it does not fit into memory.
    pub fn set_string(&mut self, address: i32, text: &[u8], cells: usize) -> Result<(), Code> {
        let Some(most) = cells.checked_sub(1) else { return Ok(()) };
        self.check(address)?;
        let characters = text.iter().take(most).map(|&byte| i32::from(byte)).chain([0]);
        for (character, place) in characters.zip((address..).step_by(4)) {
            self.set_cell(place, character)?;
        }
        Ok(())
    }

    /// Memory kept for it, in bytes, the program included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes_held() + self.program.bytes_held()
    }
}

const SLEEP: i32 = 12;

/// What a call of a native takes of the budget.
const JUMPS_FOR_A_NATIVE: u64 = 16;
