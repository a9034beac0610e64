//! Holds the house: floors, owners of time and of unsafe code, a word on top of each file, files one can read.
//!
//! The rules are plain functions of a file's name and text, so each is tested on a sample that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `crates/mainspring` by floor. A module may name only modules on lower floors; siblings do not know
/// each other.
const FLOORS: &[&[&str]] = &[
    &["time", "sys"],
    &["wheel", "cadence"],
    &["timers"],
    &["sync", "clock"],
    &["scheduler", "tick"],
    &["cron", "futures"],
];

/// What the other libraries may name of `mainspring`; the program may name everything.
const NEIGHBOURS: &[(&str, &[&str])] = &[
    ("crates/mainspring-session/src/", &["time", "wheel"]),
    ("crates/mainspring-pawn/src/", &["time", "cadence", "timers"]),
];

/// The files that may ask the operating system for the time, or wait for it, and why.
const OWNERS_OF_TIME: &[(&str, &str)] = &[
    ("crates/mainspring/src/sys/os_clock.rs", "the clocks where the system has no clock_gettime"),
    ("crates/mainspring/src/tick/wait.rs", "the loop that owns its thread"),
    ("crates/mainspring-cli/src/stopwatch.rs", "the benchmark's own stopwatch"),
    (
        "crates/mainspring-cli/src/engines/rivals/tokio.rs",
        "a rival that wants the time from its caller",
    ),
    (
        "crates/mainspring-cli/src/packers/rivals/quinn.rs",
        "a rival that wants the time from its caller",
    ),
    ("crates/mainspring-cli/src/experiments/clocks.rs", "other libraries' clocks, to be measured"),
];

/// Where unsafe code may be: a file, or a directory with a slash behind it; and why.
const OWNERS_OF_UNSAFE: &[(&str, &str)] = &[
    ("crates/mainspring/src/sys/", "calls of the operating system, and instructions"),
    (
        "crates/mainspring/src/wheel/slab.rs",
        "the records of timers, where a measurement shows that it pays",
    ),
    ("crates/mainspring-cli/src/os.rs", "the calls that are measured"),
    ("crates/mainspring-cli/src/engines/rivals/shim.rs", "rivals written in C"),
];

/// Lines of a file, its tests not counted.
const LONGEST: usize = 600;

