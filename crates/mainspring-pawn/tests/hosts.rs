//! What owners rely on: one failing callback stops no other timer, hostile files are errors, loops end, profiles differ as told.

mod common;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use common::Shared;
use mainspring::time::Instant;
use mainspring_pawn::host::{Host, Options, Profile, missing_natives};
use mainspring_pawn::{Code, Image, script};
use proptest::prelude::*;

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bin").join(name);
    fs::read(path).unwrap()
}

fn benchmark() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pawn/timers.amx")).unwrap()
}

fn host(bytes: &[u8], options: Options) -> (Host, Shared) {
    let output = Shared::default();
    let image = Image::parse(bytes).unwrap();
    let host = Host::new(image, options, Instant::ORIGIN, Box::new(output.clone())).unwrap();
    (host, output)
}

fn at(ms: u64) -> Instant {
    Instant::ORIGIN.saturating_add(Duration::from_millis(ms))
}

/// Runs a told script, with the profile's rules.
fn told(name: &str, profile: Profile, lines: &str) -> String {
    let options = Options { scripted: true, ..Options::new(profile) };
    let (mut host, output) = host(&file(name), options);
    lines.lines().for_each(|line| script::run_line(&mut host, line).unwrap());
    output.text()
}

#[test]
fn faults_tell_the_line_where_it_is_known() {
    let (mut host, output) = host(&file("t12_errors.d3nc.amx"), Options::new(Profile::Samp));
    host.start(Instant::ORIGIN);
    assert_eq!(host.faults(), 0, "{}", output.text());
    let image = host.machine().image();
    assert!(image.has_debug_info());
    let mut machine = mainspring_pawn::Machine::new(image.clone()).unwrap();
    let public = image.find_public("Div").unwrap();
    machine.push(0).unwrap();
    machine.push(10).unwrap();
    let fault = machine
        .call(&mut NoNatives, mainspring_pawn::Entry::Public(public))
        .expect_err("a division by zero");
    assert_eq!(fault.code, Code::Divide);
    let (file, line) = fault.place.expect("debug information tells");
    assert!(file.ends_with("t12_errors.pwn"), "{file}");
    assert_eq!(line, 4);
}

struct NoNatives;

impl mainspring_pawn::Natives for NoNatives {
    fn call(
        &mut self,
        _: &mut mainspring_pawn::Machine,
        _: usize,
        _: mainspring_pawn::Arguments,
    ) -> Result<i32, Code> {
        Err(Code::NotFound)
    }
}

#[test]
fn after_a_fault_the_script_can_be_called_again_with_all_its_memory() {
    let call = "call Deep i:0\ncall Bounds i:5\ncall Raise i:10\n";
    let output = told("t12_errors.O1.amx", Profile::Samp, &(call.repeat(200) + "call Ok\n"));
    assert!(output.ends_with("= Ok: err=0 ret=123\n"));
    assert_eq!(output.matches("= Deep: err=3").count(), 200);
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    // fib(40) takes some hundred million calls.
    let image = Image::parse(&file("b01_vmspeed.O1.amx")).unwrap();
    let mut machine = mainspring_pawn::Machine::new(image).unwrap();
    let public = machine.image().find_public("Fib").unwrap();
    for budget in [1, 2, 1000, 100_000] {
        machine.set_budget(budget);
        machine.push(40).unwrap();
        let result = machine.call(&mut NoNatives, mainspring_pawn::Entry::Public(public));
        assert_eq!(result.unwrap_err().code, Code::Budget);
    }
}

#[test]
fn timers_on_a_missing_public_are_what_each_server_makes_of_them() {
    for (profile, last_id, fired) in [(Profile::Samp, 11, 10), (Profile::OpenMp, 0, 0)] {
        let (mut host, output) = host(&benchmark(), Options::new(profile));
        for (name, value) in [
            ("target_exists", 0),
            ("samples", 1),
            ("warm_up", 0),
            ("timers_per_update", 10),
            ("timers_interval", 50),
        ] {
            assert!(host.set_variable(name, value).unwrap());
        }
        host.start(at(0));
        host.tick(at(100), 170);
        host.tick(at(150), 170);
        let text = output.text();
        assert!(text.contains(&format!("[0000]: lastID: {last_id:08} tickrate: 0170")), "{text}");
        assert_eq!(host.timers_fired() - host.timers_called(), fired, "{profile:?}");
        // A warning, once for its name, however often it happens.
        let warnings = text.matches("warning: no public OnNothing").count();
        assert_eq!(warnings, usize::from(profile == Profile::OpenMp), "{text}");
    }
}

#[test]
fn a_missing_native_stops_the_script_or_is_told_of() {
    let mut bytes = file("t10_timers.O1nc.amx");
    let name = b"GetServerTickRate";
    let place = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[place..place + 3].copy_from_slice(b"Foo");
    let image = Image::parse(&bytes).unwrap();
    assert_eq!(missing_natives(&image).collect::<Vec<_>>(), ["FooServerTickRate"]);
    let make = |profile| {
        let output = Shared::default();
        let options = Options::new(profile);
        let host = Host::new(image.clone(), options, at(0), Box::new(output.clone()));
        (host.map(|_| ()), output.text())
    };
    let (samp, _) = make(Profile::Samp);
    let error = samp.unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    assert!(error.what.contains("FooServerTickRate") && error.what.contains("openmp"));
    let (openmp, text) = make(Profile::OpenMp);
    assert!(openmp.is_ok());
    assert_eq!(text, "warning: the native FooServerTickRate is not here and returns 0\n");
}

