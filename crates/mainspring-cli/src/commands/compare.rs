//! `mainspring bench compare`: two documents of `bench`, row by row, with the noise of both taken into account.
//!
//! A row is found again by what it was asked to measure: its names and parameters. Its figures are those that have a spread,
//! and a few that people look at first. Nothing is certain without the rounds of both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::output::Output;
use crate::report::json::{Document, Sink};
use crate::report::machine::Machine;
use crate::report::noise::{Figure, Spread, Verdict};
use crate::report::table::{Block, Table};

/// Two documents to compare.
#[derive(Debug)]
pub(crate) struct Compare {
    pub(crate) old: PathBuf,
    pub(crate) new: PathBuf,
    pub(crate) json: Option<PathBuf>,
}

/// What a row is known by, as far as it has them.
const NAMES: [&str; 22] = [
    "name",
    "engine",
    "method",
    "format",
    "loop",
    "op",
    "clock",
    "group",
    "sizes",
    "resolution_ns",
    "live",
    "timers",
    "span_ms",
    "threads",
    "count",
    "tolerance_us",
    "per_update",
    "interval_ms",
    "stagger",
    "sample",
    "messages",
    "clients",
];

/// Figures that are compared even where a document has no spread for them, and those of which more is better.
const ALWAYS: [(&str, Better); 5] = [
    ("tick_rate", Better::More),
    ("tick_ms_p99", Better::Less),
    ("cpu_percent", Better::Less),
    ("server_cpu_percent", Better::Less),
    ("bytes_per_timer", Better::Less),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

/// What became of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    CertainRegression,
    LikelyRegression,
    NoDifference,
    LikelyImprovement,
    CertainImprovement,
}

/// One figure of one row, in both documents.
#[derive(Clone, Debug, Serialize)]
struct Row {
    experiment: String,
    row: String,
    figure: String,
    old: f64,
    new: f64,
    ratio: f64,
    change: Change,
}

pub(crate) fn run(compare: &Compare) -> Result<(), Failure> {
    let sink = Sink::open(compare.json.as_deref())?;
    let mut output = Output::new(sink.is_stdout(), !sink.is_nowhere());
    let (old, new) = (read(&compare.old)?, read(&compare.new)?);
    let rows = rows(&old, &new);
    if rows.is_empty() {
        return Err(Failure::Usage(format!(
            "{} and {} have no row in common; run the same experiments for both",
            compare.old.display(),
            compare.new.display()
        )));
    }
    for warning in warnings(&old, &new) {
        output.print(format_args!("warning: {warning}"))?;
    }
    for block in show(&rows) {
        output.print(block)?;
    }
    let count = |change: Change| rows.iter().filter(|row| row.change == change).count();
    let regressions = count(Change::CertainRegression);
    output.print(format_args!(
        "{} figures: {regressions} certainly worse, {} likely worse, {} likely better, {} certainly better, the rest \
         without a difference.",
        rows.len(),
        count(Change::LikelyRegression),
        count(Change::LikelyImprovement),
        count(Change::CertainImprovement),
    ))?;
    let machine = Machine::observe();
    sink.write(&Document::new(&machine, Body { comparison: &rows }))?;
    if regressions > 0 { Err(Failure::Regression) } else { Ok(()) }
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    comparison: &'a [Row],
}

/// A document of `bench`, or one line that says why it is none.
fn read(path: &Path) -> Result<Map<String, Value>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let not_one = |why: &str| {
        Failure::Usage(format!(
            "{} is no document of bench ({why}); make one with: mainspring bench --json FILE",
            path.display()
        ))
    };
    let document: Value =
        serde_json::from_str(&text).map_err(|error| not_one(&format!("not JSON: {error}")))?;
    let Value::Object(document) = document else { return Err(not_one("not an object")) };
    match document.get("schema").and_then(Value::as_u64) {
        Some(1) => {}
        Some(other) => return Err(not_one(&format!("its schema is {other}, this reads 1"))),
        None => return Err(not_one("it has no schema")),
    }
    if !document.get("experiments").is_some_and(Value::is_object) {
        return Err(not_one("it has no experiments"));
    }
    Ok(document)
}

