package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MetricRun is one run of a MetricSet: the measurements and a summary of each pod. It belongs to
// its namespace, and outlives the MetricSet. Figures are in SI base units.
type MetricRun struct {
	// Namespace and Name are its key: the name includes the UID of its set.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Site      string `json:"site,omitempty"`
	Set       string `json:"set"`
	SetUID    string `json:"set_uid,omitempty"`
	// Origin is operator, or metricset-log for imported runs.
	Origin  string            `json:"origin,omitempty"`
	Metrics []MetricRunMetric `json:"metrics,omitempty"`
	// Outcome is Running, Finished, Failed or Deleted.
	Outcome  string     `json:"outcome"`
	Started  time.Time  `json:"started"`
	Finished *time.Time `json:"finished,omitempty"`
	// Samples is the sum over all pods.
	Samples int64 `json:"samples"`
	// Pods are omitted in lists.
	Pods []MetricRunPod `json:"pods,omitempty"`
}

// MetricRunMetric is one metric as it was run.
type MetricRunMetric struct {
	Name    string            `json:"name"`
	Job     string            `json:"job"`
	Attach  string            `json:"attach,omitempty"` // agent, sidecar or ephemeral
	Options map[string]string `json:"options,omitempty"`
}

// MetricRunPod is one pod of a run.
type MetricRunPod struct {
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Job       string            `json:"job"`
	Node      string            `json:"node,omitempty"`
	Kernel    string            `json:"kernel,omitempty"`
	Images    map[string]string `json:"images,omitempty"`    // container: digest
	Resources map[string]string `json:"resources,omitempty"` // container/limits/cpu: quantity
	Started   *time.Time        `json:"started,omitempty"`
	Finished  *time.Time        `json:"finished,omitempty"`
	ExitCode  *int32            `json:"exit_code,omitempty"`
	Samples   int64             `json:"samples"`
	// Probe is the baseline of its probe, and Offset the number of samples taken by earlier probes of the pod.
	Probe  *time.Time `json:"probe,omitempty"`
	Offset int64      `json:"offset,omitempty"`
	// Ended is why the measurement ended, Incomplete why samples may be missing, Absent which figures could not be read.
	Ended      string            `json:"ended,omitempty"`
	Incomplete string            `json:"incomplete,omitempty"`
	Absent     map[string]string `json:"absent,omitempty"`
	// Total is the sum of all samples, First and Last the ends of the time they cover.
	Total    ProbeUse          `json:"total,omitzero"`
	First    *time.Time        `json:"first,omitempty"`
	Last     *time.Time        `json:"last,omitempty"`
	Commands []ProbeRow        `json:"commands,omitempty"` // total use per command
	Result   *ProbeResult      `json:"result,omitempty"`
	Reported []MetricRunReport `json:"reported,omitempty"`
	Text     string            `json:"text,omitempty"` // unparsed text of an imported log
	// TablesDropped is true if process tables were left out because there were too many.
	TablesDropped bool `json:"tables_dropped,omitempty"`
}

// MetricRunReport is a figure reported by a benchmark itself, with one value per report.
type MetricRunReport struct {
	// Name is the benchmark's own name, with the case in front: "osu_latency 8 bytes".
	Name string `json:"name"`
	// Unit is seconds, bytes, bytes_per_second, per_second, ratio, flops or count.
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	// Times are when the values were taken, if the log includes them.
	Times []time.Time `json:"times,omitempty"`
}

// MetricRunList is a list of runs, the latest first.
type MetricRunList struct {
	Runs  []MetricRun `json:"runs"`
	Total int         `json:"total"` // without limit
}

// MetricRunFilter selects runs. Zero fields select everything.
type MetricRunFilter struct {
	Namespaces, Names, Sets, Sites []string
	Since, Until                   time.Time // started in this interval
	Limit, Offset                  int
}

// MetricRunUpdate is an update of a stored run. It may be sent repeatedly: samples are not stored
// twice, and pods that it does not include stay unchanged.
type MetricRunUpdate struct {
	// Run has no namespace and name: they are in the URL. Its pods replace the stored descriptions, but
	// not the sums over samples.
	Run MetricRun `json:"run"`
	// Samples belong to one pod of Run.
	Pod     string        `json:"pod,omitempty"` // its UID
	Samples []ProbeSample `json:"samples,omitempty"`
}

