package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	admissionhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Prefixes of the annotations. Those of fluentd-sidecar-injector have the same meaning as ours.
const (
	prefixOurs   = "logs.reckon/"
	prefixFluent = "fluentd-sidecar-injector.h3poteto.dev/"
	// LogContainer is the name of the container that is added.
	LogContainer = "reckon-logs"
	logVolume    = "reckon-logs"
)

// Logs adds a log collector to annotated pods. The collector is an OpenTelemetry collector in a native sidecar, so that
// a Job ends with its application. If the annotations of a pod are invalid, Logs leaves the pod unchanged and returns a
// warning, because a pod without its logs is better than none.
type Logs struct {
	// Image of the collector.
	Image string
	// Endpoint is the destination of logs unless a pod names an aggregator: Loki's OTLP address,
	// such as http://loki:3100/otlp.
	Endpoint string
	// Namespace is the operator's own namespace, in which pods get no collector.
	Namespace string
}

// Handle implements admission.Handler.
func (l *Logs) Handle(_ context.Context, req admissionhook.Request) admissionhook.Response {
	if req.Namespace == l.Namespace {
		return admissionhook.Allowed("")
	}
	pod := &core.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return admissionhook.Errored(http.StatusBadRequest, err)
	}
	warnings, err := l.addCollector(pod)
	if err != nil {
		return admissionhook.Allowed("").WithWarnings("no logs are collected: " + err.Error())
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return admissionhook.Errored(http.StatusInternalServerError, err)
	}
	return admissionhook.PatchResponseFromRaw(req.Object.Raw, text).WithWarnings(warnings...)
}

// logRequest is the request for a log collector in a pod's annotations.
type logRequest struct {
	prefix string
	values map[string]string
}

func (w *logRequest) value(name, missing string) string {
	if v := w.values[name]; v != "" {
		return v
	}
	return missing
}

// findLogRequest returns the annotations that enable collecting. Ours take precedence.
func findLogRequest(pod *core.Pod) *logRequest {
	for _, prefix := range []string{prefixOurs, prefixFluent} {
		if pod.Annotations[prefix+"injection"] != "enabled" {
			continue
		}
		w := &logRequest{prefix: prefix, values: map[string]string{}}
		for name, v := range pod.Annotations {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				w.values[rest] = v
			}
		}
		return w
	}
	return nil
}

// knownAnnotations returns the supported annotations. dropped lists unsupported ones of the fluent collectors with the reason.
func knownAnnotations() []string {
	return []string{"injection", "collector", "docker-image", "image", "aggregator-host", "aggregator-port", "application-log-dir",
		"tag-prefix", "custom-env", "expose-port", "config-volume",
		"memory-request", "memory-limit", "cpu-request", "cpu-limit", "send-timeout", "time-key", "time-format", "log-format", "endpoint"}
}

func droppedAnnotations() map[string]string {
	return map[string]string{
		"recover-wait": "the collector retries by itself",
		"hard-timeout": "send-timeout is the only one",
		"rotate-wait":  "a file that was rotated is read to its end",
		// Where fluentd looks for new files so often, this collector would read no lines meanwhile.
		"refresh-interval": "new files and lines are looked for five times a second",
	}
}

