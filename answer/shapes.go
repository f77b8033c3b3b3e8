package answer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"reckon/analysis/move"
	"reckon/internal/hostlist"
)

// fileShape is a partition in a file of shapes, and the names of its nodes where the file lists them. See doc/guides/usage.md.
type fileShape struct {
	move.Shape
	names []string
}

// ReadShapes parses a file that describes partitions beyond the batch system's report, and clusters without an agent.
// Amounts are per node. Unknown keys are errors.
func ReadShapes(text []byte) (out []fileShape, err error) {
	var f struct {
		Clusters []struct {
			Name       string
			Partitions []struct {
				Name        string
				Nodes       yaml.Node
				Cores, GPUs *float64
				Memory      string
				GPUVendor   string   `yaml:"gpu_vendor"`
				GPUMemory   string   `yaml:"gpu_memory"`
				MaxTime     string   `yaml:"max_time"`
				MaxNodes    *float64 `yaml:"max_nodes"`
				FastNetwork *bool    `yaml:"fast_network"`
				Who         []string
				Wait        *struct {
					Hours  float64
					Source string
				}
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("shapes: %w", err)
	}
	seen := map[string]bool{}
	for _, c := range f.Clusters {
		for i := range c.Partitions {
			p := &c.Partitions[i]
			s := fileShape{
				Shape: move.Shape{Site: c.Name, Partition: p.Name, Cores: p.Cores, GPUs: p.GPUs, Vendor: strings.ToLower(p.GPUVendor),
					MaxNodes: p.MaxNodes, FastNetwork: p.FastNetwork, Who: p.Who}}
			if p.Wait != nil {
				s.FileWait = &move.Wait{Seconds: p.Wait.Hours * 3600, Source: p.Wait.Source}
			}
			var errs [4]error
			s.Nodes, s.names, errs[0] = parseNodes(&p.Nodes)
			s.Memory, errs[1] = parseFigure(p.Memory, parseBytes)
			s.GPUMemory, errs[2] = parseFigure(p.GPUMemory, parseBytes)
			s.MaxTime, errs[3] = parseFigure(p.MaxTime, parseSeconds)
			if err := errors.Join(errs[:]...); err != nil {
				return nil, fmt.Errorf("shapes: partition %s of %s: %w", p.Name, c.Name, err)
			}
			if k := c.Name + "\x00" + p.Name; c.Name == "" || p.Name == "" || seen[k] {
				return nil, fmt.Errorf("shapes: partition %q of cluster %q: each has a name, once", p.Name, c.Name)
			} else {
				seen[k] = true
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// parseFigure parses a figure; nil if there is none.
func parseFigure(text string, parse func(string) (float64, error)) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	v, err := parse(text)
	if err != nil || !(v > 0) {
		return nil, fmt.Errorf("%q is neither an amount of memory such as 256G nor a time such as 7d, 36h or 7-00:00:00", text)
	}
	return &v, nil
}

// parseNodes parses a number of nodes, or a list of node names in Slurm's notation.
func parseNodes(y *yaml.Node) (n float64, names []string, err error) {
	if y.Decode(&n) == nil || y.IsZero() {
		return n, nil, nil
	}
	lists := []string{y.Value}
	if y.Kind != yaml.ScalarNode {
		if err := y.Decode(&lists); err != nil {
			return 0, nil, err
		}
	}
	for _, l := range lists {
		more, err := hostlist.Expand(l)
		if err != nil {
			return 0, nil, err
		}
		names = append(names, more...)
	}
	return float64(len(names)), names, nil
}

// parseBytes parses an amount of memory with K, M, G or T (powers of 1024). A number without a unit below ten million is
// in GiB. A larger one is in bytes, because no node has that many GiB.
func parseBytes(text string) (float64, error) {
	s := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
	at := strings.IndexByte("KMGT", s[max(len(s)-1, 0)])
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimRight(s, "KMGT")), 64)
	if at < 0 && v < 1e7 {
		at = 2
	}
	for range at + 1 {
		v *= 1024
	}
	return v, err
}

// parseSeconds parses 7d, 36h, 90m, Slurm's 7-00:00:00, or a number of hours.
func parseSeconds(s string) (float64, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return v * 3600, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		v, err := strconv.ParseFloat(days, 64)
		return v * 86400, err
	}
	days, clock, slurm := strings.Cut(s, "-")
	if !slurm {
		days, clock = "0", s
	}
	if !strings.Contains(clock, ":") {
		d, err := time.ParseDuration(s)
		return d.Seconds(), err
	}
	sum, err := strconv.ParseFloat(days, 64)
	sum *= 86400
	for i, p := range strings.SplitN(clock, ":", 3) {
		x, bad := strconv.ParseFloat(p, 64)
		sum, err = sum+x*[]float64{3600, 60, 1}[i], errors.Join(err, bad)
	}
	return sum, err
}
