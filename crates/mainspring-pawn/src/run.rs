//! The loop that runs instructions. It knows memory and registers, and no host: where a native is called it ends and is
//! begun again behind it.
//!
//! Every access to memory is checked against the block it lies in, those through a computed address also against the gap
//! between heap and stack. Arithmetic wraps. Jumps, calls and natives are counted down from a budget, and what works on many
//! bytes by their number; straight code between two of them is no longer than the script.

use crate::decode::{Op, Program};
use crate::error::Code;
use crate::memory::Memory;

/// The registers, as they are between two runs of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) pri: i32,
    pub(crate) alt: i32,
    pub(crate) frm: i32,
    pub(crate) stk: i32,
    pub(crate) hea: i32,
    /// The instruction to run next; after a fault, the one that failed.
    pub(crate) pc: usize,
    /// Jumps and calls that are left.
    pub(crate) budget: u64,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A native is to be called, and this many bytes dropped from the stack afterwards.
    Native {
        index: i32,
        drop: i32,
    },
    Halt(i32),
    Fault(Code),
}

/// Left free between heap and stack.
pub(crate) const MARGIN: i32 = 64;

/// Bytes copied, compared or filled, and cells pushed, that count as much as a jump.
const BYTES_FOR_A_JUMP: u64 = 64;

/// What `lctrl` tells of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    pub(crate) cod: i32,
    pub(crate) dat: i32,
    pub(crate) flags: i32,
}

