package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"reckon/agent/external/custom"
	"reckon/agent/external/scrape"
	"reckon/agent/external/textfile"
)

// externalConfig is the configuration file for external figures:
//
//	textfile:
//	  - dir: /var/lib/reckon/textfile
//	scrape:
//	  - url: http://127.0.0.1:9100/metrics
//	custom:
//	  - name: rig_pressure_pascals
//	    file: /run/rig/state.json
//	    json: chambers.0.pressure
//
// The fields have the names of textfile.Folder, scrape.Target and custom.Reading. Unknown fields are
// errors.
type externalConfig struct {
	// MaxSeries limits the series added to one workload, 200 by default.
	MaxSeries int               `yaml:"max_series_per_workload"`
	Textfile  []textfile.Folder `yaml:"textfile"`
	Scrape    []scrape.Target   `yaml:"scrape"`
	Pods      *scrape.Pods      `yaml:"pods"`
	Custom    []custom.Reading  `yaml:"custom"`
}

// hasInput reports whether the configuration has an input for a sensor.
func (c *externalConfig) hasInput(sensor string) bool {
	switch sensor {
	case "textfile", "scrape", "custom":
		return true
	}
	return false
}

// readOwnConfig reads the configuration.
func readOwnConfig(c *Config) (*externalConfig, error) {
	own := &externalConfig{}
	if c.OwnMetrics != "" {
		raw, err := os.ReadFile(c.OwnMetrics)
		if err != nil {
			return nil, fmt.Errorf("own-metrics: %w", err)
		}
		d := yaml.NewDecoder(bytes.NewReader(raw))
		d.KnownFields(true)
		if err := d.Decode(own); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("own-metrics %s: %s", c.OwnMetrics, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(own.Textfile)+len(own.Scrape)+len(own.Custom) == 0 && own.Pods == nil {
			return nil, fmt.Errorf("own-metrics %s names nothing under textfile, scrape, pods or custom", c.OwnMetrics)
		}
		if own.MaxSeries < 0 {
			return nil, fmt.Errorf("own-metrics %s: max_series_per_workload %d is below 0", c.OwnMetrics, own.MaxSeries)
		}
	}
	for _, dir := range c.Textfile {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("textfile: %w", err)
		}
		own.Textfile = append(own.Textfile, textfile.Folder{Dir: dir})
	}
	return own, nil
}
