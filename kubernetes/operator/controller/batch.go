package controller

import (
	"encoding/json"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/metricset"
	reckon "reckon/web/client"
)

// Pod is a pod of a run.
type Pod = metricrun.Pod

// Kept is the stored extent of a pod's samples.
type Kept struct {
	// Samples counts the samples of all probes of the pod, Offset the ones before Start.
	Samples, Offset int64
	Start, Last     time.Time
}

// sampleBatch holds samples that were read from a probe and are not stored yet.
type sampleBatch struct {
	start   time.Time // baseline of the probe that they are of
	offset  int64     // samples of earlier probes of the pod
	have    int64     // number of the last that was read, by the probe's count
	kept    int64     // number of the last that is kept
	samples []reckon.ProbeSample
	page    reckon.ProbePage // the latest, without samples
	news    bool             // the page reports something that is not kept
	broken  string
	since   time.Time // time at which the first sample was read
	lastTo  time.Time
}

// addPage adds a page. A restarted probe counts from the beginning.
func (b *sampleBatch) addPage(page reckon.ProbePage, wanted int64) {
	page.Start = page.Start.Truncate(time.Microsecond) // a MetricRun has this precision
	if !page.Start.IsZero() && !b.start.IsZero() && !page.Start.Equal(b.start) {
		b.broken = fmt.Sprintf("the probe was started again at %s: what was used until then since sample %d is missing",
			page.Start.UTC().Format(time.RFC3339), b.offset+b.have)
		b.offset, b.have, b.kept, b.news = b.offset+b.have, 0, 0, true
		b.start = page.Start
		return // Another probe counted the samples of this page: read again from its beginning.
	}
	if !page.Start.IsZero() {
		b.start = page.Start
	}
	for _, s := range page.Samples {
		if s.Seq != b.have+1 {
			if s.Seq <= b.have {
				continue
			}
			b.broken = fmt.Sprintf("samples %d to %d were lost by the probe", b.offset+b.have+1, b.offset+s.Seq-1)
		}
		b.have = s.Seq
		if wanted > 0 && b.offset+s.Seq > wanted {
			continue // the wanted number of samples is complete
		}
		if len(b.samples) == 0 {
			b.since = time.Now()
		}
		s.Seq += b.offset // from here on it counts all of the pod
		b.samples = append(b.samples, s)
		b.lastTo = s.To
	}
	page.Samples = nil
	if page.Ended != b.page.Ended || page.Result != nil && b.page.Result == nil || len(page.Absent) != len(b.page.Absent) {
		b.news = true
	}
	b.page = page
}

// isDue reports whether to store the samples read so far.
func (b *sampleBatch) isDue(flush time.Duration) bool {
	if b.page.Ended {
		return len(b.samples) > 0 || b.news
	}
	return len(b.samples) > 0 && time.Since(b.since) >= flush
}

// waitTime returns the time to wait for the next page.
func (b *sampleBatch) waitTime(flush time.Duration) time.Duration {
	if len(b.samples) == 0 {
		return 10 * time.Second
	}
	return max(min(flush-time.Since(b.since), 10*time.Second), 50*time.Millisecond)
}

// mergeInto adds a batch of samples to the record of its pod. It skips samples that the record already has, so that a batch
// may be merged again.
func (b *sampleBatch) mergeInto(p *Pod) error {
	if !b.start.IsZero() {
		p.Probe = &metav1.MicroTime{Time: b.start}
	}
	p.Offset = b.offset
	var total reckon.ProbeUse
	if err := toUse(p.Total, &total); err != nil {
		return err
	}
	for _, s := range b.samples {
		seq := s.Seq
		if seq <= p.Samples {
			continue
		}
		use, err := toFigures(s.Total)
		if err != nil {
			return err
		}
		if p.Samples == 0 {
			total = s.Total
		} else {
			total = total.Plus(s.Total)
		}
		p.Series = append(p.Series, metricrun.Sample{Seq: seq, From: metav1.MicroTime{Time: s.From}, To: metav1.MicroTime{Time: s.To},
			Use: use})
		p.Samples = seq
		if err := addCommands(p, s.Commands); err != nil {
			return err
		}
		if len(s.Processes)+len(s.Threads) > 0 {
			text, err := json.Marshal(reckon.ProbeSample{Seq: seq, From: s.From, To: s.To, Processes: s.Processes, Threads: s.Threads})
			if err != nil {
				return err
			}
			p.Tables = append(p.Tables, string(text))
		}
	}
	var err error
	if p.Samples > 0 {
		if p.Total, err = toFigures(total); err != nil {
			return err
		}
	}
	if b.page.Kernel != "" {
		p.Kernel = b.page.Kernel
	}
	if b.page.Ended {
		p.Ended = b.page.Reason
	}
	if len(b.page.Absent) > 0 {
		p.Absent = b.page.Absent
	}
	if b.broken != "" {
		p.Incomplete = b.broken
	}
	if b.page.Result != nil {
		text, err := json.Marshal(b.page.Result)
		if err != nil {
			return err
		}
		p.Result = string(text)
	}
	return nil
}

// addCommands adds the use of each command.
func addCommands(p *Pod, rows []reckon.ProbeRow) error {
	for _, row := range rows {
		at := -1
		for i := range p.Commands {
			if p.Commands[i].Command == row.Command {
				at = i
			}
		}
		if at < 0 {
			p.Commands, at = append(p.Commands, metricrun.Command{Command: row.Command}), len(p.Commands)
		}
		sum := row.ProbeUse
		if p.Commands[at].Use != nil {
			var before reckon.ProbeUse
			if err := toUse(p.Commands[at].Use, &before); err != nil {
				return err
			}
			sum = before.Plus(sum)
		}
		use, err := toFigures(sum)
		if err != nil {
			return err
		}
		p.Commands[at].Use = use
	}
	return nil
}

// toFigures returns the known figures of a use.
func toFigures(u reckon.ProbeUse) (out metricrun.Figures, err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

func toUse(f metricrun.Figures, into *reckon.ProbeUse) error {
	text, err := json.Marshal(f)
	if err != nil || f == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// logContainer returns the name of the container that writes the measurement of m to its log. This is a benchmark program
// with its own image. It returns "" for probes and measured applications.
func logContainer(p *core.Pod, m *metricset.Measure) string {
	if m == nil || m.Shape == metricset.Application || m.Image == "" && !m.ImageRequired || len(p.Spec.Containers) == 0 ||
		p.Spec.Containers[0].Name == "workers" {
		return ""
	}
	return p.Spec.Containers[0].Name
}

// newPodRecord returns the record of a pod, with the summary that its probe wrote to the container status. taken is the
// number of samples in that summary.
func newPodRecord(p *core.Pod, job string, port int32) (out Pod, taken int64) {
	out = Pod{Name: p.Name, UID: string(p.UID), Job: job, Node: p.Spec.NodeName, Images: map[string]string{},
		Resources: map[string]string{}}
	if s := probeStatus(p, port); s != nil && s.State.Terminated != nil {
		var page reckon.ProbePage
		if json.Unmarshal([]byte(s.State.Terminated.Message), &page) == nil && page.Ended &&
			(&sampleBatch{page: page}).mergeInto(&out) == nil {
			taken = page.Last
		}
	}
	for _, statuses := range [][]core.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range statuses {
			if s.ImageID != "" {
				out.Images[s.Name] = s.ImageID
			}
		}
	}
	for _, c := range p.Spec.Containers {
		for kind, list := range map[string]core.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests} {
			for name, q := range list {
				out.Resources[c.Name+"/"+kind+"/"+string(name)] = q.String()
			}
		}
	}
	return out, taken
}