#[test]
fn repeating_timers_do_not_drift_unless_they_are_told_to() {
    for (profile, drift) in [
        (Profile::Samp, false),
        (Profile::OpenMp, false),
        (Profile::Samp, true),
        (Profile::OpenMp, true),
    ] {
        let (mut host, _) =
            host(&benchmark(), Options { server_drift: drift, ..Options::new(profile) });
        for (name, value) in
            [("samples", 1), ("warm_up", 0), ("timers_per_update", 1), ("timers_interval", 100)]
        {
            host.set_variable(name, value).unwrap();
        }
        host.start(at(0));
        host.tick(at(100), 200);
        // Ticks 7 ms apart, for 100 s: never on a multiple of 100 but by chance.
        for tick in 0..14_287 {
            host.tick(at(100 + tick * 7), 200);
        }
        let fired = host.variable("fired").unwrap().1;
        match (profile, drift) {
            (_, false) => assert_eq!(fired, 1000, "{profile:?}"),
            // It loses what each tick was late.
            (Profile::Samp, true) => assert!((940..970).contains(&fired), "{fired}"),
            // Whole milliseconds are made up for.
            (Profile::OpenMp, true) => assert!((998..=1000).contains(&fired), "{fired}"),
        }
    }
}

#[test]
fn timers_of_no_interval_fire_once_a_tick() {
    let (mut host, _) = host(&benchmark(), Options::new(Profile::OpenMp));
    for (name, value) in
        [("samples", 1), ("warm_up", 0), ("timers_per_update", 3), ("timers_interval", 0)]
    {
        host.set_variable(name, value).unwrap();
    }
    host.start(at(0));
    host.tick(at(100), 200);
    for tick in 1..=50 {
        host.tick(at(100 + tick * 6), 200);
    }
    assert_eq!(host.variable("fired").unwrap().1, 150);
}

#[test]
fn a_callback_that_fails_stops_no_other() {
    // Starting fifty timers takes more than this budget; the update that does so stays.
    let (mut host, output) =
        host(&benchmark(), Options { budget: 100, ..Options::new(Profile::OpenMp) });
    for (name, value) in [("samples", 1), ("warm_up", 0), ("timers_per_update", 50)] {
        host.set_variable(name, value).unwrap();
    }
    host.start(at(0));
    for tick in 1..100 {
        host.tick(at(tick * 100), 200);
    }
    assert_eq!(host.faults(), 99, "each update");
    let counted = host.variable("fired").unwrap().1;
    assert!(counted > 1000, "what it had started by then goes on: {counted}");
    let text = output.text();
    assert!(text.contains("OnUpdate: Run time error 30"), "{text}");
    assert_eq!(text.lines().count(), 20, "told twenty times, then only counted: {text}");
}

#[test]
fn each_kind_of_bad_file_is_named() {
    let good = file("t01_arith.O1.amx");
    let change = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Image::parse(&file).map(|_| ()).unwrap_err()
    };
    assert!(Image::parse(b"").unwrap_err().what.contains("no .amx file"));
    assert!(Image::parse(&[0; 100]).unwrap_err().what.contains("does not start like one"));
    assert!(change(4, &[0xe1]).what.contains("compile for 32 bits"));
    let version = change(6, &[11]);
    assert_eq!(version.code, Code::Version);
    assert!(version.what.contains("Pawn 4") && version.what.contains("compile with"));
    assert!(Image::parse(&good[..good.len() - 1]).unwrap_err().what.contains("truncated"));
    assert!(change(24, &u32::MAX.to_le_bytes()).what.contains("whole cells"));
    assert!(change(24, &0x7fff_0000_u32.to_le_bytes()).what.contains("64 MiB"));
    assert!(change(32, &u32::MAX.to_le_bytes()).what.contains("overlap"));
    assert!(change(10, &[9]).what.contains("8 nor 24"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is changed in a file: an error, or a script that stays within its memory and its budget.
    #[test]
    fn changed_files_are_errors_or_run_within_their_bounds(
        which in 0_usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let names = ["t14_emit.O1nc.amx", "t08_publics.d3nc.amx", "t19_macro_ops.O1nc.amx", "t07_state.O1.amx"];
        let mut bytes = file(names[which]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let Ok(image) = Image::parse(&bytes) else { return Ok(()) };
        let options = Options { scripted: true, budget: 10_000, ..Options::new(Profile::OpenMp) };
        let Ok(mut host) = Host::new(image, options, at(0), Box::new(io::sink())) else { return Ok(()) };
        host.start(at(0));
        host.tick(at(1000), 200);
        prop_assert!(host.machine().memory_bytes() <= (64 << 20) + bytes.len() * 64);
    }
}
