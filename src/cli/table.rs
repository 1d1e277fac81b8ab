//! Aligned columns of text.

/// A table that is printed bit by bit: its columns only grow wider.
#[derive(Default)]
pub(super) struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// Lines of these rows: each cell padded to its column, nothing after the last one.
    pub(super) fn lines(&mut self, rows: &[Vec<String>]) -> String {
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in rows {
            let cells = row.iter().zip(&self.widths).map(|(cell, width)| format!("{cell:<width$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Lines of a whole table.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    Table::default().lines(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 3]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [row(["A", "LONG", "C"]), row(["bbb", "x", ""])];
        assert_eq!(aligned(&rows), "A    LONG  C\nbbb  x\n");
        assert_eq!(aligned(&[]), "");
    }

    #[test]
    fn a_table_in_parts_keeps_its_columns() {
        let mut table = Table::default();
        assert_eq!(table.lines(&[row(["A", "long", "C"])]), "A  long  C\n");
        assert_eq!(table.lines(&[row(["b", "x", "y"])]), "b  x     y\n");
        assert_eq!(table.lines(&[row(["ccc", "x", "y"])]), "ccc  x     y\n");
    }
}
