package wire

import (
	"net/url"
	"strconv"
	"time"
)

// MetricRun is one run of a MetricSet: the measurements and a summary of each pod. It belongs to
// its namespace and outlives the MetricSet. Figures are in SI base units.
type MetricRun struct {
	Namespace string            `json:"namespace"`          // Namespace of the run.
	Name      string            `json:"name"`               // Name of the set, and part of its UID.
	Site      string            `json:"site,omitempty"`     // Site that stored it.
	Set       string            `json:"set"`                // Name of the MetricSet, which may be gone.
	SetUID    string            `json:"set_uid,omitempty"`  // UID of the MetricSet.
	Origin    string            `json:"origin,omitempty"`   // operator, or metricset-log for imported logs.
	Metrics   []MetricRunMetric `json:"metrics,omitempty"`  // The metrics as they were run.
	Outcome   string            `json:"outcome"`            // Running, Finished, Failed or Deleted.
	Started   time.Time         `json:"started"`            // Start time.
	Finished  *time.Time        `json:"finished,omitempty"` // End time; null while it runs.
	Samples   int64             `json:"samples"`            // Number of samples kept, of all pods.
	Pods      []MetricRunPod    `json:"pods,omitempty"`     // Pods of the run; absent in lists.
}

// MetricRunMetric is one metric as it was run.
type MetricRunMetric struct {
	Name    string            `json:"name"`              // Name of the metric.
	Job     string            `json:"job"`               // Name of the ReplicatedJob.
	Attach  string            `json:"attach,omitempty"`  // How it was attached: agent, sidecar or ephemeral.
	Options map[string]string `json:"options,omitempty"` // Options of the metric.
}

// MetricRunPod is one pod of a run.
type MetricRunPod struct {
	Name       string            `json:"name"`                 // Name of the pod.
	UID        string            `json:"uid"`                  // UID of the pod.
	Job        string            `json:"job"`                  // ReplicatedJob of the pod.
	Node       string            `json:"node,omitempty"`       // Node of the pod.
	Kernel     string            `json:"kernel,omitempty"`     // Kernel release of the node.
	Images     map[string]string `json:"images,omitempty"`     // Digest of the image of each container.
	Resources  map[string]string `json:"resources,omitempty"`  // Requests and limits, as container/limits/cpu.
	Started    *time.Time        `json:"started,omitempty"`    // Start of the application by the kubelet.
	Finished   *time.Time        `json:"finished,omitempty"`   // End of the application by the kubelet.
	ExitCode   *int32            `json:"exit_code,omitempty"`  // Exit code of the application.
	Samples    int64             `json:"samples"`              // Number of stored samples.
	Probe      *time.Time        `json:"probe,omitempty"`      // Time of the probe's first reading, which is no sample.
	Offset     int64             `json:"offset,omitempty"`     // Number of samples from an earlier probe of the pod.
	Ended      string            `json:"ended,omitempty"`      // Reason for its end: completions, application, stopped or full.
	Incomplete string            `json:"incomplete,omitempty"` // Reason why samples may be missing.
	Absent     map[string]string `json:"absent,omitempty"`     // Figures that could not be read, with the reason.
	Total      ProbeUse          `json:"total,omitzero"`       // Total use of all samples.
	First      *time.Time        `json:"first,omitempty"`      // Start of the first sample.
	Last       *time.Time        `json:"last,omitempty"`       // End of the last sample.
	Commands   []ProbeRow        `json:"commands,omitempty"`   // Total use of the processes of each command.
	Result     *ProbeResult      `json:"result,omitempty"`     // Result of a program that measures by itself.
	Reported   []MetricRunReport `json:"reported,omitempty"`   // Figures that a benchmark reported by itself.
	Text       string            `json:"text,omitempty"`       // Part of an imported log that no parser reads.
	// Whether tables of processes were dropped because there were too many.
	TablesDropped bool `json:"tables_dropped,omitempty"`
}

// MetricRunReport is a figure reported by a benchmark itself, with one value per report.
type MetricRunReport struct {
	Name   string      `json:"name"`            // The benchmark's own name, with the case in front: osu_latency 8 bytes.
	Unit   string      `json:"unit"`            // Unit: seconds, bytes, bytes_per_second, per_second, ratio, flops or count.
	Values []float64   `json:"values"`          // One value per report.
	Times  []time.Time `json:"times,omitempty"` // When the values were taken, if the log includes them.
}

