//! Tells the program which commit it was built from, and how. Never fails a build: without git it says "unknown".

use std::process::Command;

fn main() {
    println!("cargo::rustc-env=MAINSPRING_COMMIT={}", commit().as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=MAINSPRING_RUSTC={}", rustc().as_deref().unwrap_or("unknown"));
    for (name, source) in [("MAINSPRING_OPT_LEVEL", "OPT_LEVEL"), ("MAINSPRING_TARGET", "TARGET")] {
        println!(
            "cargo::rustc-env={name}={}",
            std::env::var(source).as_deref().unwrap_or("unknown")
        );
    }
    println!("cargo::rerun-if-env-changed=RUSTC");
}

/// The commit's short hash, with `-dirty` after it if tracked files differ from it.
fn commit() -> Option<String> {
    watch_git();
    let hash = said("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changes = said("git", &["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { hash } else { format!("{hash}-dirty") })
}

/// Asks to be run again when a commit is made, a branch is changed, or a source of this program is edited.
fn watch_git() {
    for path in ["HEAD", "index", "logs/HEAD"] {
        if let Some(path) = said("git", &["rev-parse", "--git-path", path]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in ["build.rs", "src", "../mainspring/src", "../../Cargo.toml"] {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn rustc() -> Option<String> {
    said(&std::env::var("RUSTC").ok()?, &["--version"])
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
