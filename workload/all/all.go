// Package all lists the resolvers in the order in which they are asked. To add one, add
// a line.
package all

import (
	"reckon/workload"
	"reckon/workload/batch"
	"reckon/workload/container"
	"reckon/workload/kubernetes"
	"reckon/workload/process"
	"reckon/workload/session"
	"reckon/workload/slurm"
	"reckon/workload/systemd"
)

// Options are what resolvers take from other parts of the program.
type Options struct {
	// Kubernetes recognises pods; nil for one that knows no names.
	Kubernetes *kubernetes.Resolver
}

// Chain returns the resolvers without options.
func Chain() workload.Chain { return With(Options{}) }

// With returns the resolvers. Batch systems come first, since slurmd may run in a container
// and the groups of PBS look like a service;
// Kubernetes before containers, since pods are made of them; both before systemd, since
// their engines run as units; a session before the process groups in it. Resolvers
// remember what they learnt, so each chain is used from one goroutine.
func With(o Options) workload.Chain {
	if o.Kubernetes == nil {
		o.Kubernetes = kubernetes.New(kubernetes.Options{})
	}
	return workload.Chain{
		slurm.New(),
		batch.New(),
		o.Kubernetes,
		container.New(),
		systemd.New(),
		session.New(),
		process.New(),
	}
}