#[test]
fn the_house_is_in_order() {
    let files = sources();
    assert!(files.len() > 20, "the sources were not found: {files:?}");
    let read = |path: &String| fs::read_to_string(root().join(path)).unwrap();
    let findings: Vec<String> = files.iter().flat_map(|path| findings(path, &read(path))).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// A list of exceptions that nobody needs any more would excuse the next fault.
#[test]
fn every_owner_still_exists() {
    for (owner, reason) in OWNERS_OF_TIME.iter().chain(OWNERS_OF_UNSAFE) {
        assert!(root().join(owner).exists(), "{owner} ({reason}) is gone: take it off the list");
    }
    for (owner, reason) in OWNERS_OF_TIME {
        let text = fs::read_to_string(root().join(owner)).unwrap();
        assert!(
            asks_for_time(&tokens(&code(&text))).is_some(),
            "{owner} ({reason}) no longer asks: take it off"
        );
    }
}

/// Everything wrong with one file.
fn findings(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let tokens = tokens(&code);
    let mut findings = Vec::new();
    if let Some(inside) = path.strip_prefix("crates/mainspring/src/") {
        findings.extend(wrong_floors(inside, &tokens));
    }
    for (_, allowed) in NEIGHBOURS.iter().filter(|(neighbour, _)| path.starts_with(neighbour)) {
        let named = named_of_mainspring(&tokens);
        let wrong = named.into_iter().filter(|module| !allowed.contains(module));
        findings.extend(wrong.map(|module| format!("names mainspring::{module}; see NEIGHBOURS")));
    }
    if !OWNERS_OF_TIME.iter().any(|(owner, _)| owner == &path) {
        findings.extend(
            asks_for_time(&tokens)
                .map(|call| format!("{call}: time is an argument; see OWNERS_OF_TIME")),
        );
    }
    if !OWNERS_OF_UNSAFE
        .iter()
        .any(|(owner, _)| path == *owner || owner.ends_with('/') && path.starts_with(owner))
    {
        findings
            .extend(is_unsafe(&tokens).then(|| "unsafe code outside OWNERS_OF_UNSAFE".to_owned()));
    }
    if !starts_with_a_word(text) {
        findings.push("no //! on top says what this file is for".to_owned());
    }
    let length = length_without_tests(text);
    if length > LONGEST {
        findings.push(format!("{length} lines without its tests; split it below {LONGEST}"));
    }
    let unfinished = [concat!("TO", "DO"), concat!("FIX", "ME")];
    for word in unfinished.iter().filter(|word| text.contains(**word)) {
        findings.push(format!("{word}: do it now, or say it where plans are kept"));
    }
    findings.into_iter().map(|finding| format!("{path}: {finding}")).collect()
}

/// What a file of the library names that it may not know. `inside` is its path below `src`.
fn wrong_floors(inside: &str, tokens: &[&str]) -> Vec<String> {
    let path: Vec<&str> =
        inside.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
    if path == ["lib"] {
        return Vec::new();
    }
    let floor = |module: &str| FLOORS.iter().position(|modules| modules.contains(&module));
    let Some(own) = floor(path[0]) else {
        return vec![format!("the module {} stands on no floor: add it to FLOORS", path[0])];
    };
    let known = |module: &str| module == path[0] || floor(module).is_some_and(|floor| floor < own);
    let mut named = modules_named(path.len(), tokens);
    named.sort_unstable();
    named.dedup();
    named.retain(|module| !known(module));
    let finding = |module: &str| match floor(module) {
        Some(floor) => format!("{} (floor {own}) names {module} (floor {floor})", path[0]),
        None => format!("{} names {module}, which stands on no floor", path[0]),
    };
    named.into_iter().map(finding).collect()
}

/// The top modules of the crate that a file names, from its root or by climbing up to it.
fn modules_named<'a>(depth: usize, tokens: &[&'a str]) -> Vec<&'a str> {
    let mut named = Vec::new();
    // Braces open at each point, and at which of them a module of this file began.
    let (mut braces, mut modules) = (0_usize, Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            "{" => {
                braces += 1;
                if at >= 2 && tokens[at - 2] == "mod" {
                    modules.push(braces);
                }
            }
            "}" => {
                if modules.last() == Some(&braces) {
                    modules.pop();
                }
                braces = braces.saturating_sub(1);
            }
            "crate" if tokens.get(at + 1) == Some(&"::") => named.extend(heads(&tokens[at + 2..])),
            "super" => {
                let mut climbed = 0;
                while tokens.get(at) == Some(&"super") && tokens.get(at + 1) == Some(&"::") {
                    climbed += 1;
                    at += 2;
                }
                if climbed == depth + modules.len() {
                    named.extend(heads(&tokens[at..]));
                }
                at = at.max(1) - usize::from(climbed > 0);
            }
            _ => {}
        }
        at += 1;
    }
    named
}

/// The modules of `mainspring` that a file of another crate names.
fn named_of_mainspring<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let roots = tokens.windows(2).enumerate().filter(|(_, pair)| *pair == ["mainspring", "::"]);
    roots.flat_map(|(at, _)| heads(&tokens[at + 2..])).collect()
}

/// The first names of a path, or of each path of a group.
fn heads<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    match tokens {
        ["{", group @ ..] => {
            let (mut depth, mut first, mut heads) = (1, true, Vec::new());
            for token in group {
                match *token {
                    "{" => depth += 1,
                    "}" => depth -= 1,
                    "," if depth == 1 => {
                        first = true;
                        continue;
                    }
                    name if first => heads.push(name),
                    _ => {}
                }
                first = false;
                if depth == 0 {
                    break;
                }
            }
            heads
        }
        // The glob names everything; nothing in the house needs it.
        [name, ..] => vec![name],
        [] => Vec::new(),
    }
}

fn asks_for_time(tokens: &[&str]) -> Option<&'static str> {
    tokens.windows(3).find_map(|window| match window {
        ["Instant", "::", "now"] => Some("Instant::now"),
        ["SystemTime", "::", "now"] => Some("SystemTime::now"),
        ["thread", "::", "sleep"] => Some("thread::sleep"),
        _ => None,
    })
}

