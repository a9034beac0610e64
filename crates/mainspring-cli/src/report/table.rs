//! Results as a person reads them: titled tables, and text.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table as Grid, presets};
use std::fmt::{self, Display};

/// One piece of what is printed.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Table(Table),
    /// Printed as it is.
    Text(String),
}

/// A table with a title above and notes below.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    title: String,
    columns: Vec<(String, CellAlignment)>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a column of words.
    #[must_use]
    pub(crate) fn words(self, head: impl Into<String>) -> Self {
        self.column(head, CellAlignment::Left)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub(crate) fn numbers(self, head: impl Into<String>) -> Self {
        self.column(head, CellAlignment::Right)
    }

    /// Adds a line. Cells that are missing at its end are empty.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert!(cells.len() <= self.columns.len(), "more cells than columns: {cells:?}");
        self.rows.push(cells);
    }

    /// Adds a line of text below the table.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn heads(&self) -> Vec<&str> {
        self.columns.iter().map(|(head, _)| head.as_str()).collect()
    }

    /// Whether each column is one of numbers.
    pub(crate) fn numbers_right(&self) -> impl Iterator<Item = bool> + '_ {
        self.columns.iter().map(|(_, alignment)| *alignment == CellAlignment::Right)
    }

    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    fn column(mut self, head: impl Into<String>, alignment: CellAlignment) -> Self {
        self.columns.push((head.into(), alignment));
        self
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if self.columns.iter().any(|(head, _)| !head.is_empty()) {
            grid.set_header(self.columns.iter().map(|(head, _)| Cell::new(head)));
        }
        for row in &self.rows {
            grid.add_row(row);
        }
        for (index, (_, alignment)) in self.columns.iter().enumerate() {
            if let Some(column) = grid.column_mut(index) {
                column.set_cell_alignment(*alignment);
            }
        }
        writeln!(f, "{}", self.title)?;
        for line in grid.lines() {
            writeln!(f, " {}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(table) => write!(f, "{table}"),
            Self::Text(text) => writeln!(f, "{}", text.trim_end()),
        }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new("Title").words("name").numbers("ns");
        table.row(["a", "1.5"]);
        table.row(["longer", "100"]);
        table.row(["short"]);
        table.note("a note");
        assert_eq!(
            table.to_string(),
            "Title\n  name     ns\n  a       1.5\n  longer  100\n  short\n  a note\n"
        );
    }

    #[test]
    fn a_table_whose_columns_have_no_heads_has_no_head_line() {
        let mut table = Table::new("Title").words("").words("");
        table.row(["a", "b"]);
        assert_eq!(table.to_string(), "Title\n  a  b\n");
    }
}