// MetricRunKept is what a server has stored of the pod of an update.
type MetricRunKept struct {
	Samples int64     `json:"samples"`
	Offset  int64     `json:"offset"`
	Start   time.Time `json:"start,omitzero"` // baseline of its probe
	Last    time.Time `json:"last,omitzero"`  // end of the last sample
}

// MetricRunSamples are the samples of the pods of a run, in order.
type MetricRunSamples struct {
	Pods []MetricRunSeries `json:"pods"`
}

// MetricRunSeries are the samples of one pod.
type MetricRunSeries struct {
	Pod     string        `json:"pod"`
	UID     string        `json:"uid"`
	Job     string        `json:"job"`
	Samples []ProbeSample `json:"samples"`
}

// MetricRunComparison compares two runs, or two groups of runs.
type MetricRunComparison struct {
	A []string `json:"a"`
	B []string `json:"b"`
	// Level is the joint confidence level of the intervals and verdicts.
	Level   float64               `json:"level"`
	Figures []MetricRunDifference `json:"figures"`
	// Differs lists differing conditions: node, kernel, image, resources, options.
	Differs []MetricRunCondition `json:"differs"`
	// Scope describes what the test cannot detect.
	Scope string `json:"scope"`
}

// MetricRunDifference compares B with A in one figure.
type MetricRunDifference struct {
	Job    string `json:"job"`
	Figure string `json:"figure"`
	Unit   string `json:"unit"`
	// A and B are means; NA and NB the number of values, and Effective the equivalent number of independent values
	// on the side with fewer.
	A         float64 `json:"a"`
	B         float64 `json:"b"`
	NA        int     `json:"na"`
	NB        int     `json:"nb"`
	Effective float64 `json:"effective,omitempty"`
	// Difference is B - A, Ratio (B - A) / A. Low and High bound the interval of the difference.
	Difference float64  `json:"difference"`
	Ratio      *float64 `json:"ratio,omitempty"`
	Low        *float64 `json:"low,omitempty"`
	High       *float64 `json:"high,omitempty"`
	P          *float64 `json:"p,omitempty"` // corrected for the number of figures
	// Test is the name of the test; empty if there are too few values.
	Test string `json:"test,omitempty"`
	// Verdict is differs, noise, or untested with the reason in Why.
	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"`
}

// MetricRunCondition is a condition that differs between the two sides.
type MetricRunCondition struct {
	Job  string `json:"job,omitempty"`
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

const runsPath = "/api/reckon/v1/runs"

func (f MetricRunFilter) query() url.Values {
	q := url.Values{}
	for name, list := range map[string][]string{"namespace": f.Namespaces, "name": f.Names, "set": f.Sets, "site": f.Sites} {
		if len(list) > 0 {
			q[name] = list
		}
	}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, n := range map[string]int{"limit": f.Limit, "offset": f.Offset} {
		if n > 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	return q
}

func runPath(namespace, name, rest string) string {
	return runsPath + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name) + rest
}

// MetricRuns lists runs of MetricSets.
func (c *Client) MetricRuns(ctx context.Context, f MetricRunFilter) (list MetricRunList, err error) {
	return list, c.get(ctx, runsPath, f.query(), &list)
}

// MetricRun returns a run with its pods.
func (c *Client) MetricRun(ctx context.Context, namespace, name string) (r MetricRun, err error) {
	return r, c.get(ctx, runPath(namespace, name, ""), nil, &r)
}

// MetricRunSamples returns the samples of a run.
func (c *Client) MetricRunSamples(ctx context.Context, namespace, name string) (s MetricRunSamples, err error) {
	return s, c.get(ctx, runPath(namespace, name, "/samples"), nil, &s)
}

// CompareMetricRuns compares runs, each written NAMESPACE/NAME.
func (c *Client) CompareMetricRuns(ctx context.Context, a, b []string) (out MetricRunComparison, err error) {
	return out, c.get(ctx, "/api/reckon/v1/compare/runs", url.Values{"a": a, "b": b}, &out)
}

// KeepMetricRun sends an update of a run.
func (c *Client) KeepMetricRun(ctx context.Context, namespace, name string, u MetricRunUpdate) (kept MetricRunKept, err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return kept, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+runPath(namespace, name, "/keep"), bytes.NewReader(text))
	if err != nil {
		return kept, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return kept, c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return kept, err
	}
	if resp.StatusCode != http.StatusOK {
		return kept, c.refused(resp, body)
	}
	return kept, json.Unmarshal(body, &kept)
}
