//! Tells the program which commit it was built from, and how. Never fails a build: without git it says "unknown", and without
//! the headers of a C library that library is not among the rivals.

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
    for cfg in ["mainspring_libuv", "mainspring_libevent"] {
        println!("cargo::rustc-check-cfg=cfg({cfg})");
    }
    #[cfg(feature = "compare")]
    c_rivals();
}

/// Builds the shim for those C libraries that are here.
#[cfg(feature = "compare")]
fn c_rivals() {
    const LIBRARIES: [(&str, &str, &str); 2] = [
        ("mainspring_libuv", "uv", "uv.h"),
        ("mainspring_libevent", "event_core", "event2/event.h"),
    ];
    const SHIM: &str = "src/engines/rivals/shim.c";
    let mut build = cc::Build::new();
    build.file(SHIM).flag_if_supported("-Wall").opt_level(2);
    let mut found = Vec::new();
    for (cfg, library, header) in LIBRARIES {
        // What the compiler says of an empty program that wants the header and the library.
        let is_here = Command::new(cc::Build::new().get_compiler().path())
            .args(["-x", "c", "-include", header, "-o", "/dev/null", "-"])
            .arg(format!("-l{library}"))
            .stdin(program("int main(void) { return 0; }"))
            .output()
            .is_ok_and(|output| output.status.success());
        if is_here {
            println!("cargo::rustc-cfg={cfg}");
            build.define(&cfg.to_uppercase(), None);
            found.push(library);
        }
    }
    if !found.is_empty() {
        build.compile("mainspring_rivals");
        found.iter().for_each(|library| println!("cargo::rustc-link-lib={library}"));
    }
}

/// A text to be read as standard input.
#[cfg(feature = "compare")]
fn program(text: &str) -> std::process::Stdio {
    let path = std::path::Path::new(&std::env::var("OUT_DIR").unwrap_or_default()).join("probe.c");
    let written = std::fs::write(&path, text).and_then(|()| std::fs::File::open(&path));
    written.map_or_else(|_| std::process::Stdio::null(), Into::into)
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