// addCollector adds the collector to a pod.
func (l *Logs) addCollector(pod *core.Pod) (warnings []string, err error) {
	w := findLogRequest(pod)
	if w == nil || slices.ContainsFunc(pod.Spec.InitContainers, func(c core.Container) bool { return c.Name == LogContainer }) {
		return nil, nil
	}
	for name := range w.values {
		if why, there := droppedAnnotations()[name]; there {
			warnings = append(warnings, w.prefix+name+" has no effect: "+why)
		} else if !slices.Contains(knownAnnotations(), name) {
			warnings = append(warnings, w.prefix+name+" is unknown")
		}
	}
	slices.Sort(warnings)
	dir := path.Clean(w.value("application-log-dir", ""))
	if !path.IsAbs(dir) || dir == "/" || strings.ContainsAny(dir, ":\n\"$") {
		return nil, fmt.Errorf("%sapplication-log-dir: %q is no folder; write an absolute path such as /var/log/app", w.prefix,
			w.values["application-log-dir"])
	}
	container := core.Container{
		Name: LogContainer, Image: w.value("image", l.Image), ImagePullPolicy: core.PullIfNotPresent,
		RestartPolicy: ptr.To(core.ContainerRestartPolicyAlways),
		// The collector does not read again before it ends. This second lets it read the last lines of the application.
		Lifecycle: &core.Lifecycle{PreStop: &core.LifecycleHandler{Sleep: &core.SleepAction{Seconds: 1}}},
		SecurityContext: &core.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities:   &core.Capabilities{Drop: []core.Capability{"ALL"}},
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
	}
	if v := w.values["docker-image"]; v != "" {
		warnings = append(warnings, w.prefix+"docker-image has no effect: the collector is "+container.Image)
	}
	if w.values["aggregator-host"] != "" && w.values["endpoint"] == "" && w.values["config-volume"] == "" {
		warnings = append(warnings, w.prefix+
			"aggregator-host is sent OTLP over HTTP, and not fluentd's protocol: it needs an input of that kind")
	}
	if container.Image == "" {
		return nil, fmt.Errorf("the operator was given no image of a collector")
	}
	if container.Resources, err = logResources(w); err != nil {
		return nil, err
	}
	if err := l.setConfig(w, pod, &container, dir); err != nil {
		return nil, err
	}
	if err := addPorts(w, &container); err != nil {
		return nil, err
	}
	mountLogs(pod, &container, dir)
	pod.Spec.InitContainers = append([]core.Container{container}, pod.Spec.InitContainers...)
	return warnings, nil
}

func logResources(w *logRequest) (out core.ResourceRequirements, err error) {
	out.Requests, out.Limits = core.ResourceList{}, core.ResourceList{}
	for _, r := range []struct {
		annotation, missing string
		list                core.ResourceList
		name                core.ResourceName
	}{
		{"cpu-request", "20m", out.Requests, core.ResourceCPU}, {"memory-request", "64Mi", out.Requests, core.ResourceMemory},
		{"cpu-limit", "", out.Limits, core.ResourceCPU}, {"memory-limit", "256Mi", out.Limits, core.ResourceMemory},
	} {
		text := w.value(r.annotation, r.missing)
		if text == "" {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return out, fmt.Errorf("%s%s: %q is not a quantity; write one such as 64Mi", w.prefix, r.annotation, text)
		}
		r.list[r.name] = q
	}
	return out, nil
}

func addPorts(w *logRequest, c *core.Container) error {
	text := w.values["expose-port"]
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%sexpose-port: %q is not a port", w.prefix, text)
	}
	c.Ports = []core.ContainerPort{{ContainerPort: int32(n)}}
	return nil
}

// mountLogs shares the log folder between all containers, through the volume already mounted there or an empty one.
func mountLogs(pod *core.Pod, c *core.Container, dir string) {
	name, sub := logVolume, ""
	for _, other := range pod.Spec.Containers {
		for _, m := range other.VolumeMounts {
			if path.Clean(m.MountPath) == dir {
				name, sub = m.Name, m.SubPath
			}
		}
	}
	if name == logVolume && !slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool { return v.Name == logVolume }) {
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			core.Volume{Name: logVolume, VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}})
	}
	for i := range pod.Spec.Containers {
		other := &pod.Spec.Containers[i]
		if !slices.ContainsFunc(other.VolumeMounts, func(m core.VolumeMount) bool { return path.Clean(m.MountPath) == dir }) {
			other.VolumeMounts = append(other.VolumeMounts, core.VolumeMount{Name: name, MountPath: dir, SubPath: sub})
		}
	}
	c.VolumeMounts = append(c.VolumeMounts, core.VolumeMount{Name: name, MountPath: dir, SubPath: sub, ReadOnly: true})
}
