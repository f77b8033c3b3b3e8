package settings

import (
	"strings"
	"time"

	"reckon/agent"
	"reckon/metric/compat"
	"reckon/sensor/host"
)

// Agent is the stage that measures a node: the options of `reckon-agent`, `reckon up` and their checks.
type Agent struct {
	agent.Config
	Socket string // of `reckon push`: a path, auto or none
}

// Register adds the settings. nodeIP is the address of the node of a pod (status.hostIP of the downward API).
func (o *Agent) Register(s *Set, nodeIP string) {
	f := s.Flags
	f.StringVar(&o.Node, "node", "", "name of this node (default: the host name)")
	f.StringVar(&o.Source, "source", "auto", "where processes are read: auto, ebpf or procfs")
	f.DurationVar(&o.Export, "export", 15*time.Second, "time between two exports; use the scrape interval")
	f.StringVar(&o.Root, "root", "/", "where the file systems of the host are mounted, inside a container")
	f.StringVar(&o.Replay, "replay", "", "play a recording instead of reading this machine")
	k := s.Keys
	k.StringVar(&o.Exits, "exits", "auto", "where ends of processes are read: auto, ebpf, taskstats or none")
	k.DurationVar(&o.Tick, "tick", time.Second, "time between two readings")
	k.StringVar(&o.Redfish, "redfish-config", "", "YAML file that names management controllers to ask for power")
	k.StringVar(&o.Tegrastats, "tegrastats", "", "on a Jetson, a file or named pipe that tegrastats writes to")
	k.StringVar(&o.Guests, "guest-energy", "",
		"folder into which the energy of each virtual machine is written, to be shared with it, such as /run/reckon/guests")
	k.StringVar(&o.HostEnergy, "host-energy", "", "in a virtual machine, the file in which its host does so (default: "+host.Default+")")
	k.StringVar(&o.PowerModel, "power-model", "",
		"file with a power model for a machine without a meter, or none (default: the built-in curve of its kind)")
	k.StringVar((*string)(&o.Idle), "idle-share", "none", "attribution of idle energy: none, request (in proportion to requests) or even")
	k.StringSliceVar(&o.Compat, "compat", nil,
		"show /metrics, and with reckon up keep in the store, also under the names of other programs: "+strings.Join(compat.Names(), ", "))
	k.StringVar(&o.OwnMetrics, "own-metrics", "", "YAML file that names metrics of your own to read, see reckon docs own-metrics")
	k.StringArrayVar(&o.Textfile, "textfile", nil, "folder with *.prom files that scripts write; can be given again")
	k.StringVar(&o.Socket, "push-socket", "auto",
		"where reckon push of this machine sends to: a path, auto (RECKON_SOCKET, else systemd's, else "+
			agent.SystemSocket+" as root) or none")
	k.StringVar(&o.Files, "files", "network",
		"file systems on which opens, stats, reads and writes are counted by workload: network, all or none, see reckon docs network")
	k.BoolVar(&o.Counters, "counters", false, "read the performance counters of the processors for each workload, see reckon docs network")
	o.Kubelet.NodeIP = nodeIP
	k.StringVar(&o.Kubelet.Address, "kubelet", "auto", "kubelet to read pod names from: https://NODE:10250, none, or auto: "+
		"in a pod with a service account the one at NODE_IP, else this machine's")
	k.StringVar(&o.Kubelet.TokenFile, "kubelet-token", "",
		"file with the token for it (default: the service account's); it needs get on nodes/pods")
	k.StringVar(&o.Kubelet.CAFile, "kubelet-ca", "",
		"certificates to trust for it (default: the service account's, and its own on this machine)")
	k.BoolVar(&o.Kubelet.Insecure, "kubelet-insecure", false,
		"take any certificate of it; the token is then shown to whatever listens there")
	k.StringVar(&o.Kubelet.Folder, "kubelet-folder", "/var/lib/kubelet",
		"folder of the kubelet, below --root; its socket reports the devices assigned to pods")
	k.StringSliceVar(&o.Kubelet.Account, "pod-account", []string{"reckon/account"}, "pod labels; the first one a pod has gives its account")
}