/// What makes the comparison doubtful.
fn warnings(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let fact = |document: &Map<String, Value>, key: &str| {
        document.get("machine").and_then(|machine| machine.get(key)).cloned()
    };
    let differs = |key: &&str| fact(old, key) != fact(new, key);
    let facts: Vec<&str> = ["cpu", "cores", "kernel", "governor", "rustc", "opt_level"]
        .into_iter()
        .filter(differs)
        .collect();
    if !facts.is_empty() {
        warnings.push(format!("the machines differ in {}", facts.join(", ")));
    }
    if old.get("seed") != new.get("seed") {
        warnings.push("the seeds differ; give both runs the same --seed".to_owned());
    }
    warnings
}

/// All figures that both documents have, in the order of the new one.
fn rows(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Row> {
    let mut before: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for (experiment, row) in all_rows(old) {
        before.insert((experiment.to_owned(), name_of(row)), row);
    }
    let mut rows = Vec::new();
    for (experiment, row) in all_rows(new) {
        let name = name_of(row);
        let Some(&old) = before.get(&(experiment.to_owned(), name.clone())) else { continue };
        for (key, better) in figures_of(row) {
            let (Some(old), Some(new)) = (figure(old, &key), figure(row, &key)) else { continue };
            rows.push(Row {
                experiment: experiment.to_owned(),
                row: name.clone(),
                old: old.median,
                new: new.median,
                ratio: new.median / old.median,
                change: change(old, new, better),
                figure: key,
            });
        }
    }
    rows
}

/// Those whose sanity check failed say nothing.
fn all_rows(document: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let experiments = document.get("experiments").and_then(Value::as_object);
    experiments
        .into_iter()
        .flatten()
        .flat_map(|(name, experiment)| {
            let rows = experiment.get("rows").and_then(Value::as_array);
            rows.into_iter().flatten().map(move |row| (name, row))
        })
        .filter(|(_, row)| row.get("valid") != Some(&Value::Bool(false)))
}

fn name_of(row: &Value) -> String {
    let part = |key: &&str| {
        let value = row.get(key)?;
        Some(match value {
            Value::String(text) => text.clone(),
            other => format!("{key} {other}"),
        })
    };
    NAMES.iter().filter_map(part).collect::<Vec<_>>().join(", ")
}

fn figures_of(row: &Value) -> Vec<(String, Better)> {
    let spreads = row.get("spread").and_then(Value::as_object);
    let with_spread = spreads.into_iter().flatten().map(|(key, _)| (key.clone(), better(key)));
    let others = ALWAYS.iter().filter(|(key, _)| row.get(key).is_some());
    let mut figures: Vec<(String, Better)> = with_spread.collect();
    for &(key, better) in others {
        if figures.iter().all(|(known, _)| known != key) {
            figures.push((key.to_owned(), better));
        }
    }
    figures
}

fn better(key: &str) -> Better {
    ALWAYS.iter().find(|(known, _)| *known == key).map_or(Better::Less, |(_, better)| *better)
}

fn figure(row: &Value, key: &str) -> Option<Figure> {
    let median = row.get(key)?.as_f64().filter(|median| *median > 0.0)?;
    let spread = row.get("spread").and_then(|spreads| spreads.get(key)).cloned();
    let spread: Option<Spread> = spread.and_then(|spread| serde_json::from_value(spread).ok());
    Some(Figure { median, spread })
}

fn change(old: Figure, new: Figure, better: Better) -> Change {
    let is_worse = |ratio: f64| (ratio > 1.0) == (better == Better::Less);
    match Verdict::between(old, new) {
        Verdict::Certain(ratio) if is_worse(ratio) => Change::CertainRegression,
        Verdict::Certain(_) => Change::CertainImprovement,
        Verdict::Likely(ratio) if is_worse(ratio) => Change::LikelyRegression,
        Verdict::Likely(_) => Change::LikelyImprovement,
        Verdict::NoDifference => Change::NoDifference,
    }
}

fn show(rows: &[Row]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut table: Option<(&str, Table)> = None;
    for row in rows {
        if table.as_ref().is_none_or(|(experiment, _)| *experiment != row.experiment) {
            blocks.extend(table.take().map(|(_, table)| table.into()));
            let new = Table::new(row.experiment.clone())
                .words("row")
                .words("figure")
                .numbers("old")
                .numbers("new")
                .numbers("ratio")
                .words("verdict");
            table = Some((&row.experiment, new));
        }
        if let Some((_, table)) = &mut table {
            table.row([
                row.row.clone(),
                row.figure.clone(),
                digits(row.old),
                digits(row.new),
                format!("{:.2}", row.ratio),
                row.change.words().to_owned(),
            ]);
        }
    }
    blocks.extend(table.map(|(_, table)| table.into()));
    blocks
}

impl Change {
    fn words(self) -> &'static str {
        match self {
            Self::CertainRegression => "worse, certain",
            Self::LikelyRegression => "worse, likely",
            Self::NoDifference => "no difference",
            Self::LikelyImprovement => "better, likely",
            Self::CertainImprovement => "better, certain",
        }
    }
}