#[allow(clippy::too_many_lines, clippy::cognitive_complexity, reason = "one arm an instruction")]
pub(crate) fn run(
    program: &Program,
    memory: &mut Memory,
    registers: &mut Registers,
    constants: Constants,
) -> Exit {
    let ops = program.ops.as_slice();
    let Registers { mut pri, mut alt, mut frm, mut stk, mut hea, mut pc, mut budget } = *registers;
    let exit = 'run: loop {
        /// The value, or the end of the run.
        macro_rules! check {
            ($result:expr) => {
                match $result {
                    Ok(value) => value,
                    Err(code) => break 'run Exit::Fault(code),
                }
            };
        }
        macro_rules! load {
            ($address:expr) => {
                check!(memory.load($address))
            };
        }
        macro_rules! store {
            ($address:expr, $value:expr) => {
                check!(memory.store($address, $value))
            };
        }
        macro_rules! push {
            ($value:expr) => {{
                let value = $value;
                stk = stk.wrapping_sub(4);
                store!(stk, value);
            }};
        }
        macro_rules! pop {
            () => {{
                let value = load!(stk);
                stk = stk.wrapping_add(4);
                value
            }};
        }
        macro_rules! jump {
            ($target:expr) => {{
                if budget == 0 {
                    break 'run Exit::Fault(Code::Budget);
                }
                budget -= 1;
                pc = $target as usize;
                continue 'run;
            }};
        }
        /// What works on many bytes at once takes more of the budget.
        macro_rules! pay {
            ($bytes:expr) => {{
                let cost = u64::from(i32::unsigned_abs($bytes)) / BYTES_FOR_A_JUMP;
                if budget < cost {
                    break 'run Exit::Fault(Code::Budget);
                }
                budget -= cost;
            }};
        }
        macro_rules! jump_if {
            ($condition:expr, $target:expr) => {
                if $condition {
                    jump!($target);
                }
            };
        }
        macro_rules! checked {
            ($address:expr) => {{
                let address = $address;
                if !memory.is_valid(address, hea, stk) {
                    break 'run Exit::Fault(Code::MemoryAccess);
                }
                address
            }};
        }
        macro_rules! margin {
            () => {
                if hea.wrapping_add(MARGIN) > stk {
                    break 'run Exit::Fault(Code::Stack);
                }
            };
        }
        macro_rules! jump_to_address {
            ($address:expr) => {
                match program.at($address) {
                    Some(target) => jump!(target),
                    None => break 'run Exit::Fault(Code::MemoryAccess),
                }
            };
        }
        let Some(&op) = ops.get(pc) else { break Exit::Fault(Code::MemoryAccess) };
        match op {
            Op::LoadPri(a) => pri = load!(a),
            Op::LoadAlt(a) => alt = load!(a),
            Op::LoadSPri(a) => pri = load!(frm.wrapping_add(a)),
            Op::LoadSAlt(a) => alt = load!(frm.wrapping_add(a)),
            Op::LrefPri(a) => pri = load!(load!(a)),
            Op::LrefAlt(a) => alt = load!(load!(a)),
            Op::LrefSPri(a) => pri = load!(load!(frm.wrapping_add(a))),
            Op::LrefSAlt(a) => alt = load!(load!(frm.wrapping_add(a))),
            Op::LoadI => pri = load!(checked!(pri)),
            Op::LodbI(size) => pri = check!(memory.load_bytes(checked!(pri), size)),
            Op::ConstPri(value) => pri = value,
            Op::ConstAlt(value) => alt = value,
            Op::AddrPri(a) => pri = frm.wrapping_add(a),
            Op::AddrAlt(a) => alt = frm.wrapping_add(a),
            Op::StorPri(a) => store!(a, pri),
            Op::StorAlt(a) => store!(a, alt),
            Op::StorSPri(a) => store!(frm.wrapping_add(a), pri),
            Op::StorSAlt(a) => store!(frm.wrapping_add(a), alt),
            Op::SrefPri(a) => store!(load!(a), pri),
            Op::SrefAlt(a) => store!(load!(a), alt),
            Op::SrefSPri(a) => store!(load!(frm.wrapping_add(a)), pri),
            Op::SrefSAlt(a) => store!(load!(frm.wrapping_add(a)), alt),
            Op::StorI => store!(checked!(alt), pri),
            Op::StrbI(size) => check!(memory.store_bytes(checked!(alt), size, pri)),
            Op::LidxB(shift) => {
                pri = load!(checked!(alt.wrapping_add(pri.wrapping_shl(shift.cast_unsigned()))));
            }
            Op::IdxaddrB(shift) => {
                pri = alt.wrapping_add(pri.wrapping_shl(shift.cast_unsigned()));
            }
            Op::AlignPri(size) => pri ^= if size < 4 { 4_i32.wrapping_sub(size) } else { 0 },
            Op::AlignAlt(size) => alt ^= if size < 4 { 4_i32.wrapping_sub(size) } else { 0 },
            Op::Lctrl(register) => match register {
                0 => pri = constants.cod,
                1 => pri = constants.dat,
                2 => pri = hea,
                3 => pri = memory.stp(),
                4 => pri = stk,
                5 => pri = frm,
                9 => pri = constants.flags,
                _ => {}
            },
            Op::LctrlCip(after) => pri = after,
            Op::Sctrl(register) => match register {
                2 => hea = pri,
                4 => stk = pri,
                5 => frm = pri,
                6 => jump_to_address!(pri),
                _ => {}
            },
            Op::MovePri => pri = alt,
            Op::MoveAlt => alt = pri,
            Op::Xchg => (pri, alt) = (alt, pri),
            Op::PushPri => push!(pri),
            Op::PushAlt => push!(alt),
            Op::PushR(count) => {
                pay!(count);
                for _ in 0..count {
                    push!(pri);
                }
            }
            Op::PushC(value) => push!(value),
            Op::Push(a) => push!(load!(a)),
            Op::PushS(a) => push!(load!(frm.wrapping_add(a))),
            Op::PushAdr(a) => push!(frm.wrapping_add(a)),
            Op::PopPri => pri = pop!(),
            Op::PopAlt => alt = pop!(),
            Op::SwapPri => {
                let top = load!(stk);
                store!(stk, pri);
                pri = top;
            }
            Op::SwapAlt => {
                let top = load!(stk);
                store!(stk, alt);
                alt = top;
            }
            Op::Stack(bytes) => {
                alt = stk;
                stk = stk.wrapping_add(bytes);
                margin!();
                if stk > memory.stp() {
                    break 'run Exit::Fault(Code::StackLow);
                }
            }
            Op::Heap(bytes) => {
                alt = hea;
                hea = hea.wrapping_add(bytes);
                margin!();
                if hea < memory.hlw() {
                    break 'run Exit::Fault(Code::HeapLow);
                }
            }
            Op::Proc => {
                push!(frm);
                frm = stk;
                margin!();
            }
            Op::Ret => {
                frm = pop!();
                jump_to_address!(pop!());
            }
            Op::Retn => {
                frm = pop!();
                let back = pop!();
                stk = stk.wrapping_add(load!(stk)).wrapping_add(4);
                jump_to_address!(back);
            }
            Op::Call(target, back) => {
                push!(back);
                jump!(target);
            }
            Op::CallPri(back) => {
                push!(back);
                jump_to_address!(pri);
            }
            Op::Jump(target) => jump!(target),
            Op::JumpPri => jump_to_address!(pri),
            Op::Jzer(target) => jump_if!(pri == 0, target),
            Op::Jnz(target) => jump_if!(pri != 0, target),
            Op::Jeq(target) => jump_if!(pri == alt, target),
            Op::Jneq(target) => jump_if!(pri != alt, target),
            Op::Jless(target) => jump_if!(pri.cast_unsigned() < alt.cast_unsigned(), target),
            Op::Jleq(target) => jump_if!(pri.cast_unsigned() <= alt.cast_unsigned(), target),
            Op::Jgrtr(target) => jump_if!(pri.cast_unsigned() > alt.cast_unsigned(), target),
            Op::Jgeq(target) => jump_if!(pri.cast_unsigned() >= alt.cast_unsigned(), target),
            Op::Jsless(target) => jump_if!(pri < alt, target),
            Op::Jsleq(target) => jump_if!(pri <= alt, target),
            Op::Jsgrtr(target) => jump_if!(pri > alt, target),
            Op::Jsgeq(target) => jump_if!(pri >= alt, target),
            Op::Shl => pri = pri.wrapping_shl(alt.cast_unsigned()),
            Op::Shr => {
                pri = pri.cast_unsigned().wrapping_shr(alt.cast_unsigned()).cast_signed();
            }
            Op::Sshr => pri = pri.wrapping_shr(alt.cast_unsigned()),
            Op::ShlCPri(count) => pri = pri.wrapping_shl(count.cast_unsigned()),
            Op::ShlCAlt(count) => alt = alt.wrapping_shl(count.cast_unsigned()),
            Op::ShrCPri(count) => {
                pri = pri.cast_unsigned().wrapping_shr(count.cast_unsigned()).cast_signed();
            }
            Op::ShrCAlt(count) => {
                alt = alt.cast_unsigned().wrapping_shr(count.cast_unsigned()).cast_signed();
            }
            Op::Mul => pri = pri.wrapping_mul(alt),
            Op::Sdiv => (pri, alt) = check!(floored(pri, alt)),
            Op::SdivAlt => (pri, alt) = check!(floored(alt, pri)),
            Op::Udiv => (pri, alt) = check!(unsigned(pri, alt)),
            Op::UdivAlt => (pri, alt) = check!(unsigned(alt, pri)),
            Op::Add => pri = pri.wrapping_add(alt),
            Op::Sub => pri = pri.wrapping_sub(alt),
            Op::SubAlt => pri = alt.wrapping_sub(pri),
            Op::And => pri &= alt,
            Op::Or => pri |= alt,
            Op::Xor => pri ^= alt,
            Op::Not => pri = i32::from(pri == 0),
            Op::Neg => pri = pri.wrapping_neg(),
            Op::Invert => pri = !pri,
            Op::AddC(value) => pri = pri.wrapping_add(value),
            Op::SmulC(value) => pri = pri.wrapping_mul(value),
            Op::Zero(a) => store!(a, 0),
            Op::ZeroS(a) => store!(frm.wrapping_add(a), 0),
            Op::SignPri => pri = i32::from(pri.to_le_bytes()[0].cast_signed()),
            Op::SignAlt => alt = i32::from(alt.to_le_bytes()[0].cast_signed()),
            Op::Eq => pri = i32::from(pri == alt),
            Op::Neq => pri = i32::from(pri != alt),
            Op::Less => pri = i32::from(pri.cast_unsigned() < alt.cast_unsigned()),
            Op::Leq => pri = i32::from(pri.cast_unsigned() <= alt.cast_unsigned()),
            Op::Grtr => pri = i32::from(pri.cast_unsigned() > alt.cast_unsigned()),
            Op::Geq => pri = i32::from(pri.cast_unsigned() >= alt.cast_unsigned()),
            Op::Sless => pri = i32::from(pri < alt),
            Op::Sleq => pri = i32::from(pri <= alt),
            Op::Sgrtr => pri = i32::from(pri > alt),
            Op::Sgeq => pri = i32::from(pri >= alt),
            Op::EqCPri(value) => pri = i32::from(pri == value),
            Op::EqCAlt(value) => pri = i32::from(alt == value),
            Op::IncAlt => alt = alt.wrapping_add(1),
            Op::DecAlt => alt = alt.wrapping_sub(1),
            Op::Inc(a) => store!(a, load!(a).wrapping_add(1)),
            Op::Dec(a) => store!(a, load!(a).wrapping_sub(1)),
            Op::IncS(a) => {
                let place = frm.wrapping_add(a);
                store!(place, load!(place).wrapping_add(1));
            }
            Op::DecS(a) => {
                let place = frm.wrapping_add(a);
                store!(place, load!(place).wrapping_sub(1));
            }
            Op::IncI => store!(pri, load!(pri).wrapping_add(1)),
            Op::DecI => store!(pri, load!(pri).wrapping_sub(1)),
            Op::Movs(bytes) => {
                pay!(bytes);
                let (from, to) = (checked!(pri), checked!(alt));
                check!(memory.check_range(from, bytes, hea, stk));
                check!(memory.check_range(to, bytes, hea, stk));
                check!(memory.copy(from, to, bytes));
            }
            Op::Cmps(bytes) => {
                pay!(bytes);
                let (right, left) = (checked!(pri), checked!(alt));
                check!(memory.check_range(right, bytes, hea, stk));
                check!(memory.check_range(left, bytes, hea, stk));
                pri = check!(memory.compare(left, right, bytes));
            }
            Op::Fill(bytes) => {
                pay!(bytes);
                let to = checked!(alt);
                check!(memory.check_range(to, bytes, hea, stk));
                check!(memory.fill(to, bytes, pri));
            }
            Op::Halt(code) => {
                pc += 1;
                break Exit::Halt(code);
            }
            Op::Bounds(most) => {
                if pri.cast_unsigned() > most.cast_unsigned() {
                    break Exit::Fault(Code::Bounds);
                }
            }
            Op::SysreqPri => {
                pc += 1;
                break Exit::Native { index: pri, drop: 0 };
            }
            Op::SysreqC(index) => {
                pc += 1;
                break Exit::Native { index, drop: 0 };
            }
            Op::SysreqDrop(index, drop) => {
                pc += 1;
                break Exit::Native { index, drop };
            }
            Op::SysreqArgs(index, bytes) => {
                push!(bytes);
                pc += 3;
                // As `stack` does: it leaves the old top in ALT, which is the place of the count.
                alt = stk;
                break Exit::Native { index, drop: bytes.wrapping_add(4) };
            }
            Op::Const(a, value) => store!(a, value),
            Op::ConstS(a, value) => store!(frm.wrapping_add(a), value),
            Op::Switch(table) => {
                let table = &program.tables[table as usize];
                let found = table.cases.binary_search_by_key(&pri, |case| case.0);
                jump!(found.map_or(table.default, |at| table.cases[at].1));
            }
            Op::Bad => break Exit::Fault(Code::Instruction),
            Op::LoadSPush(a) => {
                pri = load!(frm.wrapping_add(a));
                push!(pri);
                pc += 1;
            }
            Op::LoadSBoth(a, b) => {
                pri = load!(frm.wrapping_add(a));
                alt = load!(frm.wrapping_add(b));
                pc += 1;
            }
            Op::LoadSAddC(a, value) => {
                pri = load!(frm.wrapping_add(a)).wrapping_add(value);
                pc += 1;
            }
            Op::AddS(a) => {
                alt = load!(frm.wrapping_add(a));
                pri = pri.wrapping_add(alt);
                pc += 1;
            }
            Op::PushSC(a, value) => {
                push!(load!(frm.wrapping_add(a)));
                push!(value);
                pc += 1;
            }
            Op::PopAdd => {
                alt = pop!();
                pri = pri.wrapping_add(alt);
                pc += 1;
            }
            Op::JsgeqC(value, target) => {
                alt = value;
                pc += 1;
                jump_if!(pri >= alt, target);
            }
            Op::JslessC(value, target) => {
                alt = value;
                pc += 1;
                jump_if!(pri < alt, target);
            }
            Op::JneqC(value, target) => {
                alt = value;
                pc += 1;
                jump_if!(pri != alt, target);
            }
            Op::JsgeqS(a, target) => {
                alt = load!(frm.wrapping_add(a));
                pc += 1;
                jump_if!(pri >= alt, target);
            }
            Op::JsgeqSS(a, b, target) => {
                pri = load!(frm.wrapping_add(a.into()));
                alt = load!(frm.wrapping_add(b.into()));
                pc += 2;
                jump_if!(pri >= alt, target);
            }
            Op::SshrC(count) => {
                alt = count;
                pri = pri.wrapping_shr(count.cast_unsigned());
                pc += 1;
            }
            Op::StorSJump(a, target) => {
                store!(frm.wrapping_add(a), pri);
                jump!(target);
            }
            Op::IncSJump(a, target) => {
                let place = frm.wrapping_add(a);
                store!(place, load!(place).wrapping_add(1));
                jump!(target);
            }
        }
        pc += 1;
    };
    *registers = Registers { pri, alt, frm, stk, hea, pc, budget };
    exit
}

