package workload

import (
	"slices"
	"strings"
)

// Kind is the first word of a workload's id. Code outside this folder must use the methods of Kind instead of comparing
// names. To add a kind, add a constant, a row in the table below, a resolver in a new folder, and a line in
// workload/all.
type Kind string

// Kinds of workloads. The kind of a pod with a controller is the kind of the controller in lower case. It may also be
// one that is not listed here, such as statefulset, daemonset or cronjob.
const (
	Slurm      Kind = "slurm"      // slurm/4711, slurm/4711_3
	PBS        Kind = "pbs"        // pbs/4711, pbs/4711[3]
	GridEngine Kind = "sge"        // sge/4711, sge/4711.3
	LSF        Kind = "lsf"        // lsf/4711, lsf/4711[3]
	Flux       Kind = "flux"       // flux/fiFkbMhFM
	Deployment Kind = "deployment" // deployment/shop/cart
	Job        Kind = "job"        // job/train/resnet
	Pod        Kind = "pod"        // pod/NAMESPACE/NAME, or pod/UID until the name is known
	Container  Kind = "container"  // container/NAME-OR-ID
	VM         Kind = "vm"         // vm/NAME: a virtual machine, on its host
	Unit       Kind = "unit"       // unit/nginx.service
	Session    Kind = "session"    // session/alice/3
	Group      Kind = "group"      // group/NODE/PGID-START
	Short      Kind = "short"      // short/OWNER/NODE: short work, folded
	Other      Kind = "other"      // other/NODE: kernel threads and processes that no rule matches
)

// trait is one property of a kind.
type trait uint16

const (
	batch     trait = 1 << iota // a job of a batch system
	scheduled                   // its controller reports states, allocations, steps and ends
	array                       // an id may name a task of an array or a component, each with its own job number
	person                      // started by a person
	requests                    // it has a request that advice can be given for
	service                     // runs until it is stopped
	pods                        // made of pods
	byGroup                     // a process belongs to it by its process or control group alone
)

// kindTable is the table of kinds, in the order of lists and messages. title replaces a name that is meaningless to users.
// probes are the environment variables that identify a workload of this kind if it has no control group.
var kindTable = []struct {
	kind   Kind
	traits trait
	title  string
	probes []string
}{
	{Slurm, batch | scheduled | array | person | requests, "", []string{"SLURM_JOB_ID", "SLURM_JOBID"}},
	{PBS, batch | person | requests, "", []string{"PBS_ENVIRONMENT"}},
	{GridEngine, batch | person | requests, "", []string{"SGE_ROOT"}},
	{LSF, batch | person | requests, "", []string{"LSB_JOBID"}},
	{Flux, batch | scheduled | person | requests, "", []string{"FLUX_JOB_ID"}},
	{Deployment, pods | requests | service, "", nil},
	{Job, pods | requests | person, "", nil},
	{Pod, pods | requests | service, "", nil},
	{Container, requests | service, "", nil},
	{VM, service, "", nil},
	{Unit, requests | service | byGroup, "", nil},
	{Session, person, "", nil},
	{Group, person | requests | byGroup, "", nil},
	{Short, person, "short commands", nil},
	{Other, byGroup, "the system", nil},
}

// controllerTable are the Kubernetes controllers with special properties. object is the name in the API. through is the
// kind of object that creates the pods for the controller, or empty if the controller itself creates them.
var controllerTable = []struct {
	kind            Kind
	traits          trait
	object, through string
}{
	{Deployment, service, "Deployment", "ReplicaSet"},
	{"statefulset", service, "StatefulSet", ""},
	{"daemonset", service, "DaemonSet", ""},
	{"replicaset", service, "ReplicaSet", ""},
	{"rollout", 0, "Rollout", "ReplicaSet"},
	{"cronjob", 0, "CronJob", "Job"},
	{"jobset", 0, "JobSet", "Job"},
}

// Kinds returns all kinds in the order of lists and messages, except Kubernetes controllers without special properties.
func Kinds() []Kind { return KindsWith(func(Kind) bool { return true }) }

// KindsWith returns the [Kinds] that satisfy is, as in Of(Kind.Batch).
func KindsWith(matches func(Kind) bool) []Kind {
	var out []Kind
	add := func(k Kind) {
		if matches(k) && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	for i := range kindTable {
		add(kindTable[i].kind)
		if kindTable[i].kind == Pod {
			for j := range controllerTable {
				add(controllerTable[j].kind)
			}
		}
	}
	return out
}

// KindNames returns the names of kinds.
func KindNames(list []Kind) []string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = string(k)
	}
	return out
}

