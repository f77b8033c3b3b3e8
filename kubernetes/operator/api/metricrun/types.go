// Package metricrun holds the type of MetricRun (metrics.reckon/v1alpha1): what came of one MetricSet, kept
// in its namespace when the set is gone. An object holds at most [MaxBytes]; where more was measured,
// neighbouring samples are joined and tables are left out, and the totals stay what they are. Units are
// those of the fields of client.ProbeUse: seconds, bytes, counts.
//
// +kubebuilder:object:generate=true
// +groupName=metrics.reckon
// +versionName=v1alpha1
package metricrun

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MaxBytes bounds one object as JSON.
const MaxBytes = 256 << 10

// GroupVersion is of this type.
var GroupVersion = schema.GroupVersion{Group: "metrics.reckon", Version: "v1alpha1"}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MetricRun{}, &MetricRunList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// MetricRun is one run of a MetricSet.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Set",type=string,JSONPath=`.run.set`
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.run.outcome`
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.run.started`
type MetricRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Run Run `json:"run"`
}

// MetricRunList is a list of them.
//
// +kubebuilder:object:root=true
type MetricRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MetricRun `json:"items"`
}

// Run reports what was measured where, and what came of it.
type Run struct {
	// Set and SetUID are of the MetricSet.
	Set     string   `json:"set"`
	SetUID  string   `json:"setUID"`
	Metrics []Metric `json:"metrics,omitempty"`
	// Outcome is Running, Finished, Failed or Deleted.
	Outcome  string       `json:"outcome"`
	Started  metav1.Time  `json:"started"`
	Finished *metav1.Time `json:"finished,omitempty"`
	Pods     []Pod        `json:"pods,omitempty"`
	// Joined is the number of neighbouring samples that one row of a series may stand for, where there were more
	// than fit.
	Joined int32 `json:"joined,omitempty"`
	// TablesLeftOut means that tables of processes did not fit.
	TablesLeftOut bool `json:"tablesLeftOut,omitempty"`
}

// Metric is one metric as it was run.
type Metric struct {
	Name    string            `json:"name"`
	Job     string            `json:"job"`
	Attach  string            `json:"attach,omitempty"`
	Options map[string]string `json:"options,omitempty"`
}

// Pod is one pod of a run.
type Pod struct {
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Job       string            `json:"job"`
	Node      string            `json:"node,omitempty"`
	Kernel    string            `json:"kernel,omitempty"`
	Images    map[string]string `json:"images,omitempty"`    // container: digest
	Resources map[string]string `json:"resources,omitempty"` // container/limits/cpu: quantity
	Started   *metav1.Time      `json:"started,omitempty"`
	Finished  *metav1.Time      `json:"finished,omitempty"`
	ExitCode  *int32            `json:"exitCode,omitempty"`
	Samples   int64             `json:"samples,omitempty"`
	// Probe is the baseline of its probe, and Offset how many samples an earlier probe of the pod had taken.
	Probe      *metav1.MicroTime `json:"probe,omitempty"`
	Offset     int64             `json:"offset,omitempty"`
	Ended      string            `json:"ended,omitempty"` // why the measurement ended
	Absent     map[string]string `json:"absent,omitempty"`
	Incomplete string            `json:"incomplete,omitempty"` // why samples may be missing
	// Total is the sum of all samples.
	Total Figures `json:"total,omitempty"`
	// Series are the samples, one entry each.
	Series []Sample `json:"series,omitempty"`
	// Commands is the use of each command in all.
	Commands []Command `json:"commands,omitempty"`
	// Tables are the rows of processes and threads of each sample, as JSON of client.ProbeSample.
	Tables []string `json:"tables,omitempty"`
	// Result is of a program that measures by itself, as JSON of client.ProbeResult.
	Result string `json:"result,omitempty"`
	// Log is the end of the log of a metric that is a program in an image of its own: `reckon import metricset-log` reads it.
	Log string `json:"log,omitempty"`
}

// Sample is the use between two readings; joined samples have the first's From and the last's To.
type Sample struct {
	Seq  int64            `json:"seq"` // of the last
	From metav1.MicroTime `json:"from"`
	To   metav1.MicroTime `json:"to"`
	Use  Figures          `json:"use"`
}

// Command is the use of the processes of a command.
type Command struct {
	Command string  `json:"command"`
	Use     Figures `json:"use"`
}