/// Quotient and remainder, the quotient rounded down: the remainder has the divisor's sign.
fn floored(dividend: i32, divisor: i32) -> Result<(i32, i32), Code> {
    if divisor == 0 {
        return Err(Code::Divide);
    }
    let (quotient, remainder) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor));
    if remainder != 0 && (remainder < 0) != (divisor < 0) {
        Ok((quotient - 1, remainder + divisor))
    } else {
        Ok((quotient, remainder))
    }
}

fn unsigned(dividend: i32, divisor: i32) -> Result<(i32, i32), Code> {
    let (dividend, divisor) = (dividend.cast_unsigned(), divisor.cast_unsigned());
    let quotient = dividend.checked_div(divisor).ok_or(Code::Divide)?;
    Ok((quotient.cast_signed(), (dividend % divisor).cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_down_and_never_traps() {
        let cases = [
            ((7, 2), (3, 1)),
            ((-7, 2), (-4, 1)),
            ((7, -2), (-4, -1)),
            ((-7, -2), (3, -1)),
            ((i32::MIN, -1), (i32::MIN, 0)),
            ((i32::MIN, i32::MAX), (-2, i32::MAX - 1)),
        ];
        for ((dividend, divisor), expected) in cases {
            assert_eq!(floored(dividend, divisor), Ok(expected), "{dividend} / {divisor}");
        }
        assert_eq!(floored(1, 0), Err(Code::Divide));
        assert_eq!(unsigned(-1, 2), Ok((i32::MAX, 1)));
        assert_eq!(unsigned(1, 0), Err(Code::Divide));
    }
}