// MetricRunList is a list of runs, the latest first.
type MetricRunList struct {
	Runs  []MetricRun `json:"runs"`  // The runs, the latest first.
	Total int         `json:"total"` // Number of selected runs without limit and offset.
}

// MetricRunFilter selects runs. Zero fields select everything.
type MetricRunFilter struct {
	Namespaces, Names, Sets, Sites []string
	Since, Until                   time.Time // started in this interval
	Limit, Offset                  int
}

// MetricRunUpdate is an update of a stored run. It may be sent repeatedly: samples are stored once,
// and pods that it omits stay unchanged.
type MetricRunUpdate struct {
	// Run has no namespace and name, because they are in the URL. Its pods replace the stored
	// descriptions, but not the sums over samples.
	Run MetricRun `json:"run"`
	// Samples belong to one pod of Run.
	Pod     string        `json:"pod,omitempty"` // its UID
	Samples []ProbeSample `json:"samples,omitempty"`
}

// MetricRunKept is the stored part of an update about a pod.
type MetricRunKept struct {
	Samples int64     `json:"samples"`        // Number of the last sample.
	Offset  int64     `json:"offset"`         // Number of samples from an earlier probe of the pod.
	Start   time.Time `json:"start,omitzero"` // First reading of the probe.
	Last    time.Time `json:"last,omitzero"`  // End of the last sample.
}

// MetricRunSamples are the samples of the pods of a run, in order.
type MetricRunSamples struct {
	Pods []MetricRunSeries `json:"pods"` // Samples by pod.
}

// MetricRunSeries are the samples of one pod.
type MetricRunSeries struct {
	Pod     string        `json:"pod"`     // Name of the pod.
	UID     string        `json:"uid"`     // UID of the pod.
	Job     string        `json:"job"`     // ReplicatedJob of the figure.
	Samples []ProbeSample `json:"samples"` // The samples in order.
}

// MetricRunComparison compares two runs, or two groups of runs.
type MetricRunComparison struct {
	A       []string              `json:"a"`       // Runs that are compared with.
	B       []string              `json:"b"`       // Runs that are compared.
	Level   float64               `json:"level"`   // Joint confidence level of the intervals and verdicts.
	Figures []MetricRunDifference `json:"figures"` // Every figure that both sides have.
	Differs []MetricRunCondition  `json:"differs"` // Conditions that differ: node, kernel, image, resources, options.
	Scope   string                `json:"scope"`   // Limits of the test.
}

// MetricRunDifference compares b with a in one figure.
type MetricRunDifference struct {
	Job    string  `json:"job"`    // ReplicatedJob of the figure.
	Figure string  `json:"figure"` // The figure.
	Unit   string  `json:"unit"`   // Unit of the figure.
	A      float64 `json:"a"`      // Mean of side a.
	B      float64 `json:"b"`      // Mean of side b.
	NA     int     `json:"na"`     // Number of values of side a.
	NB     int     `json:"nb"`     // Number of values of side b.
	// Independent values on the side with fewer.
	Effective  float64  `json:"effective,omitempty"`
	Difference float64  `json:"difference"`      // b - a.
	Ratio      *float64 `json:"ratio,omitempty"` // (b - a) / a; null where a is 0.
	Low        *float64 `json:"low,omitempty"`   // Lower end of the interval of the difference; null without a test.
	High       *float64 `json:"high,omitempty"`  // Upper end of the interval.
	// Probability of such a difference by chance, corrected for the number of figures; null without a test.
	P       *float64 `json:"p,omitempty"`
	Test    string   `json:"test,omitempty"` // Name of the test; absent where none is possible.
	Verdict string   `json:"verdict"`        // differs, noise or untested.
	Why     string   `json:"why,omitempty"`  // Reason why it is untested.
}

// MetricRunCondition is a condition that differs between the two sides.
type MetricRunCondition struct {
	Job  string `json:"job,omitempty"` // ReplicatedJob of the figure.
	What string `json:"what"`          // Node, kernel, image, resource or option.
	A    string `json:"a"`             // Value of side a.
	B    string `json:"b"`             // Value of side b.
}

// Query encodes the filter as URL parameters.
func (f MetricRunFilter) Query() url.Values {
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
