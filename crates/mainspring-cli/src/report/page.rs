//! A run as a page: one file of HTML that needs nothing else, or Markdown for a repository.

use std::fmt::Write as _;

use anyhow::Result;

use super::plot::{Picture, escaped};
use super::table::{Block, Table};

/// All that a run has to show.
#[derive(Debug)]
pub(crate) struct Page {
    /// Machine, commit, seed.
    pub(crate) origin: String,
    pub(crate) sections: Vec<Section>,
}

/// One experiment.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// How it was measured.
    pub(crate) how: &'static str,
    pub(crate) plots: Vec<Picture>,
    pub(crate) blocks: Vec<Block>,
}

impl Page {
    pub(crate) fn to_html(&self) -> Result<String> {
        let mut page = String::from(HEAD);
        writeln!(page, "<h1>mainspring bench</h1>\n<pre>{}</pre>", escaped(&self.origin))?;
        page.push_str("<nav>");
        for section in &self.sections {
            write!(page, "<a href=\"#{0}\">{0}</a> ", section.name)?;
        }
        page.push_str("</nav>\n");
        for section in &self.sections {
            let Section { name, title, how, plots, blocks } = section;
            writeln!(page, "<section id=\"{name}\">\n<h2>{name}: {}</h2>", escaped(title))?;
            writeln!(page, "<p>{}</p>", escaped(how))?;
            for plot in plots {
                let svg = plot.to_svg()?;
                let title = escaped(plot.title());
                writeln!(
                    page,
                    "<figure><figcaption>{title}</figcaption><div class=\"wide\">{svg}</div></figure>"
                )?;
            }
            for block in blocks {
                match block {
                    Block::Table(table) => html_table(&mut page, table)?,
                    Block::Text(text) => writeln!(page, "<pre>{}</pre>", escaped(text))?,
                }
            }
            page.push_str("</section>\n");
        }
        page.push_str("</main>\n</body>\n</html>\n");
        Ok(page)
    }

    pub(crate) fn to_markdown(&self) -> Result<String> {
        let mut page = String::new();
        writeln!(page, "# mainspring bench\n\n```text\n{}\n```", self.origin.trim_end())?;
        for section in &self.sections {
            writeln!(page, "\n## {}: {}\n\n{}", section.name, section.title, section.how)?;
            for block in &section.blocks {
                match block {
                    Block::Table(table) => markdown_table(&mut page, table)?,
                    Block::Text(text) => writeln!(page, "\n```text\n{}\n```", text.trim_end())?,
                }
            }
        }
        Ok(page)
    }
}

fn html_table(page: &mut String, table: &Table) -> Result<()> {
    // What is too long to be read is there to be opened.
    let is_long = table.rows().len() > LONG;
    let title = escaped(table.title());
    if is_long {
        writeln!(page, "<details><summary>{title}</summary>")?;
    } else {
        writeln!(page, "<h3>{title}</h3>")?;
    }
    page.push_str("<div class=\"wide\"><table>\n");
    let cells = |page: &mut String, tag: &str, cells: &[&str]| -> Result<()> {
        page.push_str("<tr>");
        for (cell, is_number) in cells.iter().zip(table.numbers_right()) {
            let class = if is_number { " class=\"n\"" } else { "" };
            write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell))?;
        }
        page.push_str("</tr>\n");
        Ok(())
    };
    if table.heads().iter().any(|head| !head.is_empty()) {
        cells(page, "th", &table.heads())?;
    }
    for row in table.rows() {
        cells(page, "td", &row.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    page.push_str("</table></div>\n");
    if is_long {
        page.push_str("</details>\n");
    }
    if !table.notes().is_empty() {
        writeln!(page, "<p class=\"notes\">{}</p>", escaped(&table.notes().join(" ")))?;
    }
    Ok(())
}

fn markdown_table(page: &mut String, table: &Table) -> Result<()> {
    let row = |cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let heads = table.heads();
    writeln!(page, "\n**{}**\n\n{}", table.title(), row(&heads))?;
    let rules: Vec<&str> =
        table.numbers_right().map(|is_number| if is_number { "--:" } else { "---" }).collect();
    writeln!(page, "{}", row(&rules))?;
    for cells in table.rows() {
        let mut cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        cells.resize(heads.len(), "");
        writeln!(page, "{}", row(&cells))?;
    }
    for note in table.notes() {
        writeln!(page, "\n{note}")?;
    }
    Ok(())
}

/// Rows of a table that stand open.
const LONG: usize = 32;

/// Readable at any width, light or dark as the reader likes it; what is wider than the screen scrolls by itself.
const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>mainspring bench</title>
<style>
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #ffffff; --soft: #5b6168; --line: #d8dce1; --band: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --paper: #14171a; --soft: #a2a9b1; --line: #33393f; --band: #1b1f23; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0.5rem 0; } h2 { margin: 2.5rem 0 0.5rem; } h3 { margin: 1.5rem 0 0.3rem; font-size: 1rem; }
pre { color: var(--soft); white-space: pre-wrap; font-size: 0.85rem; }
nav a { margin-right: 0.6rem; } a { color: inherit; }
.wide { overflow-x: auto; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; }
svg { display: block; width: 100%; min-width: 36rem; height: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: 0.15rem 0.6rem; text-align: left; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); } .n { text-align: right; }
tr:nth-child(even) td { background: var(--band); }
summary { margin: 1rem 0 0.3rem; font-weight: 600; cursor: pointer; }
.notes { color: var(--soft); font-size: 0.85rem; }
</style>
</head>
<body>
<main>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut table = Table::new("A <table>").words("name").numbers("ns");
        table.row(["a|b & c", "1.5"]);
        table.row(["short"]);
        table.note("a note");
        Page {
            origin: "machine, commit\nseed".to_owned(),
            sections: vec![Section {
                name: "churn",
                title: "moving timers",
                how: "As it was measured.",
                plots: Vec::new(),
                blocks: vec![table.into(), Block::Text("text <as> it is".to_owned())],
            }],
        }
    }

    #[test]
    fn a_page_needs_nothing_from_anywhere_and_says_what_is_written() {
        let html = page().to_html().unwrap();
        assert!(!html.contains("http"), "no address, and so no request");
        assert!(html.contains("<h3>A &lt;table&gt;</h3>"));
        assert!(html.contains("<tr><td>a|b &amp; c</td><td class=\"n\">1.5</td></tr>"));
        assert!(html.contains("text &lt;as&gt; it is"));
        assert!(html.contains("<a href=\"#churn\">churn</a>"));
        let long = (0..=LONG).fold(Table::new("Long").words("n"), |mut table, n| {
            table.row([n.to_string()]);
            table
        });
        let mut folded = String::new();
        html_table(&mut folded, &long).unwrap();
        assert!(folded.starts_with("<details><summary>Long</summary>"), "{folded}");
        assert!(folded.trim_end().ends_with("</details>"));
        for tag in ["table", "section", "main", "body", "html", "div", "p", "pre"] {
            let opened = html.matches(&format!("<{tag}>")).count()
                + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn markdown_keeps_its_columns() {
        let text = page().to_markdown().unwrap();
        assert!(
            text.contains("| name | ns |\n| --- | --: |\n| a\\|b & c | 1.5 |\n| short |  |\n"),
            "{text}"
        );
        assert!(text.contains("## churn: moving timers\n\nAs it was measured.\n"));
    }
}
