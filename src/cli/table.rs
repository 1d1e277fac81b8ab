//! Aligned columns of text, or blocks of lines where columns do not fit.

use std::mem;

use super::{
    style::{columns, wrapped},
    terminal::Screen,
};

/// A table that is printed bit by bit: its columns only grow wider.
pub(super) struct Table {
    head: Vec<String>,
    widths: Vec<usize>,
    screen: Screen,
    begun: bool,
    /// Whether each cell has a line of its own: the first rows decide for all.
    blocks: bool,
}

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N], screen: Screen) -> Self {
        let head = head.map(str::to_owned).to_vec();
        let widths = head.iter().map(|name| columns(name)).collect();
        Self { head, widths, screen, begun: false, blocks: false }
    }

    /// Lines of these rows, below the head where they are the first.
    pub(super) fn lines(&mut self, rows: &[Vec<String>]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = columns(cell).max(*width);
            }
        }
        let first = !mem::replace(&mut self.begun, true);
        if first {
            let width = self.widths.iter().sum::<usize>() + 2 * (self.widths.len() - 1);
            self.blocks = self.screen.columns.is_some_and(|columns| columns < width);
        }
        if self.blocks {
            let blocks = rows.iter().map(|row| self.block(row)).collect::<Vec<_>>().join("\n");
            return if first { blocks } else { format!("\n{blocks}") };
        }
        let head = first.then(|| self.screen.style.strong(&self.line(&self.head)) + "\n");
        let lines = rows.iter().map(|row| self.line(row) + "\n");
        head.into_iter().chain(lines).collect()
    }

    /// Each cell padded to its column, nothing after the last one.
    fn line(&self, row: &[String]) -> String {
        let cells = row.iter().zip(&self.widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }

    /// Each cell behind its column's name.
    fn block(&self, row: &[String]) -> String {
        let width = self.head.iter().map(|name| columns(name)).max().unwrap_or(0);
        let cells = self.head.iter().zip(row).map(|(name, cell)| {
            let gap = " ".repeat(width - columns(name) + 2);
            format!("{}{gap}{cell}", self.screen.style.strong(name)).trim_end().to_owned() + "\n"
        });
        cells.collect()
    }
}

/// Names in a column of this width, and beside each what it is.
pub(super) fn pairs(rows: &[(&str, String)], width: usize, screen: Screen) -> String {
    let pair = |(name, text): &(&str, String)| {
        let mut text = format!("{:width$}{text}\n", "");
        if screen.columns.is_some() {
            text = wrapped(&text, screen.prose(), 0);
        }
        format!("{name:<width$}{}", &text[width..])
    };
    rows.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::style::Style;

    const HEAD: [&str; 3] = ["A", "LONG", "C"];

    fn row(cells: [&str; 3]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    fn wide(columns: usize) -> Screen {
        Screen { columns: Some(columns), ..Screen::PIPE }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [row(["bbb", "x", ""])];
        assert_eq!(Table::new(HEAD, Screen::PIPE).lines(&rows), "A    LONG  C\nbbb  x\n");
        assert_eq!(Table::new(HEAD, Screen::PIPE).lines(&[]), "A  LONG  C\n");
    }

    #[test]
    fn a_table_in_parts_keeps_its_columns() {
        let mut table = Table::new(HEAD, wide(12));
        assert_eq!(table.lines(&[row(["b", "longer", "C"])]), "A  LONG    C\nb  longer  C\n");
        assert_eq!(table.lines(&[row(["b", "x", "y"])]), "b  x       y\n");
        assert_eq!(table.lines(&[row(["ccc", "x", "y"])]), "ccc  x       y\n", "and its shape");
    }

    #[test]
    fn what_is_wider_than_the_terminal_is_set_in_blocks() {
        let rows = [row(["bb", "x", "yy"]), row(["b", "x", "y"])];
        let columns = "A   LONG  C\nbb  x     yy\nb   x     y\n";
        assert_eq!(Table::new(HEAD, wide(12)).lines(&rows), columns);
        assert_eq!(Table::new(HEAD, Screen::PIPE).lines(&rows), columns);
        let mut narrow = Table::new(HEAD, wide(11));
        let blocks = "A     bb\nLONG  x\nC     yy\n\nA     b\nLONG  x\nC     y\n";
        assert_eq!(narrow.lines(&rows), blocks);
        assert_eq!(narrow.lines(&[row(["c", "", "z"])]), "\nA     c\nLONG\nC     z\n");
        let style = Style::Coloured;
        let bold = Table::new(HEAD, Screen { style, ..wide(11) }).lines(&rows);
        assert!(bold.starts_with("\x1b[1mA\x1b[0m     bb\n\x1b[1mLONG\x1b[0m  x\n"), "{bold}");
    }

    #[test]
    fn names_stand_before_what_they_mean() {
        let words = "eight words that are broken where they end".to_owned();
        let rows = [("a", words), ("", "more".to_owned()), ("long", "x".to_owned())];
        let narrow =
            "a     eight words that are broken where\n      they end\n      more\nlong  x\n";
        assert_eq!(pairs(&rows, 6, wide(40)), narrow);
        assert_eq!(pairs(&rows, 6, Screen::PIPE).lines().count(), 3);
    }
}
