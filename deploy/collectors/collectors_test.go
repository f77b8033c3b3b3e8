// Package collectors holds that the configurations for collectors of others are what those collectors take.
package collectors

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/grafana/alloy/syntax/ast"
	"github.com/grafana/alloy/syntax/parser"
	"github.com/grafana/alloy/syntax/printer"
)

// TestAlloy parses the file with Alloy's own syntax package, holds it formatted as Alloy formats it, and that every
// component it refers to is there.
func TestAlloy(t *testing.T) {
	text, err := os.ReadFile("config.alloy")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile("config.alloy", text)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range file.Body {
		block, ok := s.(*ast.BlockStmt)
		if !ok {
			t.Fatalf("%T is no component", s)
		}
		have[strings.Join(block.Name, ".")+"."+block.Label] = true
	}
	if !have["prometheus.scrape.reckon"] || !have["prometheus.remote_write.reckon"] || len(have) != 2 {
		t.Errorf("components %v", have)
	}
	var out strings.Builder
	if err := printer.Fprint(&out, file); err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(out.String()) != strings.TrimSpace(string(text)) {
		t.Errorf("Alloy writes it otherwise:\n%s", out.String())
	}
}

// TestPrometheusAgent has promtool check the file as one of agent mode.
func TestPrometheusAgent(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not here; apt-get install prometheus")
	}
	if out, err := exec.CommandContext(t.Context(), tool, "check", "config", "--agent", "prometheus-agent.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
