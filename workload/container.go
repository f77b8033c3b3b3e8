package workload

import "strings"

// ContainerFacts are the facts that a supervisor, such as the kubelet, reports about a container. Times are by the
// supervisor's clock. Unknown facts are empty, and unknown amounts are 0.
type ContainerFacts struct {
	Namespace, Pod, UID, QoS string
	Name, Image, ID          string
	// Type is main, init, sidecar, ephemeral or sandbox.
	Type     string
	Restarts int
	Running  bool
	Ready    bool   // by its readiness probe
	Waiting  string // reason
	// Ended: ExitCode and Reason are of its latest end, EndedID is the id that it had then.
	Ended    bool
	EndedID  string
	ExitCode int
	Reason   string
	// BeforeExitCode and BeforeReason describe the end before the latest, until the container
	// restarts. The reason is empty if there is none.
	BeforeExitCode int
	BeforeReason   string

	Request, Limit Amounts
	// Devices are those that it was given, such as GPUs; it is not changed once made.
	Devices []Device
	// PodRequest and PodLimit are of its whole pod; a limit of 0 is none.
	PodRequest, PodLimit Amounts
	PodFacts
	// Completes: the pod ends when its work is done, as a job's does.
	Completes bool
}

// PodFacts holds facts about the whole pod of a container: its controller, phase, addresses and priority class.
type PodFacts struct {
	OwnerKind, OwnerName, Phase, IP, HostIP, Priority string
	// PodReady is the status of its condition Ready: True, False or Unknown; empty while none is reported.
	PodReady    string
	HostNetwork bool
	Created     int64 // seconds since the Unix epoch
}

// Device is a device that was assigned to a container. Resource is the name in the container's request, such as
// nvidia.com/gpu. ID is the name of the device, such as its UUID.
type Device struct{ Resource, ID string }

// Amounts are a request, or a limit.
type Amounts struct{ Cores, MemoryBytes, GPUs float64 }

// PartOfPod returns the part that stands for the whole pod to which a container part belongs. It is the name of the
// pod. For a bare pod it is empty, because that pod is the workload itself.
func PartOfPod(id ID, part string) string {
	if id.Kind().BarePod() {
		return ""
	}
	pod, _, _ := strings.Cut(part, "/")
	return pod
}

// InPod returns the names of the pod and the container that a part stands for. The part is POD/CONTAINER. For a bare
// pod, it is just CONTAINER, and the name of the pod is the end of its id. Unknown names are empty.
func InPod(id ID, part string) (pod, container string) {
	if id.Kind().BarePod() {
		return string(id[strings.LastIndexByte(string(id), '/')+1:]), part
	}
	pod, container, _ = strings.Cut(part, "/")
	return pod, container
}

// RuntimeStage reports whether a program belongs to a container runtime rather than to the container. These are runc
// and its stages (libcontainer/nsenter/nsexec.c), crun, and the monitor of CRI-O. runc executes itself by the number of
// a file descriptor, and then has that number as its name in the container's control groups.
func RuntimeStage(program string) bool {
	switch program {
	case "":
		return false
	case "runc", "crun", "exe", "conmon":
		return true
	}
	return strings.Trim(program, "0123456789") == "" || strings.HasPrefix(program, "runc:[") || strings.HasPrefix(program, "memfd:")
}
