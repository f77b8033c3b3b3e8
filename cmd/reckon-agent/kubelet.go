package main

import (
	"os"

	"github.com/spf13/pflag"

	"reckon/agent"
)

// kubeletFlags adds the flags for looking up the names of the pods of this node.
func kubeletFlags(f *pflag.FlagSet, k *agent.Kubelet) {
	k.NodeIP = os.Getenv("NODE_IP") // set through the downward API: status.hostIP
	f.StringVar(&k.Address, "kubelet", "auto", "kubelet to read pod names from: https://NODE:10250, none, or auto: in a pod with a service account that of NODE_IP, else of this machine")
	f.StringVar(&k.TokenFile, "kubelet-token", "", "file with the token for it (default: that of the service account); it needs get on nodes/pods")
	f.StringVar(&k.CAFile, "kubelet-ca", "", "certificates to trust for it (default: that of the service account, and its own on this machine)")
	f.BoolVar(&k.Insecure, "kubelet-insecure", false, "take any certificate of it; the token is then shown to whatever listens there")
	f.StringVar(&k.Folder, "kubelet-folder", "/var/lib/kubelet", "folder of the kubelet, below --root; its socket reports the devices assigned to pods")
	f.StringSliceVar(&k.Account, "pod-account", []string{"reckon/account"}, "pod labels; the first one a pod has gives its account")
}
