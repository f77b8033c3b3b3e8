package alerts

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// Every alert has a case in which it fires and one in which it does not.
func TestEveryAlertIsTested(t *testing.T) {
	groups, errs := rulefmt.Parse(Rules(), false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	raw, err := os.ReadFile("reckon_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Cases []struct {
				Name string `yaml:"alertname"`
				Exp  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			fires[c.Name] = fires[c.Name] || len(c.Exp) > 0
			quiet[c.Name] = quiet[c.Name] || len(c.Exp) == 0
		}
	}
	alerts := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s: fires %t, stays quiet %t in reckon_test.yml", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
			if r.Annotations["runbook"] == "" || !strings.HasPrefix(r.Annotations["page"], "{{ $externalURL }}/") {
				t.Errorf("%s: says %q about what to do and leads to %q", r.Alert, r.Annotations["runbook"], r.Annotations["page"])
			}
			if r.Annotations["summary"] == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
				t.Errorf("%s: has severity %q and summary %q", r.Alert, r.Labels["severity"], r.Annotations["summary"])
			}
		}
	}
	if alerts < 15 {
		t.Errorf("%d alerts", alerts)
	}
	for _, name := range []string{"NodeDown", "AgentSilent", "SensorLost", "DiskFullSoon", "MemoryFullSoon", "ThermalThrottling", "PowerThrottling",
		"GPUErrors", "JobIdleOnGPUs", "PodWaits", "PodRestarts", "OverShare", "BatteryLow", "QueueOfUnsentData", "EnergyBudgetExceeded", "EnergyBudget"} {
		if !fires[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// Prometheus's own tool agrees.
func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not here; apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "reckon.yml"}, {"test", "rules", "reckon_test.yml"}} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// The names of metrics are the reference's.
func TestMetricsExist(t *testing.T) {
	raw, err := os.ReadFile("../../doc/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{
		"reckon_energy_budget_joules":    true, // the site records it
		"reckon_forecast":                true, // a view of the server, in no database
		"reckon_workload_allocated_gpus": true, // of batch systems, as soon as a server writes the page
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9_:]+)`").FindAllStringSubmatch(string(raw), -1) {
		known[m[1]] = true
	}
	// Those of Slurm are on the page as soon as a server that asks Slurm writes it.
	slurm, err := os.ReadFile("../../interop/scheduler/desc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Name: "([a-z0-9_]+)"`).FindAllStringSubmatch(string(slurm), -1) {
		known[m[1]] = true
	}
	groups, errs := rulefmt.Parse(Rules(), false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				known[r.Record] = true
			}
		}
	}
	p := parser.NewParser(parser.Options{})
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			expr, err := p.ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok && !known[v.Name] {
					t.Errorf("%s%s: doc/metrics.md has no %s", r.Alert, r.Record, v.Name)
				}
				return nil
			})
		}
	}
}

// TestExampleOfAlertmanager: operators hear of what the guide lists and of all rules of their own, of nothing else.
func TestExampleOfAlertmanager(t *testing.T) {
	cfg, err := amconfig.LoadFile("alertmanager.yml")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../doc/guides/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sent, _ := strings.Cut(string(guide), "reckon sends notifications for these alerts:\n")
	sent, _, _ = strings.Cut(sent, "\n\n")
	routes := dispatch.NewRoute(cfg.Route, nil)
	to := func(name string) string {
		return routes.Match(model.LabelSet{"alertname": model.LabelValue(name)})[0].RouteOpts.Receiver
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(Rules())+string(Watchdog()), -1) {
		want := "nobody"
		if strings.Contains(sent, "`"+m[1]+"`") {
			want = "operators"
		}
		if got := to(m[1]); got != want {
			t.Errorf("%s goes to %s, and the guide says %s", m[1], got, want)
		}
	}
	for name, want := range map[string]string{"Finding": "nobody", "WeeklyDigest": "nobody", "OutOfMemoryKill": "operators", "LoadHigh": "operators"} {
		if got := to(name); got != want {
			t.Errorf("%s goes to %s, want %s", name, got, want)
		}
	}
}
