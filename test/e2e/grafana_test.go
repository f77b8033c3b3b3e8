//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reckon/deploy/dashboards"
)

// grafanas are the places of types in @grafana/schema, which moved from version to version.
var grafanas = map[string]struct{ index, dashboard, common, panel string }{
	"10": {"dist/index.d.ts", "dist/esm/raw/dashboard/x/dashboard_types.gen.d.ts", "dist/esm/common/common.gen.d.ts", "dist/esm/raw/composable/%s/panelcfg/x/%sPanelCfg_types.gen.d.ts"},
	"11": {"dist/cjs/index.d.cts", "dist/esm/raw/dashboard/x/dashboard_types.gen.d.ts", "dist/esm/common/common.gen.d.ts", "dist/esm/raw/composable/%s/panelcfg/x/%sPanelCfg_types.gen.d.ts"},
	"12": {"dist/types/index.d.ts", "dist/types/raw/dashboard/x/types.gen.d.ts", "dist/types/common/common.gen.d.ts", "dist/types/raw/composable/%s/panelcfg/x/types.gen.d.ts"},
	"13": {"dist/types/index.d.ts", "dist/types/raw/dashboard/x/types.gen.d.ts", "dist/types/common/common.gen.d.ts", "dist/types/raw/composable/%s/panelcfg/x/types.gen.d.ts"},
}

// TestGrafanaKnows holds every field and every value of our dashboards against the types
// that Grafana publishes of four major versions, since a Grafana that runs is not at hand.
func TestGrafanaKnows(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed; script/setup installs it")
	}
	dir := t.TempDir()
	for _, f := range []string{"package.json", "package-lock.json", "types.ts"} {
		raw, err := os.ReadFile(filepath.Join("../../deploy/dashboards/schema", f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("Grafana's types cannot be had: %v\n%s", err, out[max(0, len(out)-600):])
	}
	files, err := filepath.Glob("../../deploy/dashboards/reckon-*.json")
	if err != nil || len(files) != len(dashboards.List()) {
		t.Fatalf("%v %v", files, err)
	}
	var text strings.Builder
	text.WriteString("import type { Dashboard } from './types';\n")
	for i, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "export const d%d: Dashboard = %s;\n", i, raw)
	}
	ours := text.String()
	for version, at := range grafanas {
		compile := func(text string) (out string, ok bool) {
			t.Helper()
			base := "./node_modules/grafana-" + version + "/"
			paths := map[string][]string{
				"@grafana/schema": {base + at.index}, "grafana/dashboard": {base + at.dashboard}, "grafana/common": {base + at.common},
				"grafana/query": {"./node_modules/grafana-10/dist/esm/raw/composable/prometheus/dataquery/x/PrometheusDataQuery_types.gen.d.ts"},
			}
			for name, title := range map[string]string{"timeseries": "TimeSeries", "stat": "Stat", "table": "Table", "bargauge": "BarGauge"} {
				file := fmt.Sprintf(at.panel, name, title)
				if strings.Count(at.panel, "%s") == 1 {
					file = fmt.Sprintf(at.panel, name)
				}
				paths["grafana/"+name] = []string{base + file}
			}
			conf, err := json.Marshal(map[string]any{"files": []string{"check.ts"}, "compilerOptions": map[string]any{
				"strict": true, "noEmit": true, "module": "preserve", "moduleResolution": "bundler", "target": "es2022", "lib": []string{"es2022"},
				"types": []string{}, "skipLibCheck": true, "paths": paths,
			}})
			if err != nil {
				t.Fatal(err)
			}
			for name, raw := range map[string][]byte{"tsconfig.json": conf, "check.ts": []byte(text)} {
				if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tsc := exec.Command(filepath.Join(dir, "node_modules/.bin/tsc"), "-p", ".")
			tsc.Dir = dir
			raw, err := tsc.CombinedOutput()
			return string(raw[:min(len(raw), 3000)]), err == nil
		}
		if out, ok := compile(ours); !ok {
			t.Errorf("Grafana %s does not know:\n%s", version, out)
		}
		if version != "13" && testing.Short() {
			continue
		}
		// What is wrong is found, at every depth: else the types would show nothing.
		for right, wrong := range map[string]string{
			`"colorMode": "none"`: `"colorMode": "noen"`, `"lineWidth"`: `"lineWidht"`, `"legendFormat"`: `"legend"`, `"gridPos"`: `"gridpos"`,
			`"schemaVersion": 39`: `"schemaVersion": "39"`, `"placement": "bottom"`: `"placement": "under"`, `"refresh": 2,`: `"refresh": 7,`, `"calcs"`: `"calc"`,
		} {
			bad := strings.Replace(ours, right, wrong, 1)
			if bad == ours {
				t.Errorf("no dashboard has %s any more; look for another", right)
			} else if _, ok := compile(bad); ok {
				t.Errorf("%s is let through as of Grafana %s", wrong, version)
			}
		}
	}
}
