package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a server keeps beside the series and can make again is noticed where it was changed, cut off or removed, once,
// with its name.
func TestDamagedNotes(t *testing.T) {
	data := t.TempDir()
	_, stop := start(t, data)
	stop()
	files := []string{"access.db.closed", "catalogue.db.closed", "graph.state", "series-bounds.json", "series/blocks.json", "series/logs.json", "series/metadata.json", "agent.state"}
	said := func() string {
		t.Helper()
		_, log, refused := answersOf(t, data, true, time.Now(), answers{})
		if refused != nil {
			t.Fatal(refused)
		}
		return log
	}
	for _, c := range []struct {
		name string
		do   func(path string, raw []byte) error
	}{
		{"a bit", func(path string, raw []byte) error { raw[len(raw)/2] ^= 1; return os.WriteFile(path, raw, 0o600) }},
		{"cut off", func(path string, raw []byte) error { return os.Truncate(path, int64(len(raw)/2)) }},
		{"removed", func(path string, _ []byte) error { return os.Remove(path) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, file := range files {
				raw, err := os.ReadFile(filepath.Join(data, file))
				must(t, err)
				must(t, c.do(filepath.Join(data, file), raw))
			}
			ballast := filepath.Join(data, "series", "ballast")
			must(t, os.Truncate(ballast, 100))
			log := said()
			for _, file := range append(files, "series/ballast") {
				if !strings.Contains(log, file) {
					t.Errorf("%s: nobody is notified:\n%s", file, log)
				}
			}
			if st, err := os.Stat(ballast); err != nil || st.Size() < 1<<20 {
				t.Errorf("the room on the disk: %v, %v", st, err)
			}
			log = said()
			for _, file := range append(files, "series/ballast") {
				if strings.Contains(log, file) {
					t.Errorf("%s: it is not written again:\n%s", file, log)
				}
			}
		})
	}
}
