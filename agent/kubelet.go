package agent

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"time"

	"reckon/account"
	"reckon/agent/external/scrape"
	"reckon/internal/kubelet"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/netns"
	"reckon/workload"
	"reckon/workload/all"
	"reckon/workload/kubernetes"
)

// Kubelet configures how the agent learns the names of this node's pods.
type Kubelet struct {
	// Address is https://HOST:PORT. "auto" or empty selects the local kubelet if the agent runs in
	// a pod with a service account; "none" disables it.
	Address string
	// TokenFile and CAFile are the service account's if empty; see kubelet.Config.
	TokenFile, CAFile string
	Insecure          bool
	// NodeIP is the address of the node for "auto" if the agent does not share its network.
	NodeIP string
	// Folder is the kubelet's below Root, kubelet.DefaultFolder if empty.
	Folder string
	// Account are labels of pods; the first that a pod has names the account it is charged to.
	Account []string
}

// maxPodListWait is the longest time that the start of the agent waits for the list of pods.
const maxPodListWait = time.Second

// openKubelet starts to query the kubelet. pods is another consumer of the list of pods, or nil.
func (a *Agent) openKubelet(pods *scrape.Pods) error {
	k := a.config.Kubelet
	c := kubelet.Config{Address: k.Address, TokenFile: k.TokenFile, CAFile: k.CAFile, Insecure: k.Insecure, Node: a.config.Node,
		Root: a.config.Root}
	if k.Address == "" || k.Address == "auto" || k.Address == "none" {
		c.Address = ""
		switch {
		case pods != nil:
			c.Address = pods.Kubelet
			c.TokenFile, c.CAFile = cmp.Or(c.TokenFile, pods.TokenFile), cmp.Or(c.CAFile, pods.CAFile)
			c.Insecure = c.Insecure || pods.Insecure
		case k.Address == "none" || !kubelet.InCluster():
			return nil
		case k.NodeIP != "":
			c.Address = "https://" + net.JoinHostPort(k.NodeIP, "10250")
		}
	}
	client, err := kubelet.New(c)
	if err != nil {
		return err
	}
	socket := filepath.Join("/", a.config.Root, cmp.Or(a.config.Kubelet.Folder, kubelet.DefaultFolder), kubelet.DeviceSocket)
	a.pods = kubelet.NewCache(client, kubelet.NewDeviceLister(socket), a.config.Root)
	ctx, cancel := context.WithTimeout(context.Background(), maxPodListWait)
	defer cancel()
	_, _, _ = a.pods.Next(ctx, 0)
	a.kubernetes = kubernetes.New(kubernetes.Options{Pods: a.pods, Account: k.Account})
	a.podNet.reader = netns.New(a.config.Root)
	a.chain = all.Resolvers(all.Options{Kubernetes: a.kubernetes, Root: a.config.Root})
	return nil
}

// observeDevices records whether the devices of pods are known, once a pod requests some.
func (a *Agent) observeDevices() {
	if a.pods == nil {
		return
	}
	err := a.pods.DevicesErr()
	if err == nil && !a.self.devicesFailed {
		return
	}
	a.self.devicesFailed = true
	if err != nil {
		err = sensor.Unavailable(err.Error(),
			"give the agent the socket of the kubelet, and a user who may write to it; the setting kubelet-folder names its folder", err)
	}
	a.recordResult("pod-devices", err)
}

// kubeletSensor reports whether the kubelet answers.
type kubeletSensor struct{ *kubelet.Cache }

// Name implements sensor.Sensor.
func (kubeletSensor) Name() string { return "kubelet" }

// Descs implements sensor.Sensor.
func (kubeletSensor) Descs() []*metric.Desc { return nil }

// Read implements sensor.Sensor.
func (s kubeletSensor) Read(*metric.Batch) error {
	err := s.Err()
	if err == nil {
		return nil
	}
	reason, fix, _ := strings.Cut(err.Error(), "; ")
	return sensor.Unavailable(reason, fix, err)
}

