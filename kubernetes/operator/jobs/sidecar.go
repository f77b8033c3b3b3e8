package jobs

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"reckon/kubernetes/operator/metricset"
)

// ProbeContainer is the name of the container that measures an application.
const ProbeContainer = "reckon-probe"

// terminationLog is the file of a container that the kubelet puts into the pod's status at its end.
const terminationLog = "/dev/termination-log"

// probeSidecar returns the probe as a native sidecar, which is an init container that keeps running. The kubelet stops it
// after the application has ended. If the probe itself ends, the pod continues.
func (b *builder) probeSidecar(m *metricset.Measure) core.Container {
	return core.Container{
		Name: ProbeContainer, Image: b.config.ProbeImage, ImagePullPolicy: core.PullIfNotPresent,
		Args: b.probeArgs(m), Env: probeEnv(), RestartPolicy: ptr.To(core.ContainerRestartPolicyAlways),
		Ports:                    []core.ContainerPort{{Name: "probe", ContainerPort: b.config.ProbePort}},
		Resources:                probeResources(),
		SecurityContext:          restrictedContext(m.Given.Attributes.SecurityContext.AllowPtrace),
		TerminationMessagePolicy: core.TerminationMessageReadFile,
	}
}

// Ephemeral returns the probe as an ephemeral container with the given name for a running pod. target is the name of the measured
// container. The result has no ports and resources, because Kubernetes forbids them for ephemeral containers.
func Ephemeral(m *metricset.Measure, c Config, name, target string) core.EphemeralContainer {
	b := &builder{config: c}
	return core.EphemeralContainer{TargetContainerName: target, EphemeralContainerCommon: core.EphemeralContainerCommon{
		Name: name, Image: c.ProbeImage, ImagePullPolicy: core.PullIfNotPresent,
		Args: append(b.probeArgs(m), "--exit"), Env: probeEnv(),
		SecurityContext:          restrictedContext(m.Given.Attributes.SecurityContext.AllowPtrace),
		TerminationMessagePolicy: core.TerminationMessageReadFile,
	}}
}

func probeArgs(port int32) []string {
	return []string{"probe", "--listen", ":" + strconv.Itoa(int(port))}
}

func (b *builder) probeArgs(m *metricset.Measure) []string {
	args := append(probeArgs(b.config.ProbePort), "--summary", terminationLog, "--rate", m.Values["rate"]+"s", "--completions",
		m.Values["completions"])
	for _, name := range []string{"pids", "threads"} {
		if m.Values.On(name) {
			args = append(args, "--"+name)
		}
	}
	commands := m.Given.MapOptions["commands"]
	if c := m.Values["command"]; c != "" && len(commands) == 0 && (m.Values.On("pids") || m.Values.On("threads")) {
		args = append(args, "--command", quoteReferences(c))
	}
	for _, index := range slices.Sorted(maps.Keys(commands)) {
		v := commands[index]
		args = append(args, "--command", quoteReferences(index+"="+v.String()))
	}
	return args
}

// quoteReferences keeps the kubelet from replacing $(NAME) in an argument.
func quoteReferences(s string) string { return strings.ReplaceAll(s, "$(", "$$(") }

func probeEnv() []core.EnvVar {
	field := func(name, path string) core.EnvVar {
		return core.EnvVar{Name: name, ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: path}}}
	}
	return []core.EnvVar{
		field("RECKON_POD", "metadata.name"), field("RECKON_POD_UID", "metadata.uid"),
		field("RECKON_POD_INDEX", "metadata.annotations['batch.kubernetes.io/job-completion-index']"),
	}
}

func probeResources() core.ResourceRequirements {
	return core.ResourceRequirements{
		Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("10m"), core.ResourceMemory: resource.MustParse("32Mi")},
		Limits:   core.ResourceList{core.ResourceMemory: resource.MustParse("128Mi")},
	}
}

func toIntOrString(port int32) intstr.IntOrString { return intstr.FromInt32(port) }
