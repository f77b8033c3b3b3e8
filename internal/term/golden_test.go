package term

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// hill is an hour of a figure that rises and falls, with a gap.
func hill() []Point {
	points := make([]Point, 120)
	for i := range points {
		points[i].Time = time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC).Add(time.Duration(i) * 30 * time.Second)
		if i < 70 || i > 80 {
			v := 3 + 3*math.Sin(float64(i)/20)
			points[i].Value = &v
		}
	}
	return points
}

// Charts, bars and sparks match the files of testdata, in several sizes and screen
// styles.
func TestGolden(t *testing.T) {
	limit, share := 8.0, 0.42
	for _, size := range [][3]int{{40, 10, 2}, {80, 24, 7}, {200, 60, 12}} {
		for _, look := range []Screen{{}, {ASCII: true}, {Color: true}} {
			look.Width, look.Height = size[0], size[1]
			name := "blocks"
			switch {
			case look.ASCII:
				name = "ascii"
			case look.Color:
				name = "colour"
			}
			var values []*float64
			for _, p := range hill() {
				values = append(values, p.Value)
			}
			got := look.Draw(Chart{Title: "Cores over time", Points: hill(), Format: Cores, Limit: &limit, Width: size[0], Height: size[2]}) +
				look.Spark(values, size[0]-10) + "\n[" + look.Bar(&share, size[0]/4) + "]\n[" + look.Bar(nil, size[0]/4) + "]\n" +
				look.Fold("Cores       mean 3.2   p50 3.2   p95 4.8   max 6.4   and a figure of so many words that it is wider than a line by itself on small screens", 12) + "\n"
			for _, l := range strings.Split(got, "\n") {
				if Width(l) > size[0] {
					t.Errorf("%d columns in %d: %q", Width(l), size[0], l)
				}
			}
			if look.Color { // as in a file for readers
				got = strings.ReplaceAll(got, "\x1b", "ESC")
			}
			file := filepath.Join("testdata", fmt.Sprintf("%dx%d-%s.golden", size[0], size[1], name))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s (-update writes it):\n%s", file, got)
			}
		}
	}
}

func FuzzFold(f *testing.F) {
	f.Add("Owner       alice   account ml", 12, 20)
	f.Add("\x1b[1mbold words here\x1b[0m   x", 3, 8)
	f.Fuzz(func(t *testing.T, line string, indent, width int) {
		width, indent = 4+(width&0xff), indent&0x1f
		line = Safe(line)
		got := Screen{Width: width}.Fold(line, indent)
		if a, b := strings.Join(strings.Fields(got), ""), strings.Join(strings.Fields(line), ""); a != b {
			t.Errorf("%q became %q", line, got)
		}
		for _, l := range strings.Split(got, "\n") {
			words := strings.Fields(l)
			if Width(l) > width && len(words) > 1 && !strings.Contains(l, "  ") {
				t.Errorf("%d columns in %d: %q", Width(l), width, l)
			}
		}
	})
}
