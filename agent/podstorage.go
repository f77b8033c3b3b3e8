package agent

import (
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/podstorage"
	"reckon/workload"
)

var (
	podVolumeLabels = []string{"workload", "kind", "part", "owner", "volume", "plugin"}
	podVolumeUsed   = metric.NewDesc("reckon_pod_volume_used_bytes", metric.Gauge, metric.Bytes, podVolumeLabels,
		"Used bytes of a pod's volume: of its file system, or of the files of an emptyDir. The volume has the name of the kubelet's "+
			"folder; a claim has the name of its PersistentVolume.")
	podVolumeCapacity = metric.NewDesc("reckon_pod_volume_capacity_bytes", metric.Gauge, metric.Bytes, podVolumeLabels,
		"Size of the file system of a volume of a pod, where it has one of its own.")
	containerStorage = metric.NewDesc("reckon_container_storage_bytes", metric.Gauge, metric.Bytes,
		[]string{"workload", "kind", "part", "owner", "type"},
		"Disk space of a container outside of volumes, by type: writable_layer (files that it wrote) and logs. The kubelet counts "+
			"both, and emptyDir volumes, as ephemeral storage.")
)

// podStorage is a sensor of the pods' storage on this node.
type podStorage struct {
	*podstorage.Reader
	agent   *Agent
	volumes metric.Cache
	layers  metric.Cache
}

// Name implements sensor.Sensor.
func (s *podStorage) Name() string { return "pod-storage" }

// Descs implements sensor.Sensor; they are among the agent's.
func (s *podStorage) Descs() []*metric.Desc { return nil }

// Read implements sensor.Sensor.
func (s *podStorage) Read(b *metric.Batch) error {
	var pods []podstorage.Pod // the reader keeps the ones of before
	at := map[string]int{}
	s.agent.ledger.Containers(func(run string, id workload.ID, part, owner string, f *workload.ContainerFacts, pid int32) {
		i, ok := at[run]
		if !ok {
			i = len(pods)
			at[run] = i
			pods = append(pods, podstorage.Pod{UID: run, Namespace: f.Namespace, Name: f.Pod})
			s.exportVolumes(run, id, workload.PartOfPod(id, part), owner, b)
		}
		pods[i].Containers = append(pods[i].Containers, podstorage.Container{Name: f.Name, PID: pid, ID: f.ID})
		s.exportContainer(run, f.Name, id, part, owner, b)
	})
	s.volumes.Sweep()
	s.layers.Sweep()
	s.Set(pods)
	if err := s.Err(); err != nil {
		return sensor.Unavailable(err.Error(), "what could be measured is there", err)
	}
	return nil
}

func (s *podStorage) exportVolumes(run string, id workload.ID, part, owner string, b *metric.Batch) {
	for _, a := range s.Amounts(run) {
		if a.Kind != podstorage.Volume {
			continue
		}
		labels := []string{string(id), string(id.Kind()), part, owner, a.Name, a.Plugin}
		b.Add(s.volumes.Get(podVolumeUsed, labels...), float64(a.Used))
		if a.Capacity > 0 {
			b.Add(s.volumes.Get(podVolumeCapacity, labels...), float64(a.Capacity))
		}
	}
}

func (s *podStorage) exportContainer(run, name string, id workload.ID, part, owner string, b *metric.Batch) {
	for _, a := range s.Amounts(run) {
		if a.Name != name || a.Kind == podstorage.Volume {
			continue
		}
		of := "writable_layer"
		if a.Kind == podstorage.Logs {
			of = "logs"
		}
		b.Add(s.layers.Get(containerStorage, string(id), string(id.Kind()), part, owner, of), float64(a.Used))
	}
}
