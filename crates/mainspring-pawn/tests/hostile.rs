//! Scripts that no compiler would make, assembled by hand: nothing panics, nothing goes on for ever, nothing stays behind.

mod common;

use std::time::Duration;

use common::Shared;
use mainspring::time::Instant;
use mainspring_pawn::host::{Host, Options, Profile};
use mainspring_pawn::{Arguments, Code, Entry, Image, LoadError, Machine, Natives, Outcome};

/// A file with these publics (name and address), natives, code and data. Functions return to the `halt 0` that is put in
/// front of the code, two cells long.
fn assemble(
    publics: &[(&str, u32)],
    natives: &[&str],
    main: i32,
    code: &[i32],
    data: &[i32],
    stack: u32,
) -> Vec<u8> {
    const HEADER: u32 = 56;
    let count = |items: usize| u32::try_from(items).unwrap();
    let natives_at = HEADER + 8 * count(publics.len());
    let names_at = natives_at + 8 * count(natives.len());
    let (mut table, mut names) = (Vec::new(), Vec::new());
    for (name, address) in publics.iter().copied().chain(natives.iter().map(|native| (*native, 0)))
    {
        table.extend(address.to_le_bytes());
        table.extend((names_at + count(names.len())).to_le_bytes());
        names.extend(name.as_bytes());
        names.push(0);
    }
    names.resize(names.len().next_multiple_of(4), 0);
    let code: Vec<i32> = [120, 0].iter().chain(code).copied().collect();
    let cod = names_at + count(names.len());
    let dat = cod + 4 * count(code.len());
    let hea = dat + 4 * count(data.len());
    let mut file = hea.to_le_bytes().to_vec();
    file.extend([0xe0, 0xf1, 8, 8, 0, 0, 8, 0]);
    let main = main.cast_unsigned();
    let tables = [HEADER, natives_at, names_at, names_at, names_at, names_at];
    for number in [cod, dat, hea, hea + stack, main].into_iter().chain(tables) {
        file.extend(number.to_le_bytes());
    }
    file.extend(table);
    file.extend(names);
    file.extend(code.iter().chain(data).flat_map(|cell| cell.to_le_bytes()));
    file
}

/// Where the assembled code starts.
const START: i32 = 8;

fn machine(natives: &[&str], code: &[i32], stack: u32) -> Result<Machine, LoadError> {
    Machine::new(Image::parse(&assemble(&[], natives, START, code, &[0], stack))?)
}

fn host(file: &[u8]) -> (Host, Shared) {
    let output = Shared::default();
    let image = Image::parse(file).unwrap();
    let options = Options { budget: 100_000, ..Options::new(Profile::Samp) };
    let host = Host::new(image, options, Instant::ORIGIN, Box::new(output.clone())).unwrap();
    (host, output)
}

fn text(text: &str) -> Vec<i32> {
    text.bytes().map(i32::from).chain([0]).collect()
}

/// A second of virtual time, from wake to wake: how many there were.
fn second(host: &mut Host) -> u32 {
    let end = Instant::ORIGIN.saturating_add(Duration::from_secs(1));
    host.start(Instant::ORIGIN);
    let mut wakes = 0;
    let mut now = Instant::ORIGIN;
    while let Some(next) = host.next_wake().filter(|next| *next <= end) {
        now = now.max(next);
        host.tick(now, 200);
        wakes += 1;
        assert!(wakes < 5000, "time stands still at {now:?}");
    }
    wakes
}

struct Nothing;

impl Natives for Nothing {
    fn call(&mut self, _: &mut Machine, _: usize, _: Arguments) -> Result<i32, Code> {
        Ok(0)
    }
}

#[test]
fn operands_at_the_ends_of_their_range_wrap() {
    for operand in [i32::MIN, i32::MIN + 3, -1, 0, 3, i32::MAX - 4, i32::MAX] {
        for opcode in [29, 30, 10, 24, 26, 28, 44, 45, 68, 70, 87, 88, 105, 117, 118, 119, 121, 38]
        {
            let mut machine = machine(&[], &[opcode, operand, 120, 0], 4096).unwrap();
            machine.set_budget(1000);
            // How it ends is its own affair.
            let _ = machine.call(&mut Nothing, Entry::Main);
        }
        // Arguments counted, passed and dropped, which becomes one instruction.
        let code = [39, operand, 123, 0, 44, operand.wrapping_add(4), 120, 0];
        let _ = machine(&["x"], &code, 4096).unwrap().call(&mut Nothing, Entry::Main);
    }
}

#[test]
fn addresses_at_the_end_of_their_range_are_refused() {
    let mut machine = machine(&[], &[120, 0], 4096).unwrap();
    for address in [i32::MAX, i32::MAX - 3, i32::MIN, -4] {
        assert_eq!(machine.set_string(address, b"text", 5), Err(Code::MemoryAccess));
        assert_eq!(machine.string(address, 5), Err(Code::MemoryAccess));
    }
    let valstr = [39, 5, 39, i32::MAX, 39, 8, 123, 0, 44, 12, 120, 0];
    let (mut host, output) = host(&assemble(&[], &["valstr"], START, &valstr, &[0], 4096));
    host.start(Instant::ORIGIN);
    assert_eq!(host.faults(), 1, "{}", output.text());
}

