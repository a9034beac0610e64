//! The program as its users meet it: exit codes, refusals, documents, closed pipes, help texts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[test]
fn an_unknown_experiment_is_refused_and_a_similar_one_named() {
    let line = refused(&["bench", "tick"]);
    assert!(line.contains("'tick'") && line.contains("'ticks'"), "{line}");
}

#[test]
fn an_unknown_engine_is_refused_and_those_that_exist_are_named() {
    let line = refused(&["bench", "ticks", "--engine", "wheel,abacus"]);
    assert!(
        line.contains("'abacus'") && line.contains("[possible values: wheel, list, heap, script]"),
        "{line}"
    );
    let line = refused(&["bench", "churn", "--engine", "list"]);
    assert!(line.contains("wheel, list-wheel, heap, btree"), "{line}");
}

#[test]
fn zero_and_absurd_counts_are_refused() {
    let zero = refused(&["bench", "ticks", "--samples", "0"]);
    assert_eq!(zero, "mainspring: --samples 0: give a number from 1 to 10000");
    for arguments in [
        &["bench", "churn", "--live", "99999999999999999999"][..],
        &["bench", "churn", "--live", "9000M"],
        &["bench", "churn", "--live", "-3"],
        &["bench", "fire", "--timers", "1k"],
        &["bench", "fire", "--timers", "1k,2k", "--span-ms", "1"],
        &["bench", "ticks", "--interval", ""],
        &["bench", "ticks", "--fun", "--samples", "3"],
        &["bench", "clocks", "--rounds", "many"],
        &["bench", "--seed", "-1"],
        &["clock", "--seconds", "0"],
        &["clock", "--json", ""],
        &["bench", "ticks", "--no-such-flag"],
        &["tick"],
    ] {
        refused(arguments);
    }
}