// warnNameless warns once that there are pods but no source for their names, unless the configuration turned the source off.
func (a *Agent) warnNameless(id *workload.Identity) {
	if id.Place == "" || a.kubernetes != nil || a.self.nameless || a.config.Kubelet.Address == "none" {
		return
	}
	a.self.nameless = true
	a.recordResult("kubelet", sensor.Unavailable("pods have no names: no kubelet is configured",
		"name it with the setting kubelet: https://NODE:10250", nil))
}

// addReports adds reports of containers and pods that ended before the agent started to the ledger. The ledger
// exports them until the pod is deleted.
func (a *Agent) addReports() {
	a.eachListed(func(id *workload.Identity, f *workload.ContainerFacts) {
		if f.Ended && f.ID != "" || f.Phase == "Succeeded" || f.Phase == "Failed" {
			a.ledger.Report(id, f.UID+"/"+f.ID, f)
		}
	})
}

// exportWaiting appends the reports of waiting containers without a part that the ledger exports or reports on.
func (a *Agent) exportWaiting(b *metric.Batch) {
	a.eachListed(func(id *workload.Identity, f *workload.ContainerFacts) {
		if f.Waiting != "" && !a.ledger.Reports(id) {
			account.ExportWaiting(id, f, &a.waiting, b)
		}
	})
	a.waiting.Sweep()
}

// exportEnded appends the reports of listed containers and pods that have no account. These have not started yet, or
// have ended but still exist in the API server.
func (a *Agent) exportEnded(b *metric.Batch) {
	a.eachListed(func(id *workload.Identity, f *workload.ContainerFacts) {
		switch {
		case !a.ledger.Reports(id):
			account.ExportListed(id, f, &a.notRunning, b)
		case f.Name != "":
			account.ExportAmounts(id, f, &a.notRunning, b)
		}
	})
	a.notRunning.Sweep()
}

// eachListed calls f for the kubelet's pods and containers without an account in the ledger.
func (a *Agent) eachListed(f func(*workload.Identity, *workload.ContainerFacts)) {
	if a.pods == nil {
		return
	}
	a.kubernetes.Listed(a.pods.List(), func(id *workload.Identity, facts *workload.ContainerFacts) {
		if !a.ledger.Holds(id) {
			f(id, facts)
		}
	})
}

// rename implements account.Config.Rename.
func (a *Agent) rename(place, program string) workload.Identity {
	if a.kubernetes == nil {
		return workload.Identity{Place: place, Naming: workload.Unnamed}
	}
	return a.kubernetes.Rename(place, program)
}

// kubeletGrace is the time for which exports omit new pods while the kubelet does not respond, for example during its
// restart. The first export of such a pod includes its use since its start.
const kubeletGrace = 30 * time.Second

// maxNameWait is the time that an export waits for the kubelet to name a pod that started in this tick. The kubelet
// usually takes milliseconds; without the wait the pod would appear one export later.
const maxNameWait = 250 * time.Millisecond

// awaitNames waits for the names of this tick's pods before an export, if the kubelet may be queried and responds in time.
func (a *Agent) awaitNames(ctx context.Context) {
	if a.pods != nil && a.pods.Await(ctx, maxNameWait) {
		a.ledger.RenameParts()
	}
}

// nameGrace implements account.Config.NameGrace. It does not wait for a kubelet that refuses requests.
func (a *Agent) nameGrace() time.Duration {
	if a.pods == nil {
		return 0
	}
	if err := a.pods.Err(); err == nil || errors.Is(err, kubelet.ErrRefused) {
		return 0
	}
	return kubeletGrace
}

// container implements account.Config.Container.
func (a *Agent) container(place string, ended bool) *workload.ContainerFacts {
	if a.kubernetes == nil {
		return nil
	}
	return a.kubernetes.Container(place, ended)
}
