//! Sequences that compilers emit all the time, made one instruction.
//!
//! The fused instruction takes the place of the first; those behind it stay where they are, for whoever jumps there, and are
//! stepped over. So no jump has to be looked at, and no address moves.

use crate::decode::{Op, Program};

pub(crate) fn fuse(mut program: Program) -> Program {
    let ops = program.ops.clone();
    for (at, op) in program.ops.iter_mut().enumerate() {
        let next = |ahead: usize| ops.get(at + ahead).copied().unwrap_or(Op::Bad);
        *op = fused(*op, next(1), next(2));
    }
    program
}

fn fused(first: Op, second: Op, third: Op) -> Op {
    match (first, second, third) {
        (Op::PushC(bytes), Op::SysreqC(native), Op::Stack(drop))
            if drop == bytes.wrapping_add(4) && bytes >= 0 =>
        {
            Op::SysreqArgs(native, bytes)
        }
        (Op::LoadSPri(first), Op::LoadSAlt(second), Op::Jsgeq(target)) => {
            match (i16::try_from(first), i16::try_from(second)) {
                (Ok(first), Ok(second)) => Op::JsgeqSS(first, second, target),
                _ => Op::LoadSBoth(first, second),
            }
        }
        (Op::ConstAlt(count), Op::Sshr, _) => Op::SshrC(count),
        (Op::StorSPri(place), Op::Jump(target), _) => Op::StorSJump(place, target),
        (Op::LoadSPri(place), Op::PushPri, _) => Op::LoadSPush(place),
        (Op::LoadSPri(first), Op::LoadSAlt(second), _) => Op::LoadSBoth(first, second),
        (Op::LoadSPri(place), Op::AddC(more), _) => Op::LoadSAddC(place, more),
        (Op::LoadSAlt(place), Op::Add, _) => Op::AddS(place),
        (Op::LoadSAlt(place), Op::Jsgeq(target), _) => Op::JsgeqS(place, target),
        (Op::PushS(place), Op::PushC(value), _) => Op::PushSC(place, value),
        (Op::ConstAlt(value), Op::Jsgeq(target), _) => Op::JsgeqC(value, target),
        (Op::ConstAlt(value), Op::Jsless(target), _) => Op::JslessC(value, target),
        (Op::ConstAlt(value), Op::Jneq(target), _) => Op::JneqC(value, target),
        (Op::PopAlt, Op::Add, _) => Op::PopAdd,
        (Op::IncS(place), Op::Jump(target), _) => Op::IncSJump(place, target),
        _ => first,
    }
}
