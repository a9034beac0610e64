//! What machine the numbers are from. What cannot be found out is absent, never guessed.

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::os;

/// The facts a reader needs to judge a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: Option<String>,
    /// Logical processors this process may use.
    pub(crate) cores: usize,
    pub(crate) caches: Vec<Cache>,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) os: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) hypervisor: Option<String>,
    pub(crate) clocksource: Option<String>,
    pub(crate) governor: Option<String>,
    /// always, madvise or never.
    pub(crate) transparent_huge_pages: Option<String>,
    pub(crate) target: &'static str,
    pub(crate) rustc: &'static str,
    pub(crate) opt_level: &'static str,
    pub(crate) debug_assertions: bool,
}

/// One cache of the first processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cache {
    level: u32,
    kind: String,
    size_kib: u64,
}

impl Machine {
    /// Asks the operating system and the processor.
    pub(crate) fn observe() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&text("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_mib: memory_mib(&text("/proc/meminfo")),
            os: Some(
                os_name(&text("/etc/os-release"))
                    .unwrap_or_else(|| std::env::consts::OS.to_owned()),
            ),
            kernel: line("/proc/sys/kernel/osrelease"),
            hypervisor: os::hypervisor(),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            transparent_huge_pages: chosen(&text("/sys/kernel/mm/transparent_hugepage/enabled")),
            target: env!("MAINSPRING_TARGET"),
            rustc: env!("MAINSPRING_RUSTC"),
            opt_level: env!("MAINSPRING_OPT_LEVEL"),
            debug_assertions: cfg!(debug_assertions),
        }
    }
}

/// One paragraph, as it stands above the tables.
impl Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown =
            |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        write!(
            f,
            "{}, {} core{}",
            or_unknown(&self.cpu),
            self.cores,
            if self.cores == 1 { "" } else { "s" }
        )?;
        if let Some(mib) = self.memory_mib {
            write!(f, ", {:.1} GiB", mib as f64 / 1024.0)?;
        }
        write!(f, "; {}, kernel {}", or_unknown(&self.os), or_unknown(&self.kernel))?;
        if let Some(hypervisor) = &self.hypervisor {
            write!(f, ", under {hypervisor}")?;
        }
        write!(f, "\nclock source {}", or_unknown(&self.clocksource))?;
        write!(f, "; huge pages {}", or_unknown(&self.transparent_huge_pages))?;
        if let Some(governor) = &self.governor {
            write!(f, "; governor {governor}")?;
        }
        write!(f, "; {}", self.rustc)
    }
}

/// The contents of a file of one line.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let names = ["model name", "Model", "Hardware", "cpu"];
    names.iter().find_map(|name| field(cpuinfo, name, ':')).map(str::to_owned)
}

fn memory_mib(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal", ':')?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

fn os_name(os_release: &str) -> Option<String> {
    field(os_release, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned())
}

/// The value after `name` and `separator` on a line of its own.
fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

/// `madvise` of `always [madvise] never`.
fn chosen(choices: &str) -> Option<String> {
    choices
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .map(str::to_owned)
}

fn caches(directory: &Path) -> Vec<Cache> {
    let cache = |index: usize| {
        let directory = directory.join(format!("index{index}"));
        let level = line(directory.join("level"))?.parse().ok()?;
        let kind = line(directory.join("type"))?.to_lowercase();
        let size_kib = line(directory.join("size"))?.strip_suffix('K')?.parse().ok()?;
        Some(Cache { level, kind, size_kib })
    };
    (0..8).filter_map(cache).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_linux_writes_them() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n").as_deref(),
            Some("AMD EPYC")
        );
        assert_eq!(memory_mib("MemTotal:        8046272 kB\nMemFree: 1 kB\n"), Some(7857));
        assert_eq!(
            os_name("NAME=\"x\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
            Some("Debian GNU/Linux 12")
        );
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
    }

    #[test]
    fn what_cannot_be_found_out_is_absent() {
        assert_eq!(cpu_model(""), None);
        assert_eq!(memory_mib("MemTotal: many\n"), None);
        assert_eq!(os_name(""), None);
        assert_eq!(chosen("always madvise"), None);
        assert_eq!(line("/nowhere/at/all"), None);
        assert!(caches(Path::new("/nowhere/at/all")).is_empty());
        assert!(
            Machine::default().to_string().starts_with("unknown, 0 cores; unknown, kernel unknown")
        );
    }
}
