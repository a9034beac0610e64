//! From cells of code to instructions that run fast: operands inside, jumps by index, nothing left to check.
//!
//! Debug hooks and no-ops vanish, instructions that only abbreviate others are written out, and pairs that compilers emit all
//! the time become one. Every address at which a script can arrive keeps its place in a map: returns and computed jumps
//! look there.

mod opcodes;

use std::collections::HashMap;

use self::opcodes::{jump, plain, with_one};
use crate::error::{Code, LoadError};

/// One instruction. Addresses of data are bytes, targets are indices of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    LoadPri(i32),
    LoadAlt(i32),
    LoadSPri(i32),
    LoadSAlt(i32),
    LrefPri(i32),
    LrefAlt(i32),
    LrefSPri(i32),
    LrefSAlt(i32),
    LoadI,
    LodbI(i32),
    ConstPri(i32),
    ConstAlt(i32),
    AddrPri(i32),
    AddrAlt(i32),
    StorPri(i32),
    StorAlt(i32),
    StorSPri(i32),
    StorSAlt(i32),
    SrefPri(i32),
    SrefAlt(i32),
    SrefSPri(i32),
    SrefSAlt(i32),
    StorI,
    StrbI(i32),
    /// `PRI = M[ALT + (PRI << n)]`
    LidxB(i32),
    IdxaddrB(i32),
    AlignPri(i32),
    AlignAlt(i32),
    Lctrl(i32),
    /// Of register 6: the address after the instruction.
    LctrlCip(i32),
    Sctrl(i32),
    MovePri,
    MoveAlt,
    Xchg,
    PushPri,
    PushAlt,
    PushR(i32),
    PushC(i32),
    Push(i32),
    PushS(i32),
    PushAdr(i32),
    PopPri,
    PopAlt,
    SwapPri,
    SwapAlt,
    Stack(i32),
    Heap(i32),
    Proc,
    Ret,
    Retn,
    /// Target, and the address to return to.
    Call(u32, i32),
    CallPri(i32),
    Jump(u32),
    JumpPri,
    Jzer(u32),
    Jnz(u32),
    Jeq(u32),
    Jneq(u32),
    Jless(u32),
    Jleq(u32),
    Jgrtr(u32),
    Jgeq(u32),
    Jsless(u32),
    Jsleq(u32),
    Jsgrtr(u32),
    Jsgeq(u32),
    Shl,
    Shr,
    Sshr,
    ShlCPri(i32),
    ShlCAlt(i32),
    ShrCPri(i32),
    ShrCAlt(i32),
    Mul,
    Sdiv,
    SdivAlt,
    Udiv,
    UdivAlt,
    Add,
    Sub,
    SubAlt,
    And,
    Or,
    Xor,
    Not,
    Neg,
    Invert,
    AddC(i32),
    SmulC(i32),
    Zero(i32),
    ZeroS(i32),
    SignPri,
    SignAlt,
    Eq,
    Neq,
    Less,
    Leq,
    Grtr,
    Geq,
    Sless,
    Sleq,
    Sgrtr,
    Sgeq,
    EqCPri(i32),
    EqCAlt(i32),
    IncAlt,
    Inc(i32),
    IncS(i32),
    IncI,
    DecAlt,
    Dec(i32),
    DecS(i32),
    DecI,
    Movs(i32),
    Cmps(i32),
    Fill(i32),
    Halt(i32),
    Bounds(i32),
    SysreqPri,
    SysreqC(i32),
    /// Native, and bytes of arguments that are already pushed; they are dropped afterwards.
    SysreqDrop(i32, i32),
    /// `M[a] = b`
    Const(i32, i32),
    ConstS(i32, i32),
    /// Which of the tables.
    Switch(u32),
    /// Data among the code, or its end.
    Bad,
    // What compilers emit one behind the other:
    /// `load.s.pri a; push.pri`
    LoadSPush(i32),
    /// `push.s a; push.c b`
    PushSC(i32, i32),
    /// `load.s.pri a; load.s.alt b`
    LoadSBoth(i32, i32),
    /// `load.s.alt a; add`
    AddS(i32),
    /// `load.s.pri a; add.c b`
    LoadSAddC(i32, i32),
    /// `const.alt a` and a comparison jump of PRI with it
    JsgeqC(i32, u32),
    JslessC(i32, u32),
    JneqC(i32, u32),
    /// `load.s.alt a` and `jsgeq` with it
    JsgeqS(i32, u32),
    /// `load.s.pri a; load.s.alt b; jsgeq t`
    JsgeqSS(i16, i16, u32),
    /// `const.alt a; sshr`
    SshrC(i32),
    /// `stor.s.pri a; jump t`
    StorSJump(i32, u32),
    /// `pop.alt; add`
    PopAdd,
    /// `inc.s a; jump t`
    IncSJump(i32, u32),
    /// `push.c 4 * n; sysreq.c n; stack`: arguments counted and dropped
    SysreqArgs(i32, i32),
}

/// A `switch`.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) default: u32,
    /// Ascending by value.
    pub(crate) cases: Vec<(i32, u32)>,
}

