package main

import (
	"github.com/spf13/pflag"

	"reckon/agent"
)

// kubeletFlags adds the flags for looking up the names of the pods of this node.
func kubeletFlags(f *pflag.FlagSet, k *agent.Kubelet, getenv func(string) string) {
	k.NodeIP = getenv("NODE_IP") // set through the downward API: status.hostIP
	f.StringVar(&k.Address, "kubelet", "auto", "kubelet that knows the names of pods: https://NODE:10250, none, or auto: in a pod with a service account that of NODE_IP, else of this machine")
	f.StringVar(&k.TokenFile, "kubelet-token", "", "file with the token for it (default: that of the service account); it needs get on nodes/pods")
	f.StringVar(&k.CAFile, "kubelet-ca", "", "certificates to trust for it (default: that of the service account, and its own on this machine)")
	f.BoolVar(&k.Insecure, "kubelet-insecure", false, "take any certificate of it; the token is then shown to whatever listens there")
	f.StringVar(&k.Folder, "kubelet-folder", "/var/lib/kubelet", "folder of the kubelet, below --root; its socket tells which devices were given to pods")
	f.StringSliceVar(&k.Account, "pod-account", []string{"reckon/account"}, "labels of pods, of which the first that a pod has names its account")
}
