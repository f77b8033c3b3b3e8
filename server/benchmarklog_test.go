package server

import (
	"os"
	"testing"
)

// TestBenchmarkLog: figures of a published log of fio; text of no known kind stays as it is.
func TestBenchmarkLog(t *testing.T) {
	text, err := os.ReadFile("../interop/metricsetlog/testdata/io-fio.log")
	if err != nil {
		t.Fatal(err)
	}
	figures, _, _ := benchmarkLog(string(text))
	found := false
	for _, f := range figures {
		found = found || f.Name == "test read bw_bytes" && f.Unit == "bytes_per_second" && f.Values[0] == 696630235
	}
	if !found {
		t.Errorf("%d figures, and not the one that was read by eye", len(figures))
	}
	for _, other := range []string{"hello\n", "METADATA START {\"metricName\":\"app-custom\"}\nMETADATA END\nhello\n"} {
		if figures, rest, note := benchmarkLog(other); len(figures) > 0 || rest != other || note != "" {
			t.Errorf("%q: %v %q %q", other, figures, rest, note)
		}
	}
}