#[test]
fn cron_lists_runs_and_warns_where_the_clocks_change() {
    let list = |expression: &str, from: &str, more: &[&str]| {
        let zone = ["cron", "next", expression, "--zone", "America/New_York", "--from", from];
        let output = mainspring(&[&zone[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let moved = list("30 2 * * *", "2026-03-08T00:00", &["-n", "1"]);
    assert!(moved.contains("warning") && moved.contains("its run is moved"), "{moved}");
    assert!(moved.contains("2026-03-08T07:00:00Z  (moved from 02:30:00)"), "{moved}");
    let skipped = list("30 2 * * *", "2026-03-08T00:00", &["-n", "1", "--gap", "skip"]);
    assert!(skipped.contains("no run then") && skipped.contains("2026-03-09T06:30"), "{skipped}");
    let doubled = list("*/30 * * * *", "2026-11-01T00:40", &["-n", "4"]);
    assert!(doubled.contains("runs at both") && doubled.contains("second of two"), "{doubled}");
    let first = list("30 1 * * *", "2026-11-01T00:00", &["-n", "1"]);
    assert!(first.contains("it runs at the first"), "{first}");
    assert_eq!(list("0 0 31 4 *", "2026-01-01T00:00", &[]), "never\n");
    let json = list("30 2 * * *", "2026-03-08T00:00", &["-n", "1", "--json"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["runs"][0]["pass"], "moved");
    for (arguments, words) in [
        (["next", "61 * * * *"], "minute field"),
        (["next", "@reboot"], "when your program starts"),
        (["explain", "CRON_TZ=Mars/Olympus @daily"], "Mars/Olympus"),
    ] {
        let line = refused(&[&["cron"][..], &arguments].concat());
        assert!(line.contains(words), "{line}");
    }
}

#[test]
#[cfg(unix)]
fn cron_runs_a_command_so_often_and_ends() {
    let run =
        ["cron", "run", "@every 10ms", "--zone", "UTC", "--times", "2", "--overlap", "queue", "--"];
    let output = mainspring(&[&run[..], &["echo", "done"]].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| *line == "done").count(), 2, "{text}");
    assert!(text.contains("run 2 started"), "{text}");
    let missing = mainspring(&[&run[..], &["/no/such/program"]].concat());
    assert_eq!(missing.status.code(), Some(4));
}

#[test]
fn an_unwritable_document_is_refused_before_the_run() {
    let scratch = Scratch::new("unwritable");
    let directory = scratch.0.to_str().unwrap();
    let missing = scratch.path("no/such/directory/out.json");
    for path in [directory, missing.to_str().unwrap(), "/proc/out.json"] {
        // A run of these parameters would take an hour; the refusal comes before it.
        let output = mainspring(&["bench", "--full", "--json", path]);
        assert_eq!(output.status.code(), Some(3), "{path:?}: {output:?}");
        assert!(output.stdout.is_empty(), "nothing was printed: the run has not begun");
        let line = one_line(&output);
        assert!(line.starts_with(&format!("mainspring: cannot write --json {path}: ")), "{line}");
    }
    assert!(scratch.files().is_empty());
}

#[test]
fn a_document_on_stdout_is_nothing_but_json() {
    let output = mainspring(&["bench", "clocks", "--rounds", "1", "--json", "-", "--seed", "7"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_bench_document(&document);
    assert_eq!(document["seed"], 7);
    let tables = String::from_utf8(output.stderr).unwrap();
    assert!(tables.contains("What one read costs"), "tables go to stderr: {tables}");
}

#[test]
fn a_document_in_a_file_is_whole_and_alone() {
    let scratch = Scratch::new("file");
    let path = scratch.path("out.json");
    fs::write(&path, "old").unwrap();
    let output =
        mainspring(&["bench", "--json", path.to_str().unwrap(), "-q", "clocks", "--rounds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "--quiet: {output:?}");
    assert_bench_document(&serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap());
    assert_eq!(scratch.files(), ["out.json"]);
}

#[test]
fn every_clock_has_its_row_and_none_goes_backwards() {
    let output = mainspring(&["bench", "clocks", "--rounds", "1", "--json", "-", "--quiet"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["experiments"]["clocks"]["rows"].as_array().unwrap();
    for name in [
        "null function",
        "getpid",
        "time",
        "gettimeofday",
        "clock_gettime MONOTONIC",
        "clock_gettime REALTIME",
        "Instant::now",
        "cached",
        "quanta now",
        "quanta recent",
        "coarsetime recent",
    ] {
        let row =
            rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"));
        assert!(row["ns"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row.as_object().unwrap().len(), 5, "{row}");
    }
    // The steady clocks; wall clocks may be set while we look.
    for row in rows
        .iter()
        .filter(|row| ["Instant::now", "tsc", "cached"].iter().any(|name| row["name"] == *name))
    {
        assert_eq!(row["backward_steps"], 0, "{row}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in
        [&["--help"][..], &["bench", "ticks", "--help"], &["bench", "clocks", "--rounds", "1"]]
    {
        let mut child =
            program(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_document_in_a_file_outlives_the_reader_of_the_tables() {
    let scratch = Scratch::new("outlives");
    let path = scratch.path("out.json");
    let arguments = ["bench", "clocks", "--rounds", "1", "--json", path.to_str().unwrap()];
    let mut child =
        program(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_bench_document(&serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap());
}

#[test]
fn the_clock_command_closes_with_a_verdict() {
    let output = mainspring(&["clock", "--seconds", "1", "--json", "-", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    assert!(document["clock"]["costs"]["getpid_ns"].as_f64().unwrap() > 0.0);
    let verdict = document["verdict"].as_array().unwrap();
    assert!(verdict[0].as_str().unwrap().starts_with("clocksource is "), "{verdict:?}");
    let tables = String::from_utf8(output.stderr).unwrap();
    assert!(tables.trim_end().ends_with(verdict.last().unwrap().as_str().unwrap()), "{tables}");
}

#[test]
fn without_arguments_the_program_says_where_to_start() {
    let output = mainspring(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("mainspring bench") && text.contains("mainspring clock"), "{text}");
}

/// A script of the repository.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pawn/timers.amx");

#[test]
fn a_script_runs_in_virtual_time_the_same_way_each_time() {
    let run = || mainspring(&["pawn", "run", SCRIPT, "--virtual", "--seconds", "6", "--report"]);
    let (first, second) = (run(), run());
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert_eq!(first.stdout, second.stdout);
    let text = String::from_utf8(first.stdout).unwrap();
    assert_eq!(text.lines().count(), 40);
    assert!(text.ends_with("[0039]: lastID: 00040001 tickrate: 0200\n"), "{text}");
    let report = String::from_utf8(first.stderr).unwrap();
    assert!(report.contains("OnUpdate") && report.contains("40,001 timers alive"), "{report}");
}

#[test]
fn a_told_script_answers_line_by_line() {
    let scratch = Scratch::new("told");
    let path = scratch.path("lines.run");
    fs::write(&path, "main\nadvance 1100\npubvar fired\n").unwrap();
    let output = mainspring(&["pawn", "run", SCRIPT, "--script", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("= main: err=0 ret=0\n"), "{text}");
    assert!(text.ends_with("= t=1100\n= pubvar fired @28 = 0\n"), "{text}");
    let alone = mainspring(&["pawn", "run", SCRIPT, "--virtual"]);
    assert_eq!(String::from_utf8(alone.stdout).unwrap(), "= main: err=0 ret=0\n");
    fs::write(&path, "mian\n").unwrap();
    let output = mainspring(&["pawn", "run", SCRIPT, "--script", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("line 1: \"mian\""));
}

#[test]
fn what_is_no_script_is_said_in_one_line() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (arguments, code) in [
        (&["pawn", "run", manifest][..], 5),
        (&["pawn", "inspect", manifest], 5),
        (&["pawn", "inspect", "no such file"], 2),
        (&["pawn", "run", SCRIPT, "--seconds", "0"], 2),
        (&["pawn", "run", SCRIPT, "--script", "no such file"], 2),
    ] {
        let output = mainspring(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{arguments:?}");
    }
    let output = mainspring(&["pawn", "inspect", SCRIPT]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("All of them are here."));
}

/// Each text is a file in `tests/help`. After a change that is meant: `BLESS=1 cargo test -p mainspring-cli help`.
#[test]
fn help_texts_are_those_that_were_read_and_approved() {
    for (name, arguments) in [
        ("mainspring", &["--help"][..]),
        ("bench", &["bench", "--help"]),
        ("bench-ticks", &["bench", "ticks", "--help"]),
        ("bench-clocks", &["bench", "clocks", "--help"]),
        ("bench-compare", &["bench", "compare", "--help"]),
        ("arena", &["arena", "--help"]),
        ("bench-churn", &["bench", "churn", "--help"]),
        ("bench-fire", &["bench", "fire", "--help"]),
        ("bench-bundles", &["bench", "bundles", "--help"]),
        ("clock", &["clock", "--help"]),
        ("pawn-run", &["pawn", "run", "--help"]),
        ("pawn-inspect", &["pawn", "inspect", "--help"]),
        ("cron", &["cron", "--help"]),
        ("cron-next", &["cron", "next", "--help"]),
        ("cron-explain", &["cron", "explain", "--help"]),
        ("cron-run", &["cron", "run", "--help"]),
    ] {
        let output = mainspring(arguments);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/help/{name}.txt"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let approved = fs::read_to_string(&path).unwrap_or_default();
        assert!(text == approved, "{} differs; the program says:\n{text}", path.display());
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{name}: a line is longer than 100 columns"
        );
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn mainspring(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

/// The one line of a refusal; its exit code is that of bad usage, and nothing was done.
fn refused(arguments: &[&str]) -> String {
    let output = mainspring(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    one_line(&output)
}

fn one_line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.starts_with("mainspring: "), "{text}");
    text.trim_end().to_owned()
}

fn assert_bench_document(document: &Value) {
    assert_eq!(document["schema"], 1);
    assert!(document["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(document["commit"].as_str().is_some_and(|commit| !commit.is_empty()));
    assert!(document["seed"].is_u64());
    for (name, experiment) in document["experiments"].as_object().unwrap() {
        let rows = experiment["rows"].as_array().unwrap();
        assert!(!rows.is_empty(), "{name}");
        for (key, value) in rows.iter().flat_map(|row| row.as_object().unwrap()) {
            let counted = ["backward_steps"].contains(&key.as_str());
            let unit = ["ns", "us", "ms", "percent", "bytes"]
                .iter()
                .any(|unit| key.split('_').any(|word| word == *unit));
            assert!(!value.is_number() || counted || unit, "{name}: {key} names no unit");
        }
    }
}

/// A directory of a test's own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("mainspring-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A document against itself, against a slower one, and against what is none.
#[test]
fn documents_are_compared_and_a_certain_regression_is_exit_code_1() {
    let directory = std::env::temp_dir().join(format!("mainspring-compare-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let document = |ns: f64| {
        format!(
            r#"{{"schema":1,"seed":1,"machine":{{}},"experiments":{{"clocks":{{"rows":[{{"name":"tsc","ns":{ns},
            "spread":{{"ns":{{"rounds":9,"least":{ns},"low":{ns},"high":{ns}}}}}}}]}}}}}}"#
        )
    };
    std::fs::write(path("old.json"), document(10.0)).unwrap();
    std::fs::write(path("new.json"), document(15.0)).unwrap();
    std::fs::write(path("none.json"), "{\"schema\":1}").unwrap();
    let compare = |old: &str, new: &str| mainspring(&["bench", "compare", &path(old), &path(new)]);
    let output = compare("old.json", "old.json");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("no difference"));
    let output = compare("old.json", "new.json");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("worse, certain"));
    assert_eq!(compare("new.json", "old.json").status.code(), Some(0));
    for none in ["none.json", "absent.json"] {
        let output = compare("old.json", none);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// What is sent is counted at both ends, over a network that loses, doubles and overtakes.
#[test]
fn the_arena_loses_nothing_in_either_format() {
    for format in ["plain", "ac"] {
        let mut arguments =
            vec!["arena", "--clients", "3", "--seconds", "1", "--json", "-", "--quiet"];
        arguments.extend([
            "--format",
            format,
            "--loss",
            "10",
            "--duplicate",
            "5",
            "--reorder",
            "10",
        ]);
        let output = mainspring(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let row = &document["experiments"]["arena"]["rows"][0];
        assert_eq!(
            (&row["messages_lost"], &row["messages_out_of_order"]),
            (&0.into(), &0.into()),
            "{row}"
        );
        assert_eq!(row["messages_sent"], row["messages_delivered"]);
        for key in [
            "tick_rate",
            "tick_ms_p50",
            "tick_ms_p99",
            "messages_sent",
            "resends",
            "server_cpu_percent",
        ] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key} of {row}");
        }
    }
}

#[test]
fn senseless_arenas_are_refused_in_one_line() {
    for (arguments, words) in [
        (["--clients", "0"], "--clients 0"),
        (["--loss", "200"], "--loss 200"),
        (["--rate", "0"], "--rate 0"),
        (["--bytes", "3"], "--bytes 3"),
        (["--format", "foo"], "foo"),
    ] {
        let line = refused(&["arena", arguments[0], arguments[1]]);
        assert!(line.contains(words), "{line}");
    }
}