fn is_unsafe(tokens: &[&str]) -> bool {
    let allowed = |at: usize| {
        tokens[..at]
            .iter()
            .rev()
            .find(|token| matches!(**token, "allow" | "expect" | "deny" | "forbid"))
    };
    tokens.iter().enumerate().any(|(at, token)| match *token {
        "unsafe" => true,
        "unsafe_code" => matches!(allowed(at), Some(&"allow" | &"expect")),
        _ => false,
    })
}

fn starts_with_a_word(text: &str) -> bool {
    let first =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!["));
    first.is_some_and(|line| line.strip_prefix("//!").is_some_and(|words| !words.trim().is_empty()))
}

fn length_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: usize| {
        let attribute = lines[at].starts_with("#[cfg(") && lines[at].contains("test");
        let module = lines[at + 1..].iter().find(|line| !line.starts_with("#["));
        attribute && module.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let Some(start) = (0..lines.len()).find(|&at| begins(at)) else {
        return lines.len();
    };
    let length = lines[start..]
        .iter()
        .position(|line| *line == "}")
        .map_or(lines.len() - start, |end| end + 1);
    lines.len() - length
}

/// The text without comments, and with the inside of strings and characters blank.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else if let Some(hashes) = raw_string(rest, out.chars().last()) {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = rest.find('"').map_or(rest.len(), |at| at + 1);
            rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len())
        } else if next == '"' {
            quoted(rest, '"')
        } else if next == '\''
            && (rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\''))
        {
            quoted(rest, '\'')
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        out.push(' ');
        out.extend(rest[..length].chars().filter(|c| *c == '\n'));
        rest = &rest[length..];
    }
    out
}

/// The length of the comment that `text` starts with; comments nest.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// How many hashes the raw string that `text` starts with has, if it starts with one.
fn raw_string(text: &str, before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let text = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let hashes = text.len() - text.trim_start_matches('#').len();
    text[hashes..].starts_with('"').then_some(hashes)
}

