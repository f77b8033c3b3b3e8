// Command reckon-scheduler is kube-scheduler of Kubernetes 1.34 with the plugin ReckonRank. It takes the flags and the configuration of
// kube-scheduler; doc/guides/kubernetes.md has a configuration.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"reckon/kubernetes/scheduler/reckonrank"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(reckonrank.Name, reckonrank.New))))
}
