package store

import (
	"context"
	"time"
)

// MetricRun is one run of a MetricSet in a namespace. It is not derived from the series and remains when the catalogue
// is dropped. The store does not interpret the field Document.
type MetricRun struct {
	Namespace, Name string // its key
	Site, Set       string
	Outcome         string
	Started         time.Time
	Finished        time.Time // zero while it runs
	Samples         int64     // of all pods; read only
	Document        []byte
}

// MetricRunPod is one pod of a run.
type MetricRunPod struct {
	UID      string
	Samples  int64 // number of the last stored sample
	Document []byte
}

// MetricRunSample is the use between two readings, to the microsecond.
type MetricRunSample struct {
	Pod      string // UID
	Seq      int64
	From, To time.Time
	Document []byte
}

// MetricRunFilter selects runs. Zero fields select everything.
type MetricRunFilter struct {
	Namespaces, Sets, Sites, Names []string
	Since, Until                   time.Time // started at or after Since, before Until
	Limit, Offset                  int       // Limit 0 is unlimited
}

// MetricRuns stores the runs of MetricSets. It is safe for concurrent use.
type MetricRuns interface {
	// PutMetricRun writes a run and its pods, each replacing the stored one, and adds samples, in
	// one transaction. Stored samples are not changed. A stored pod with more samples than the new
	// one is newer and not replaced.
	PutMetricRun(ctx context.Context, r MetricRun, pods []MetricRunPod, samples []MetricRunSample) error
	// MetricRuns returns the runs that the filter selects, the latest start first, and their number without the limit.
	MetricRuns(ctx context.Context, f MetricRunFilter) ([]MetricRun, int, error)
	// MetricRunPods returns the pods of a run, by UID.
	MetricRunPods(ctx context.Context, namespace, name string) ([]MetricRunPod, error)
	// MetricRunSamples returns the samples of a run, by pod and number.
	MetricRunSamples(ctx context.Context, namespace, name string) ([]MetricRunSample, error)
	// TrimMetricRuns removes the runs that started before a time, and returns how many.
	TrimMetricRuns(ctx context.Context, before time.Time) (int, error)
}
