package metricsetlog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// parseFio parses the JSON document of fio (https://fio.readthedocs.io/en/latest/fio_doc.html#json-output). All numbers of its jobs are
// kept.
func parseFio(lines []string, f *figures) []string {
	text := strings.Join(lines, "\n")
	i := strings.IndexByte(text, '{')
	if i < 0 {
		return []string{"fio wrote no JSON"}
	}
	var doc map[string]any
	if err := json.NewDecoder(strings.NewReader(text[i:])).Decode(&doc); err != nil {
		return []string{"the JSON of fio cannot be parsed: " + err.Error()}
	}
	if ms, ok := doc["timestamp_ms"].(float64); ok {
		f.when = time.UnixMilli(int64(ms)).UTC()
	}
	jobs, _ := doc["jobs"].([]any)
	for _, j := range jobs {
		job := asObject(j)
		name, _ := job["jobname"].(string)
		walkNumbers(job, name, func(path string, v float64) {
			unit, scale := fioUnit(path)
			f.addValue(path, unit, v*scale)
		})
	}
	disks, _ := doc["disk_util"].([]any)
	for _, d := range disks {
		name, _ := asObject(d)["name"].(string)
		walkNumbers(asObject(d), "disk "+name, func(path string, v float64) { f.addValue(path, "count", v) })
	}
	return nil
}

// walkNumbers calls f for each number below a node, with its path.
func walkNumbers(node map[string]any, path string, f func(path string, v float64)) {
	for _, name := range slices.Sorted(maps.Keys(node)) {
		next := strings.TrimSpace(path + " " + name)
		switch v := node[name].(type) {
		case float64:
			f(next, v)
		case map[string]any:
			walkNumbers(v, next, f)
		}
	}
}

// fioUnit returns the unit of a figure of fio, and the conversion factor.
func fioUnit(path string) (string, float64) {
	last := path[strings.LastIndexByte(path, ' ')+1:]
	switch {
	case strings.Contains(path, "_ns ") && last != "N":
		return "seconds", 1e-9
	case last == "bw" || strings.HasPrefix(last, "bw_m") || last == "bw_dev":
		return "bytes_per_second", 1024
	case last == "bw_bytes":
		return "bytes_per_second", 1
	case last == "bw_agg" || strings.HasSuffix(last, "_cpu"):
		return "ratio", 0.01
	case last == "io_bytes":
		return "bytes", 1
	case last == "io_kbytes":
		return "bytes", 1024
	case last == "iops" || strings.HasPrefix(last, "iops_m") || last == "iops_stddev":
		return "per_second", 1
	case last == "runtime" || last == "job_runtime":
		return "seconds", 1e-3
	case last == "elapsed" || last == "eta":
		return "seconds", 1
	}
	return "count", 1
}

// parseIostat parses `iostat -dxm -o JSON` (https://github.com/sysstat/sysstat).
func parseIostat(lines []string, f *figures) (bad []string) {
	var doc struct {
		Sysstat struct {
			Hosts []struct {
				Statistics []struct {
					Disk []map[string]any `json:"disk"`
				} `json:"statistics"`
			} `json:"hosts"`
		} `json:"sysstat"`
	}
	text := strings.Join(lines, "\n")
	i := strings.IndexByte(text, '{')
	if i < 0 {
		return []string{"iostat wrote no JSON"}
	}
	if err := json.NewDecoder(strings.NewReader(text[i:])).Decode(&doc); err != nil {
		return []string{"the JSON of iostat cannot be parsed: " + err.Error()}
	}
	for _, h := range doc.Sysstat.Hosts {
		for _, s := range h.Statistics {
			for _, d := range s.Disk {
				device, _ := d["disk_device"].(string)
				walkNumbers(d, device, func(path string, v float64) {
					unit, scale := iostatUnit(path)
					f.addValue(path, unit, v*scale)
				})
			}
		}
	}
	return nil
}

func iostatUnit(path string) (string, float64) {
	last := path[strings.LastIndexByte(path, ' ')+1:]
	switch {
	case strings.HasSuffix(last, "MB/s"):
		return "bytes_per_second", 1 << 20
	case strings.HasSuffix(last, "kB/s"):
		return "bytes_per_second", 1 << 10
	case strings.HasSuffix(last, "/s"):
		return "per_second", 1
	case strings.HasSuffix(last, "await"), last == "svctm":
		return "seconds", 1e-3
	case strings.HasSuffix(last, "areq-sz"):
		return "bytes", 1 << 10
	case last == "util", strings.HasSuffix(last, "rqm"):
		return "ratio", 0.01
	}
	return "count", 1
}

// parsePidstat parses titles, each followed by a line of JSON, as written by `pidstat -h | jc --pidstat`.
func parsePidstat(lines []string, f *figures) (bad []string) {
	title := ""
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "{") {
			title = line
			continue
		}
		var rows []map[string]any
		if err := json.Unmarshal([]byte(line), &rows); err != nil {
			bad = append(bad, fmt.Sprintf("the JSON of %s cannot be parsed: %v", title, err))
			continue
		}
		for _, row := range rows {
			command, _ := row["command"].(string)
			id := ""
			for _, name := range []string{"pid", "tid", "tgid"} {
				if v, ok := row[name].(float64); ok {
					id = strings.TrimSpace(fmt.Sprintf("%s %s %.0f", id, name, v))
				}
			}
			prefix := strings.Join(strings.Fields(strings.ToLower(title)+" "+command+" "+id), " ")
			for _, name := range slices.Sorted(maps.Keys(row)) {
				v, ok := row[name].(float64)
				if text, word := row[name].(string); word { // jc leaves some numbers as text
					v, ok = parseNumber(text)
				}
				if !ok || slices.Contains([]string{"time", "uid", "pid", "tid", "tgid"}, name) {
					continue
				}
				unit, scale := pidstatUnit(name)
				f.addValue(prefix+" "+name, unit, v*scale)
			}
		}
	}
	return bad
}

func pidstatUnit(name string) (string, float64) {
	switch {
	case strings.HasPrefix(name, "percent_"):
		return "ratio", 0.01
	case strings.HasPrefix(name, "kb_"):
		return "bytes_per_second", 1 << 10
	case strings.HasSuffix(name, "-ms"):
		return "seconds", 1e-3
	case strings.HasSuffix(name, "_s"):
		return "per_second", 1
	case name == "vsz" || name == "rss" || strings.HasPrefix(name, "stk"):
		return "bytes", 1 << 10
	}
	return "count", 1
}