/// Decoded code.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The last is always [`Op::Bad`].
    pub(crate) ops: Vec<Op>,
    pub(crate) tables: Vec<Table>,
    /// By cell of code: the instruction that begins there, or [`NOWHERE`].
    index: Vec<u32>,
    /// Where each instruction stood, in bytes.
    address: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Program {
    /// The instruction at an address. O(1).
    #[inline]
    pub(crate) fn at(&self, address: i32) -> Option<u32> {
        let cell = u32::try_from(address).ok().filter(|address| address % 4 == 0)? / 4;
        self.index.get(cell as usize).copied().filter(|&index| index != NOWHERE)
    }

    /// The address of an instruction.
    pub(crate) fn address(&self, index: usize) -> u32 {
        self.address.get(index).copied().unwrap_or(0)
    }

    /// Memory kept.
    pub(crate) fn bytes_held(&self) -> usize {
        let cases: usize = self.tables.iter().map(|table| table.cases.capacity()).sum();
        self.ops.capacity() * size_of::<Op>()
            + (self.index.capacity() + self.address.capacity()) * 4
            + cases * 8
    }

    /// Decodes the code of a script. O(its length).
    pub(crate) fn decode(code: &[i32]) -> Result<Self, LoadError> {
        Decoder::new(code).run()
    }
}

/// An instruction whose target is still an address.
#[derive(Clone, Copy)]
enum Raw {
    Op(Op),
    To(fn(u32) -> Op, i32),
    Call(i32, i32),
    Switch(i32),
}

struct Decoder<'c> {
    code: &'c [i32],
    at: usize,
    raw: Vec<Raw>,
    address: Vec<u32>,
    index: Vec<u32>,
}

impl<'c> Decoder<'c> {
    fn new(code: &'c [i32]) -> Self {
        Self {
            code,
            at: 0,
            raw: Vec::with_capacity(code.len() / 2),
            address: Vec::new(),
            index: vec![NOWHERE; code.len() + 1],
        }
    }

    fn run(mut self) -> Result<Program, LoadError> {
        while self.at < self.code.len() {
            let start = self.at;
            self.index[start] = u32::try_from(self.raw.len()).expect("code is bounded");
            let opcode = self.operand()?;
            self.instruction(opcode, start)?;
            let address = u32::try_from(start * 4).expect("code is bounded");
            self.address.resize(self.raw.len(), address);
        }
        // Whatever runs past the end arrives here.
        let end = u32::try_from(self.raw.len()).expect("code is bounded");
        self.index[self.code.len()] = end;
        self.raw.push(Raw::Op(Op::Bad));
        self.address.push(u32::try_from(self.code.len() * 4).expect("code is bounded"));
        let mut tables: Vec<Table> = Vec::new();
        let mut known = HashMap::new();
        let mut cases = 0;
        let mut ops = Vec::with_capacity(self.raw.len());
        for raw in &self.raw {
            ops.push(match *raw {
                Raw::Op(op) => op,
                Raw::To(op, address) => op(self.target(address)?),
                Raw::Call(address, back) => Op::Call(self.target(address)?, back),
                Raw::Switch(address) => {
                    // Many may share one, but all together are no longer than the code.
                    if let Some(&index) = known.get(&address) {
                        Op::Switch(index)
                    } else {
                        let table = self.table(address)?;
                        cases += table.cases.len() + 1;
                        if cases > self.code.len() {
                            return Err(LoadError::format("its tables of cases overlap"));
                        }
                        tables.push(table);
                        let index = u32::try_from(tables.len() - 1).expect("code is bounded");
                        known.insert(address, index);
                        Op::Switch(index)
                    }
                }
            });
        }
        self.index.pop();
        let program = Program { ops, tables, index: self.index, address: self.address };
        Ok(crate::fuse::fuse(program))
    }

    fn operand(&mut self) -> Result<i32, LoadError> {
        let operand = self.code.get(self.at).copied();
        self.at += 1;
        operand.ok_or_else(|| LoadError::format("its code ends in the middle of an instruction"))
    }

    fn target(&self, address: i32) -> Result<u32, LoadError> {
        let cell = u32::try_from(address).ok().filter(|address| address % 4 == 0);
        let index = cell.and_then(|address| self.index.get(address as usize / 4).copied());
        index.filter(|&index| index != NOWHERE).ok_or_else(|| {
            LoadError::format(format!("a jump to {address:#x}, where no instruction starts"))
        })
    }