// Services returns the kinds of work that runs until it is stopped.
func Services() []Kind { return KindsWith(Kind.Service) }

// Probes returns the environment variables that identify jobs of batch systems without control groups. Hint.Env reads
// all of them at once, because every process is checked for them.
func Probes() []string {
	var out []string
	for i := range kindTable {
		out = append(out, kindTable[i].probes...)
	}
	return out
}

// hasTrait reports whether a kind has any of the traits. A kind that is not in the table belongs to a Kubernetes controller.
func (k Kind) hasTrait(t trait) bool {
	for i := range kindTable {
		if kindTable[i].kind == k {
			return kindTable[i].traits&t != 0
		}
	}
	own := pods | requests
	for i := range controllerTable {
		if controllerTable[i].kind == k {
			own |= controllerTable[i].traits
		}
	}
	return own&t != 0
}

// Batch reports whether it is a job of a batch system.
func (k Kind) Batch() bool { return k.hasTrait(batch) }

// Scheduled reports whether a batch system's controller reports its states, allocations, steps and ends.
func (k Kind) Scheduled() bool { return k.hasTrait(scheduled) }

// Array reports whether an id may be an array task (4_1) or a component of a heterogeneous job
// (4+1), each with its own job number.
func (k Kind) Array() bool { return k.hasTrait(array) }

// Person reports whether a person starts such work, rather than an administrator a service.
func (k Kind) Person() bool { return k.hasTrait(person) }

// Requests reports whether such work has a request of resources that can be set.
func (k Kind) Requests() bool { return k.hasTrait(requests) }

// Service reports whether such work runs until it is stopped: it has no next run.
func (k Kind) Service() bool { return k.hasTrait(service) }

// Pod reports whether the kind is a pod or consists of pods.
func (k Kind) Pod() bool { return k.hasTrait(pods) }

// BarePod reports whether it is a pod without a controller.
func (k Kind) BarePod() bool { return k == Pod }

// Container reports whether it is a container outside of pods.
func (k Kind) Container() bool { return k == Container }

// Guest reports whether it is a virtual machine.
func (k Kind) Guest() bool { return k == VM }

// Unit reports whether it is a unit of systemd, with its log in the journal.
func (k Kind) Unit() bool { return k == Unit }

// Group reports whether the kind is a process group without any other workload around it.
func (k Kind) Group() bool { return k == Group }

// Session reports whether it is a login session.
func (k Kind) Session() bool { return k == Session }

// Folded reports whether it is the sum of the short work of an owner on a node.
func (k Kind) Folded() bool { return k == Short }

// System reports whether it is the use of a node outside of all workloads: kernel threads and unclaimed processes.
func (k Kind) System() bool { return k == Other }

// ByGroup reports whether processes belong to the kind by their process or control group alone. A process that changes these leaves it.
func (k Kind) ByGroup() bool { return k.hasTrait(byGroup) }

// Sum reports whether it is a sum without an identity of its own.
func (k Kind) Sum() bool { return k.Folded() || k.System() }

// Title returns the words for a sum, which has no name: "the system", "short commands"; empty for other kinds.
func (k Kind) Title() string {
	for i := range kindTable {
		if kindTable[i].kind == k {
			return kindTable[i].title
		}
	}
	return ""
}

// Controller returns the API name of a Kubernetes controller, and the kind of object that creates its pods. through is
// empty if the controller itself creates them. Both are empty for unknown controllers and all other kinds.
func (k Kind) Controller() (object, through string) {
	for i := range controllerTable {
		if controllerTable[i].kind == k {
			return controllerTable[i].object, controllerTable[i].through
		}
	}
	return "", ""
}

// JobID returns the id of a batch job by its number, of the batch system that numbers the tasks of arrays.
func JobID(number string) ID { return MakeID(Slurm, number) }

// JobNumber returns the number of a batch job in text, which may be an id of [JobID].
func JobNumber(text string) string { return strings.TrimPrefix(text, string(Slurm)+"/") }

// BatchNumber returns the job number in the id of a batch job, without an array task or component. It is 4711 for
// slurm/4711_3, pbs/4711[3] and sge/4711.3. It is empty for other kinds.
func (id ID) BatchNumber() string {
	if !id.Kind().Batch() {
		return ""
	}
	name := id.Name()
	if at := strings.IndexAny(name, "_+[."); at >= 0 {
		return name[:at]
	}
	return name
}
