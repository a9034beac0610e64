//! What the kernel makes its clocks from.

use std::string::String;

/// A line of `/sys/devices/system/clocksource/clocksource0/`, without its line end. `None` where there is no such file.
pub(crate) fn clock_source_file(name: &str) -> Option<String> {
    let folder = std::path::Path::new("/sys/devices/system/clocksource/clocksource0");
    let line = std::fs::read_to_string(folder.join(name)).ok()?;
    Some(String::from(line.trim()))
}
