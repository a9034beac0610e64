//! What can go wrong with a script: the numbers of the abstract machine, and their words.

use std::fmt;

/// A run time error, by the number that script authors know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each has its words in `text`")]
pub enum Code {
    Exit = 1,
    Assert = 2,
    Stack = 3,
    Bounds = 4,
    MemoryAccess = 5,
    Instruction = 6,
    StackLow = 7,
    HeapLow = 8,
    Callback = 9,
    Native = 10,
    Divide = 11,
    Sleep = 12,
    State = 13,
    Memory = 16,
    Format = 17,
    Version = 18,
    NotFound = 19,
    Index = 20,
    Debug = 21,
    Init = 22,
    UserData = 23,
    InitJit = 24,
    Parameters = 25,
    Domain = 26,
    General = 27,
    /// Ours: the call took more jumps than it was allowed.
    Budget = 30,
}

impl Code {
    /// Every one.
    pub const ALL: [Self; 26] = [
        Self::Exit,
        Self::Assert,
        Self::Stack,
        Self::Bounds,
        Self::MemoryAccess,
        Self::Instruction,
        Self::StackLow,
        Self::HeapLow,
        Self::Callback,
        Self::Native,
        Self::Divide,
        Self::Sleep,
        Self::State,
        Self::Memory,
        Self::Format,
        Self::Version,
        Self::NotFound,
        Self::Index,
        Self::Debug,
        Self::Init,
        Self::UserData,
        Self::InitJit,
        Self::Parameters,
        Self::Domain,
        Self::General,
        Self::Budget,
    ];

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        i32::from(self as u8)
    }

    /// The code with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// Its words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Exit => "Forced exit",
            Self::Assert => "Assertion failed",
            Self::Stack => "Stack/heap collision (insufficient stack size)",
            Self::Bounds => "Array index out of bounds",
            Self::MemoryAccess => "Invalid memory access",
            Self::Instruction => "Invalid instruction",
            Self::StackLow => "Stack underflow",
            Self::HeapLow => "Heap underflow",
            Self::Callback => "No (valid) native function callback",
            Self::Native => "Native function failed",
            Self::Divide => "Divide by zero",
            Self::Sleep => "(sleep mode)",
            Self::State => "Invalid state",
            Self::Memory => "Out of memory",
            Self::Format => "Invalid/unsupported P-code file format",
            Self::Version => "File is for a newer version of the AMX",
            Self::NotFound => "File or function is not found",
            Self::Index => "Invalid index parameter (bad entry point)",
            Self::Debug => "Debugger cannot run",
            Self::Init => "AMX not initialized (or doubly initialized)",
            Self::UserData => "Unable to set user data field (table full)",
            Self::InitJit => "Cannot initialize the JIT",
            Self::Parameters => "Parameter error",
            Self::Domain => "Domain error, expression result does not fit in range",
            Self::General => "General error",
            Self::Budget => "Too many jumps in one call (endless loop?)",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run time error {}: \"{}\"", self.number(), self.text())
    }
}

impl std::error::Error for Code {}

/// Why a file is no script that can be run. Nothing of it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The machine's number for it.
    pub code: Code,
    /// What is wrong, and what to do about it where something can be done.
    pub what: String,
}

impl LoadError {
    pub(crate) fn format(what: impl Into<String>) -> Self {
        Self { code: Code::Format, what: what.into() }
    }

    pub(crate) fn version(what: impl Into<String>) -> Self {
        Self { code: Code::Version, what: what.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code.number(), self.what)
    }
}

impl std::error::Error for LoadError {}
