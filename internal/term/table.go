package term

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is one column of a [Table].
type Column struct {
	Title string
	Right bool // align right, for numbers
	// Shrink is the minimum width of the column on a narrow screen; 0 keeps the column whole.
	Shrink int
	// Wrap continues a narrow cell on the next line, so that reasons are not cut.
	Wrap bool
	// Optional columns are dropped, the highest first, if nothing else makes the table fit. 0 is never dropped.
	Optional int
	// Rare columns are left out if every cell is [Unknown].
	Rare bool
	// Min is the minimum width of the column, so that a table that is redrawn does not jump.
	Min int
}

// Table is rows of text under headings, without lines.
type Table struct {
	columns []Column
	rows    [][]string
}

// NewTable returns an empty table.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Add appends a row, one cell for each column.
func (t *Table) Add(cells ...string) {
	if len(cells) != len(t.columns) {
		panic(fmt.Sprintf("table has %d columns, got %d cells", len(t.columns), len(cells)))
	}
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Safe(c)
	}
	t.rows = append(t.rows, row)
}

// MarkRows replaces the marks of single cells by one mark in the first cell, in rows where most numeric cells have the
// mark. It returns the number of such rows.
func (t *Table) MarkRows(mark string) (n int) {
	for _, row := range t.rows {
		has, lacks := 0, 0
		for _, cell := range row {
			if strings.HasPrefix(cell, mark) {
				has++
			} else if cell != "" && cell[0] >= '0' && cell[0] <= '9' {
				lacks++
			}
		}
		if has < 3 || has < lacks {
			continue
		}
		n++
		for i, cell := range row {
			row[i] = strings.TrimPrefix(cell, mark)
		}
		row[0] = mark + " " + row[0]
	}
	return n
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

const cellGap = 2 // columns between two cells

// Print writes the table to the screen. If it is too wide, Print first drops optional columns, and then truncates
// shrinkable cells with "..." or wraps them. In a pipe, which has no width, it truncates nothing.
func (t *Table) Print(s Screen) error {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = max(textWidth(c.Title), c.Min)
		for _, r := range t.rows {
			widths[i] = max(widths[i], textWidth(r[i]))
		}
	}
	hidden := t.fitColumns(widths, s.Width)
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", cellGap)
	style.Format = table.FormatOptions{}
	w.SetStyle(style)
	var configs []table.ColumnConfig
	header := table.Row{}
	shown := 0
	for i, c := range t.columns {
		if hidden[i] {
			continue
		}
		shown++
		cfg := table.ColumnConfig{Number: shown, WidthMin: widths[i], WidthMax: widths[i],
			WidthMaxEnforcer: func(cell string, width int) string { return Cut(cell, width, s.ASCII) }}
		if c.Wrap {
			cfg.WidthMaxEnforcer = text.WrapSoft
		}
		if c.Right {
			cfg.Align, cfg.AlignHeader = text.AlignRight, text.AlignRight
		}
		configs = append(configs, cfg)
		header = append(header, c.Title)
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(header)
	for _, r := range t.rows {
		row := table.Row{}
		for i, cell := range r {
			if !hidden[i] {
				row = append(row, cell)
			}
		}
		w.AppendRow(row)
	}
	for i, line := range strings.Split(w.Render(), "\n") {
		line = strings.TrimRight(line, " ")
		if i == 0 {
			line = s.Paint(Bold, line)
		}
		if _, err := fmt.Fprintln(s, line); err != nil {
			return err
		}
	}
	return nil
}

// fitColumns narrows columns until the table has at most limit columns (0 for no limit), and returns the dropped columns.
func (t *Table) fitColumns(widths []int, limit int) map[int]bool {
	hidden := map[int]bool{}
	for i, c := range t.columns {
		hidden[i] = c.Rare && !slices.ContainsFunc(t.rows, func(r []string) bool { return r[i] != Unknown })
	}
	if limit <= 0 {
		return hidden
	}
	excess := func(smallest bool) int {
		sum := -cellGap
		for i, w := range widths {
			if hidden[i] {
				continue
			}
			if c := t.columns[i]; smallest && c.Shrink > 0 {
				w = min(w, c.Shrink)
			}
			sum += w + cellGap
		}
		return sum - limit
	}
	for excess(true) > 0 {
		last := -1
		for i, c := range t.columns {
			if c.Optional > 0 && !hidden[i] && (last < 0 || c.Optional >= t.columns[last].Optional) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		hidden[last] = true
	}
	for over := excess(false); over > 0; over = excess(false) {
		widest := -1
		for i, c := range t.columns {
			if c.Shrink > 0 && !hidden[i] && widths[i] > c.Shrink && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return hidden
}

func textWidth(s string) int { return text.StringWidthWithoutEscSequences(s) }

// Width returns the number of columns that text takes on a screen.
func Width(s string) int { return textWidth(s) }

// Strip removes colours.
func Strip(s string) string { return text.StripEscape(s) }

// Cut shortens text to width columns, with an ellipsis in place of the removed part.
func Cut(s string, width int, ascii bool) string {
	if textWidth(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	mark := "…"
	if ascii {
		mark = "~"
	}
	if width == 1 {
		return mark
	}
	return text.Trim(s, width-1) + mark
}

// Pad pads text with spaces to width columns, on the left if right is set, and truncates longer text.
func Pad(s string, width int, right, ascii bool) string {
	s = Cut(s, width, ascii)
	fill := strings.Repeat(" ", max(width-textWidth(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}

// TableOf returns an empty table with the columns of [Columns].
func TableOf(heads string) *Table { return NewTable(Columns(heads)...) }

// Columns parses the columns of a table from a string such as "NAME:s8|WALL:r|ENERGY:ro3". Titles are separated by "|".
// A title may be followed by ":" and attributes: r for Right, s and a number for Shrink, w for Wrap, o and a number for
// Optional, x for Rare. Columns panics on an unknown attribute, because that is a programming error.
func Columns(heads string) (out []Column) {
	for head := range strings.SplitSeq(heads, "|") {
		title, attributes, _ := strings.Cut(head, ":")
		c := Column{Title: title}
		for attributes != "" {
			kind, rest := attributes[0], strings.TrimLeft(attributes[1:], "0123456789")
			n, _ := strconv.Atoi(attributes[1 : len(attributes)-len(rest)])
			switch kind {
			case 'r':
				c.Right = true
			case 's':
				c.Shrink = n
			case 'o':
				c.Optional = n
			case 'w':
				c.Wrap = true
			case 'x':
				c.Rare = true
			default:
				panic("no attribute of a column: " + attributes)
			}
			attributes = rest
		}
		out = append(out, c)
	}
	return out
}
