package term

import (
	"io"
	"os"
	"strconv"
	"strings"

	xterm "golang.org/x/term"
)

// Screen is the destination of output.
type Screen struct {
	io.Writer
	// Terminal means that the output is interactive.
	Terminal bool
	// Width is the number of columns, 0 if lines may have any length (a pipe or a file). Height is
	// the number of lines, 0 if unknown.
	Width, Height int
	Color         bool
	// ASCII means that the terminal cannot show other characters.
	ASCII bool
}

// Open returns the properties of the screen that w writes to. They depend on w and on the environment variables
// COLUMNS, LINES, NO_COLOR, CLICOLOR_FORCE, TERM, LC_ALL, LC_CTYPE and LANG.
func Open(w io.Writer, getenv func(string) string) Screen {
	s := Screen{Writer: w}
	if f, ok := w.(*os.File); ok && xterm.IsTerminal(int(f.Fd())) {
		s.Terminal = true
		s.Width, s.Height = 80, 24
		if width, height, err := xterm.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			s.Width, s.Height = width, height
		}
	}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	if n, err := strconv.Atoi(getenv("LINES")); err == nil && n > 0 {
		s.Height = n
	}
	s.Color = s.Terminal && getenv("TERM") != "dumb"
	if force := getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		s.Color = true
	}
	if getenv("NO_COLOR") != "" {
		s.Color = false
	}
	s.ASCII = s.Terminal && !hasUTF8Locale(getenv)
	return s
}

func hasUTF8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true // unset in containers, where terminals nearly always use UTF-8
}

// Style is the appearance of a piece of text; it is never the only carrier of a meaning.
type Style string

// Styles as SGR parameters (ECMA-48). They use the 16 colours that users configure in every
// terminal, so that they are readable on any background.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Quiet  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"

	Reverse Style = "7"
)

// Paint returns text in a style, or unchanged without colours.
func (s Screen) Paint(style Style, text string) string {
	if !s.Color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Level returns the style of a share: quiet below half, then plain, yellow from 80 %, red from 95 %.
func Level(share float64) Style {
	switch {
	case share >= 0.95:
		return Red
	case share >= 0.8:
		return Yellow
	}
	return Plain
}
