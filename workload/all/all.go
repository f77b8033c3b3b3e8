// Package all lists the resolvers in the order in which they are queried. To add one, add a line.
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
	"reckon/workload/vm"
)

// Options are the inputs of resolvers from other parts of the program.
type Options struct {
	// Kubernetes recognises pods; nil for one that knows no names.
	Kubernetes *kubernetes.Resolver
	// Root is the root of the file tree with the definitions of virtual machines; "" or "/" for this machine.
	Root string
}

// Chain returns the resolvers without options.
func Chain() workload.Chain { return Resolvers(Options{}) }

// Resolvers returns the resolvers in order of precedence. Batch systems come first, because slurmd may run in a
// container and the groups of PBS look like a service. Kubernetes precedes containers, because pods consist of them.
// Both precede systemd, because their engines are units. Virtual machines follow containers, which may hold one, and
// precede other parents. Sessions precede their process groups. Resolvers have caches, so a chain is not safe for
// concurrent use.
func Resolvers(o Options) workload.Chain {
	if o.Kubernetes == nil {
		o.Kubernetes = kubernetes.New(kubernetes.Options{})
	}
	return workload.Chain{
		slurm.New(),
		batch.New(),
		o.Kubernetes,
		container.New(),
		vm.New(o.Root),
		systemd.New(),
		session.New(),
		process.New(),
	}
}