/// Three digits, whatever the size.
fn digits(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(rows: &Value) -> Map<String, Value> {
        let document = json!({"schema": 1, "seed": 1, "machine": {}, "experiments": {"churn": {"rows": rows}}});
        document.as_object().unwrap().clone()
    }

    fn row(engine: &str, live: u32, ns: f64, low: f64, high: f64) -> Value {
        let spread = json!({"rounds": 5, "least": low, "low": low, "high": high});
        json!({"engine": engine, "live": live, "ns_per_pair": ns, "spread": {"ns_per_pair": spread}})
    }

    #[test]
    fn rows_are_found_by_their_parameters_and_judged_by_their_rounds() {
        let old = document(&json!([
            row("wheel", 1000, 20.0, 19.0, 21.0),
            row("wheel", 2000, 20.0, 19.0, 21.0),
            row("heap", 1000, 50.0, 40.0, 60.0),
            row("gone", 1000, 1.0, 1.0, 1.0),
        ]));
        let new = document(&json!([
            row("wheel", 2000, 40.0, 38.0, 42.0),
            row("wheel", 1000, 10.0, 9.0, 11.0),
            row("heap", 1000, 65.0, 55.0, 70.0),
        ]));
        let rows = rows(&old, &new);
        let changes: Vec<_> = rows.iter().map(|row| (row.row.as_str(), row.change)).collect();
        assert_eq!(
            changes,
            [
                ("wheel, live 2000", Change::CertainRegression),
                ("wheel, live 1000", Change::CertainImprovement),
                ("heap, live 1000", Change::LikelyRegression),
            ]
        );
        assert_eq!(rows[0].ratio, 2.0);
    }

    /// More ticks are better; and without rounds nothing is certain.
    #[test]
    fn a_rate_that_falls_is_worse() {
        let with = |rate: u32| document(&json!([{"engine": "wheel", "tick_rate": rate}]));
        let rows = rows(&with(200), &with(100));
        assert_eq!(rows[0].change, Change::LikelyRegression);
        assert_eq!(super::rows(&with(100), &with(200))[0].change, Change::LikelyImprovement);
    }

    #[test]
    fn a_row_that_was_not_valid_is_not_compared() {
        let mut invalid = row("wheel", 1, 10.0, 10.0, 10.0);
        invalid["valid"] = false.into();
        let (old, new) =
            (document(&json!([row("wheel", 1, 5.0, 5.0, 5.0)])), document(&json!([invalid])));
        assert!(rows(&old, &new).is_empty());
    }
}