/// `SetTimerEx("f", interval, 1, "ai", array, size)`, over and over if `again`.
fn set_timer_ex(array: i32, size: i32, again: bool) -> Vec<u8> {
    let mut data = text("f");
    let at = |data: &Vec<i32>| i32::try_from(data.len() * 4).unwrap();
    let letters = at(&data);
    data.extend(text("ai"));
    let size_at = at(&data);
    data.push(size);
    data.resize(60_100, 1);
    let mut code = vec![39, size_at, 39, array, 39, letters, 39, 1, 39, 1000, 39, 0, 39, 24];
    code.extend([123, 0, 44, 28]);
    code.extend(if again { [51, START] } else { [120, 0] });
    assemble(&[("f", 0)], &["SetTimerEx"], START, &code, &data, 4096)
}

#[test]
fn an_array_from_nowhere_is_refused() {
    for (array, size) in [(i32::MAX, 3), (i32::MIN, 3), (0, -1), (0, i32::MAX), (0, 65_537)] {
        let (mut host, output) = host(&set_timer_ex(array, size, false));
        host.start(Instant::ORIGIN);
        assert_eq!((host.faults(), host.timers_alive()), (1, 0), "{}", output.text());
    }
}

#[test]
fn what_timers_carry_is_bounded() {
    let (mut host, output) = host(&set_timer_ex(0, 60_000, true));
    host.start(Instant::ORIGIN);
    // 16 Mi cells: 279 arrays of so many.
    assert_eq!(host.timers_alive(), (1 << 24) / 60_001);
    assert!(output.text().contains("Run time error 16"), "{}", output.text());
}

#[test]
fn many_switches_may_share_a_table_but_tables_may_not_overlap() {
    let count = 1500;
    let table = START + 8 * count;
    let mut code: Vec<i32> = (0..count).flat_map(|_| [129, table]).collect();
    code.extend([130, count, 0]);
    code.extend((0..count).flat_map(|value| [value, 0]));
    let machine = machine(&[], &code, 4096).unwrap();
    assert!(machine.memory_bytes() < 200_000, "{}", machine.memory_bytes());
}

#[test]
fn work_on_many_bytes_counts_as_many_jumps() {
    const MEMORY: i32 = 4 << 20;
    // The stack is made large, and filled again and again.
    let code = [44, 1024 - MEMORY, 89, 12, MEMORY / 2, 119, MEMORY / 4, 51, START + 8];
    let mut machine = machine(&[], &code, MEMORY.cast_unsigned()).unwrap();
    machine.set_budget(100_000);
    let fault = machine.call(&mut Nothing, Entry::Main).unwrap_err();
    assert!(matches!(fault.code, Code::Budget | Code::MemoryAccess), "{fault}");
}

#[test]
fn sleeping_for_nothing_lets_time_pass() {
    let code = [11, 0, 120, 12, 51, START];
    let (mut host, _) = host(&assemble(&[], &[], START, &code, &[0], 4096));
    assert_eq!(second(&mut host), 1000, "a millisecond at least");
}

#[test]
fn a_timer_that_arms_itself_at_once_lets_time_pass() {
    // f: SetTimer("f", 0, 0)
    let code = [46, 39, 0, 39, 0, 39, 0, 39, 12, 123, 0, 44, 16, 48];
    let public = [("f", START.cast_unsigned())];
    let (mut host, output) =
        host(&assemble(&public, &["SetTimer"], START, &code, &text("f"), 4096));
    assert_eq!(second(&mut host), 200, "once a tick: {}", output.text());
    assert_eq!(host.timers_alive(), 1);
}

#[test]
fn a_callback_that_sleeps_ends_there_and_main_still_can() {
    // OnGameModeInit: sleep 5. main: sleep 5, then count.
    let code = [46, 11, 5, 120, 12, 48, 46, 11, 5, 120, 12, 109, 0, 48];
    let public = [("OnGameModeInit", START.cast_unsigned())];
    let (mut host, output) = host(&assemble(&public, &[], START + 24, &code, &[0, 0], 4096));
    assert_eq!(second(&mut host), 1);
    assert_eq!(host.machine().cell(0), Ok(1), "main went on: {}", output.text());
    assert!(output.text().contains("OnGameModeInit sleeps; only main can"), "{}", output.text());
    assert_eq!(host.faults(), 0);
}

#[test]
fn what_a_native_leaves_on_the_stack_is_taken_back() {
    struct Pushes;
    impl Natives for Pushes {
        fn call(&mut self, machine: &mut Machine, _: usize, _: Arguments) -> Result<i32, Code> {
            machine.push(99)?;
            machine.allot(10)?;
            Ok(0)
        }
    }
    let code = [39, 7, 39, 0, 123, 0, 44, 4, 42, 120, 0];
    let mut machine = machine(&["x"], &code, 4096).unwrap();
    for _ in 0..1000 {
        let space = machine.heap_space();
        assert_eq!(machine.call(&mut Pushes, Entry::Main), Ok(Outcome::Returned(7)));
        assert_eq!(machine.heap_space(), space);
    }
}