    /// A table of cases: after its opcode and the number of cases the default, then values and addresses.
    fn table(&self, address: i32) -> Result<Table, LoadError> {
        let wrong = || LoadError::format("a switch without its table of cases");
        let start = usize::try_from(address).map_err(|_| wrong())?;
        if !start.is_multiple_of(4) || self.code.get(start / 4) != Some(&CASETBL) {
            return Err(wrong());
        }
        let cells = &self.code[start / 4..];
        let count =
            cells.get(1).and_then(|&count| usize::try_from(count).ok()).ok_or_else(wrong)?;
        let default = self.target(*cells.get(2).ok_or_else(wrong)?)?;
        let end = count.checked_mul(2).and_then(|cells| cells.checked_add(3)).ok_or_else(wrong)?;
        let pairs = cells.get(3..end).ok_or_else(wrong)?;
        let mut cases = pairs
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&[value, address]| Ok((value, self.target(address)?)))
            .collect::<Result<Vec<_>, LoadError>>()?;
        // The first of equals wins, and the sort keeps their order.
        cases.sort_by_key(|case| case.0);
        cases.dedup_by_key(|case| case.0);
        Ok(Table { default, cases })
    }

    fn push(&mut self, op: Op) {
        self.raw.push(Raw::Op(op));
    }

    /// Reads the operands of an instruction and writes what it does.
    fn instruction(&mut self, opcode: i32, start: usize) -> Result<(), LoadError> {
        if let Some(op) = plain(opcode) {
            self.push(op);
            return Ok(());
        }
        if let Some(op) = with_one(opcode) {
            let operand = self.operand()?;
            self.push(op(operand));
            return Ok(());
        }
        if let Some(op) = jump(opcode) {
            let address = self.operand()?;
            self.raw.push(Raw::To(op, address));
            return Ok(());
        }
        match opcode {
            LCTRL => {
                let register = self.operand()?;
                let after = self.address_of(self.at);
                self.push(if register == 6 { Op::LctrlCip(after) } else { Op::Lctrl(register) });
            }
            CALL => {
                let address = self.operand()?;
                let back = self.address_of(self.at);
                self.raw.push(Raw::Call(address, back));
            }
            CALL_PRI => {
                let back = self.address_of(self.at);
                self.push(Op::CallPri(back));
            }
            JREL => {
                let distance = self.operand()?;
                let address = self.address_of(self.at).wrapping_add(distance);
                self.raw.push(Raw::To(Op::Jump, address));
            }
            SWITCH => {
                let address = self.operand()?;
                self.raw.push(Raw::Switch(address));
            }
            CASETBL => {
                let count = self.operand()?;
                let cells = usize::try_from(count).ok().and_then(|count| count.checked_mul(2));
                let cells = cells.filter(|cells| *cells < self.code.len());
                let cells = cells.ok_or_else(|| LoadError::format("a table of too many cases"))?;
                self.skip(cells + 1)?;
                self.push(Op::Bad);
            }
            FILE | SYMBOL => {
                let bytes = self.operand()?;
                let cells = usize::try_from(bytes).ok().filter(|bytes| bytes.is_multiple_of(4));
                let cells = cells.ok_or_else(|| LoadError::format("a symbol of odd length"))?;
                self.skip(cells / 4)?;
                self.push(Op::Bad);
            }
            LINE | SRANGE => self.skip(2)?,
            SYMTAG => self.skip(1)?,
            NOP | BREAK => {}
            SYSREQ_N => {
                let (native, bytes) = (self.operand()?, self.operand()?);
                self.push(Op::PushC(bytes));
                self.push(Op::SysreqDrop(native, bytes.wrapping_add(4)));
            }
            138..=153 => {
                // Two to five operands, pushed in the order in which they stand.
                let op = [Op::PushC, Op::Push, Op::PushS, Op::PushAdr][(opcode as usize - 138) % 4];
                for _ in 0..2 + (opcode - 138) / 4 {
                    let operand = self.operand()?;
                    self.push(op(operand));
                }
            }
            154 | 155 => {
                let (first, second) = (self.operand()?, self.operand()?);
                let is_global = opcode == 154;
                self.push(if is_global { Op::LoadPri(first) } else { Op::LoadSPri(first) });
                self.push(if is_global { Op::LoadAlt(second) } else { Op::LoadSAlt(second) });
            }
            156 | 157 => {
                let (place, value) = (self.operand()?, self.operand()?);
                self.push(if opcode == 156 {
                    Op::Const(place, value)
                } else {
                    Op::ConstS(place, value)
                });
            }
            _ => {
                return Err(LoadError {
                    code: Code::Instruction,
                    what: format!("unknown instruction {opcode} at {:#x}", start * 4),
                });
            }
        }
        Ok(())
    }

    fn skip(&mut self, cells: usize) -> Result<(), LoadError> {
        self.at += cells;
        if self.at > self.code.len() {
            return Err(LoadError::format("its code ends in the middle of a table"));
        }
        Ok(())
    }

    fn address_of(&self, cell: usize) -> i32 {
        i32::try_from(cell * 4).expect("code is bounded")
    }
}

const LCTRL: i32 = 31;
const CALL: i32 = 49;
const CALL_PRI: i32 = 50;
const JREL: i32 = 52;
const FILE: i32 = 124;
const LINE: i32 = 125;
const SYMBOL: i32 = 126;
const SRANGE: i32 = 127;
const SWITCH: i32 = 129;
const CASETBL: i32 = 130;
const NOP: i32 = 134;
const SYSREQ_N: i32 = 135;
const SYMTAG: i32 = 136;
const BREAK: i32 = 137;
