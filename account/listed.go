package account

import (
	"reckon/metric"
	"reckon/workload"
)

// listedSamples appends samples of containers and pods that the supervisor lists and that have no account.
type listedSamples struct {
	id     *workload.Identity
	series *metric.Cache
	b      *metric.Batch
}

func (l *listedSamples) addValue(d *metric.Desc, v float64, values ...string) {
	labels := append(make([]string, 0, 16), string(l.id.Workload), string(l.id.Workload.Kind()), l.id.Part, l.id.Owner)
	l.b.Add(l.series.Get(d, append(labels, values...)...), v)
}

func (l *listedSamples) addNames(f *workload.ContainerFacts) {
	l.addValue(containerInfo, 1, f.Namespace, f.Pod, f.UID, f.Name, f.Type, f.Image, f.ID, f.QoS)
}

func (l *listedSamples) addEnds(f *workload.ContainerFacts) {
	l.addValue(containerRestarts, float64(f.Restarts))
	if f.Ended {
		l.addValue(containerExit, float64(f.ExitCode), f.Reason)
	}
	if f.BeforeReason != "" {
		l.addValue(containerExitBefore, float64(f.BeforeExitCode), f.BeforeReason)
	}
}

// ExportWaiting appends the report of a container that waits in back-off after a crash, or for its image. Such a
// container has no process and thus no account.
func ExportWaiting(id *workload.Identity, f *workload.ContainerFacts, series *metric.Cache, b *metric.Batch) {
	l := &listedSamples{id, series, b}
	l.addNames(f)
	l.addValue(containerWaiting, 1, f.Waiting)
	l.addEnds(f)
}

// ExportListed appends the remaining reported facts of a container or pod without an account. f.Type is "sandbox" for a
// pod. It serves consumers that want a series for everything that the kubelet lists.
func ExportListed(id *workload.Identity, f *workload.ContainerFacts, series *metric.Cache, b *metric.Batch) {
	l := &listedSamples{id, series, b}
	if f.Type == sandbox {
		l.addNames(f)
		labels := podInfoLabels(f)
		l.addValue(podInfo, 1, labels[:]...)
		if isKnownStatus(f.PodReady) {
			l.addValue(podReady, boolValue(f.PodReady == "True"))
		}
		if f.Phase != "" {
			l.addValue(podPhase, 1, f.Phase)
		}
		if f.Created != 0 {
			l.addValue(podCreated, float64(f.Created))
		}
		return
	}
	if f.Waiting == "" { // otherwise see ExportWaiting
		l.addNames(f)
		l.addEnds(f)
	}
	l.addValue(containerRunning, boolValue(f.Running))
	l.addValue(containerReady, boolValue(f.Ready))
	ExportAmounts(id, f, series, b)
}

// ExportAmounts appends the requests and limits of a container without an account.
func ExportAmounts(id *workload.Identity, f *workload.ContainerFacts, series *metric.Cache, b *metric.Batch) {
	l := &listedSamples{id, series, b}
	for _, x := range [...]struct {
		desc *metric.Desc
		v    float64
	}{
		{containerRequestCores, f.Request.Cores}, {containerRequestMemory, f.Request.MemoryBytes},
		{containerLimitCores, f.Limit.Cores}, {containerLimitMemory, f.Limit.MemoryBytes},
	} {
		if x.v > 0 {
			l.addValue(x.desc, x.v)
		}
	}
}
