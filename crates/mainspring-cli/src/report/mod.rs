//! What a measurement becomes: numbers with their spread, tables, the JSON document, the machine's facts, progress.

pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod noise;
pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod progress;
pub(crate) mod stats;
pub(crate) mod table;