/// The length of the literal that `text` starts with.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Names, `::`, and every other character that is no blank.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(next) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if word(next) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            next.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Every Rust file of the workspace's crates, by its path from the root.
fn sources() -> Vec<String> {
    let mut directories = vec![root().join("crates")];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    files.sort();
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

mod samples {
    //! Each rule finds what it is for, and nothing else.

    use super::{LONGEST, code, findings, length_without_tests};

    fn found(path: &str, body: &str) -> Vec<String> {
        findings(path, &format!("//! A sample.\n{body}\n"))
    }

    fn bad(path: &str, body: &str, expected: &str) {
        let found = found(path, body);
        assert!(found.len() == 1 && found[0].contains(expected), "{body:?}: {found:?}");
    }

    fn good(path: &str, body: &str) {
        let found = found(path, body);
        assert!(found.is_empty(), "{body:?}: {found:?}");
    }

    const WHEEL: &str = "crates/mainspring/src/wheel/mod.rs";
    const SLOTS: &str = "crates/mainspring/src/wheel/slots.rs";
    const CADENCE: &str = "crates/mainspring/src/cadence.rs";

    #[test]
    fn an_upper_floor_or_a_sibling_may_not_be_named() {
        bad(WHEEL, "use crate::clock::Tsc;", "wheel (floor 1) names clock (floor 3)");
        bad(WHEEL, "use crate::cadence::Cadence;", "wheel (floor 1) names cadence (floor 1)");
        bad(WHEEL, "use crate::{time::Tick, scheduler::{a, b}};", "names scheduler");
        bad(WHEEL, "fn f(_: crate :: tick::Loop) {}", "names tick");
        bad(WHEEL, "use crate::magic;", "names magic, which stands on no floor");
        bad(WHEEL, "use crate::*;", "names *");
        bad("crates/mainspring/src/magic.rs", "", "stands on no floor");
        good(WHEEL, "use crate::time::Tick; use crate::wheel::key; use crate::{sys, time};");
        good("crates/mainspring/src/lib.rs", "pub use crate::tick::Loop;");
        good("crates/mainspring-cli/src/main.rs", "use crate::anything;");
    }

    #[test]
    fn a_neighbour_names_only_what_it_may() {
        let session = "crates/mainspring-session/src/ac/mod.rs";
        bad(session, "use mainspring::clock::Tsc;", "names mainspring::clock");
        bad(session, "fn f() { mainspring::timers::Timers::new(n) }", "names mainspring::timers");
        good(session, "use mainspring::time::Instant;");
    }

    #[test]
    fn climbing_up_is_no_way_round() {
        bad(WHEEL, "use super::clock::Tsc;", "names clock");
        bad(SLOTS, "use super::super::clock::Tsc;", "names clock");
        bad(SLOTS, "mod tests { use super::super::super::clock; }", "names clock");
        bad(CADENCE, "mod tests { mod deep { use super::super::super::{tick}; } }", "names tick");
        good(SLOTS, "use super::clock;");
        good(SLOTS, "mod tests { use super::super::clock; }");
        good(CADENCE, "mod a { fn f() { {} } } mod tests { use super::*; } use super::time::Tick;");
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        good(
            WHEEL,
            "/// See [`crate::clock`].\n// crate::tick\n/* a /* nested */ crate::tick */ fn f() {}",
        );
        good(
            WHEEL,
            r####"const A: &str = "crate::tick \" unsafe"; const B: &str = r#"crate::" tick"#; const C: char = '"';"####,
        );
        bad(WHEEL, "const A: char = '\\''; fn f<'a>(_: &'a crate::tick::T) {}", "names tick");
        assert_eq!(code("a // b\nc /* d\n */ e"), "a  \nc  \n e");
    }

    #[test]
    fn time_is_asked_for_only_where_it_is_owned() {
        for call in ["Instant::now", "SystemTime::now", "thread::sleep"] {
            bad(WHEEL, &format!("fn f() {{ std::time::{call}(x) }}"), call);
            bad("crates/mainspring-cli/tests/x.rs", &format!("fn f() {{ {call}(x) }}"), call);
            good("crates/mainspring-cli/src/stopwatch.rs", &format!("fn f() {{ {call}(x) }}"));
        }
        good(WHEEL, "// Instant::now\nfn f() { clock.now() }");
    }

    #[test]
    fn unsafe_code_is_only_where_it_is_owned() {
        bad(WHEEL, "fn f() { unsafe { g() } }", "unsafe code");
        bad(WHEEL, "#![allow(dead_code, unsafe_code)]", "unsafe code");
        bad("crates/mainspring-cli/src/main.rs", "#[expect(unsafe_code)] fn f() {}", "unsafe code");
        good(WHEEL, "#![forbid(unsafe_code)] // unsafe");
        good(
            "crates/mainspring/src/sys/deep/x.rs",
            "#![allow(unsafe_code)] fn f() { unsafe { g() } }",
        );
        good("crates/mainspring/src/wheel/slab.rs", "unsafe fn f() {}");
    }

    #[test]
    fn each_file_says_what_it_is_for() {
        for text in [
            "fn f() {}",
            "",
            "//!\nfn f() {}",
            "// A comment.\n//! Too late.\n",
            "/// Of an item.\nfn f() {}",
        ] {
            assert_eq!(findings("crates/x/src/a.rs", text).len(), 1, "{text:?}");
        }
        assert!(findings("crates/x/src/a.rs", "#![no_std]\n\n//! A word.\n").is_empty());
    }

    #[test]
    fn a_file_can_be_read_in_one_sitting() {
        let long = "fn f() {}\n".repeat(LONGEST + 1);
        bad("crates/x/src/a.rs", &long, "lines without its tests");
        let tests =
            format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn f() {}\n".repeat(LONGEST));
        good("crates/x/src/a.rs", &tests);
        bad("crates/x/src/a.rs", &format!("{tests}{long}"), "lines without its tests");
        assert_eq!(length_without_tests("a\n#[cfg(test)]\nmod tests;\nb\n"), 4);
    }

    #[test]
    fn nothing_is_left_for_later() {
        bad(WHEEL, concat!("// TO", "DO: later"), "do it now");
        bad(WHEEL, concat!("// FIX", "ME"), "do it now");
    }
}
