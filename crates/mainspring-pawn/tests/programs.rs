//! Every test program in every variant, its output exact.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::Shared;
use mainspring::time::Instant;
use mainspring_pawn::host::{Host, Options, Profile};
use mainspring_pawn::{Image, script};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn run(path: &Path, lines: &str) -> String {
    let image = Image::parse(&fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let output = Shared::default();
    let options = Options { scripted: true, ..Options::new(Profile::Samp) };
    let mut host = Host::new(image, options, Instant::ORIGIN, Box::new(output.clone()))
        .unwrap_or_else(|e| panic!("{path:?}: {e}"));
    for line in lines.lines() {
        script::run_line(&mut host, line).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
    output.text()
}

#[test]
fn all_programs_in_all_variants() {
    let mut count = 0;
    let mut failures = Vec::new();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(fixtures().join("bin")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let file = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".amx");
        let (name, variant) = file.split_once('.').unwrap();
        let expected =
            |name: String| fs::read_to_string(fixtures().join("expected").join(name)).ok();
        // One compiler is built on the other, and both compile one program wrongly at their highest level.
        let own = variant.trim_start_matches("omp");
        let Some(expected) =
            expected(format!("{name}.{own}.txt")).or_else(|| expected(format!("{name}.txt")))
        else {
            assert!(name.starts_with('b'), "no expected output of {file}");
            continue;
        };
        let lines = fs::read_to_string(fixtures().join(format!("src/{name}.run")));
        let output = run(&path, lines.as_deref().unwrap_or("main"));
        if output != expected {
            failures.push(format!("{file}:\n--- expected\n{expected}--- is\n{output}"));
        }
        count += 1;
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 100, "{count} programs");
}
