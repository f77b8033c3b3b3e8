package jobs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
)

// scriptFolder is the mount point of a set's scripts, unchanged from the metrics-operator.
const scriptFolder = "/metrics_operator/"

// container describes the container of a metric: a script in an image, or arguments of our probe.
type container struct {
	name    string
	image   string
	workdir string
	file    string // of the script below scriptFolder
	script  *script
	args    []string // of the probe
	env     []core.EnvVar
	mounts  []core.VolumeMount
	port    int32
	uid     *int64
}

// podSpec returns the specification of the pods of a part, including the additions of add-ons.
func (b *builder) podSpec(m *metricset.Measure, p *jobPart) (core.PodSpec, error) {
	spec := b.set.Spec
	pod := core.PodSpec{
		Subdomain:             spec.ServiceName,
		RestartPolicy:         core.RestartPolicyNever,
		SetHostnameAsFQDN:     ptr.To(b.set.FQDN(m)),
		ShareProcessNamespace: ptr.To(m.Shape == metricset.Application || m.Shape == metricset.System),
		ServiceAccountName:    spec.Pod.ServiceAccountName,
		NodeSelector:          spec.Pod.NodeSelector,
	}
	if m.Attach == metricset.AttachAgent {
		pod.ShareProcessNamespace = nil // nothing is injected
	}
	if len(spec.Resources) > 0 {
		list, err := parseQuantities(spec.Resources)
		if err != nil {
			return pod, err
		}
		pod.Resources = &core.ResourceRequirements{Limits: list, Requests: list}
	}
	if m.Shape == metricset.Launcher {
		// Open MPI 4 starts its daemons by short names, which are names below the service.
		pod.DNSConfig = &core.PodDNSConfig{Searches: []string{b.set.Domain()}}
	}
	if sole, given := m.Values["soleTenancy"]; given && sole == "true" {
		pod.Affinity = spreadNodes(b.set.Name)
	}
	mounts, volumes := addonVolumes(m)
	items := map[string]string{} // keys of the ConfigMap and their files
	if p.main.name != "" {
		security := m.Given.Attributes.SecurityContext
		if p.main.script != nil {
			b.editScript(m, p, &pod, items, &security)
			key := p.job + ".sh"
			b.scripts[key], items[key] = p.main.script.render(spec.Logging.Interactive && !p.workers), p.main.file
		}
		c, err := b.buildContainer(m, &p.main, security)
		if err != nil {
			return pod, err
		}
		pod.Containers = append(pod.Containers, c)
	}
	for _, e := range findAddons(m, "application") {
		c, err := applicationContainer(e)
		if err != nil {
			return pod, err
		}
		pod.Containers = append(pod.Containers, c)
		if secret := e.Values["pullSecret"]; secret != "" {
			pod.ImagePullSecrets = []core.LocalObjectReference{{Name: secret}}
		}
	}
	if m.Attach == metricset.AttachSidecar {
		pod.InitContainers = append(pod.InitContainers, b.probeSidecar(m))
	}
	pod.Volumes = append(pod.Volumes, volumes...)
	if len(items) > 0 {
		volume, mount := b.scriptVolume(items)
		pod.Volumes, mounts = append([]core.Volume{volume}, pod.Volumes...), append([]core.VolumeMount{mount}, mounts...)
	}
	for i := range pod.InitContainers {
		if pod.InitContainers[i].Name != ProbeContainer {
			pod.InitContainers[i].VolumeMounts = append(pod.InitContainers[i].VolumeMounts, mounts...)
		}
	}
	for i := range pod.Containers {
		pod.Containers[i].VolumeMounts = append(pod.Containers[i].VolumeMounts, mounts...)
	}
	return pod, nil
}

// buildContainer makes the container of a metric.
func (b *builder) buildContainer(m *metricset.Measure, c *container, security v1alpha2.SecurityContext) (core.Container, error) {
	resources, err := parseResources(m.Given.Resources.Limits, m.Given.Resources.Requests)
	out := core.Container{
		Name: c.name, Image: c.image, ImagePullPolicy: core.PullIfNotPresent, WorkingDir: c.workdir, Env: c.env, Resources: resources,
		SecurityContext: securityContext(security), VolumeMounts: c.mounts,
	}
	if c.script != nil {
		out.Command, out.Stdin, out.TTY = []string{"/bin/bash", scriptFolder + c.file}, true, true
		return out, err
	}
	out.Args = c.args
	if !security.Privileged && !security.AllowAdmin && !security.AllowPtrace {
		out.SecurityContext = restrictedContext(false)
		out.SecurityContext.RunAsUser = c.uid
		if c.uid != nil {
			out.SecurityContext.RunAsNonRoot = ptr.To(true)
		}
	}
	if c.port != 0 {
		out.Ports = []core.ContainerPort{{Name: "probe", ContainerPort: c.port}}
	}
	if c.name == "workers" { // the launcher waits for them
		out.ReadinessProbe = &core.Probe{ProbeHandler: core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: toIntOrString(c.port)}},
			PeriodSeconds: 1, FailureThreshold: 60}
	}
	return out, err
}

// applicationContainer returns the container of the add-on application, which is the measured one.
func applicationContainer(e *metricset.Extra) (core.Container, error) {
	words, err := metricset.SplitCommand(e.Values["command"])
	if err != nil {
		return core.Container{}, fmt.Errorf("application: command: %w", err)
	}
	resources, err := parseResources(e.Limits, e.Requests)
	return core.Container{
		Name: "app-addon", Image: e.Values["image"], ImagePullPolicy: core.PullIfNotPresent, WorkingDir: e.Values["workdir"],
		Command: words, Resources: resources,
		Stdin: true, TTY: true,
		SecurityContext: securityContext(v1alpha2.SecurityContext{Privileged: e.Values.On("privileged")}),
	}, err
}

// securityContext returns the security context with only the rights that a file requests.
func securityContext(s v1alpha2.SecurityContext) *core.SecurityContext {
	out := &core.SecurityContext{Privileged: ptr.To(s.Privileged)}
	var add []core.Capability
	if s.AllowPtrace {
		add = append(add, "SYS_PTRACE")
	}
	if s.AllowAdmin {
		add = append(add, "SYS_ADMIN")
	}
	if len(add) > 0 {
		out.Capabilities = &core.Capabilities{Add: add}
	}
	return out
}

// restrictedContext returns the security context of our own containers.
func restrictedContext(ptrace bool) *core.SecurityContext {
	out := &core.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &core.Capabilities{Drop: []core.Capability{"ALL"}},
		SeccompProfile:           &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
	}
	if ptrace {
		out.Capabilities.Add = []core.Capability{"SYS_PTRACE"}
	}
	return out
}

// addonVolumes returns the volumes of add-ons with their mounts.
func addonVolumes(m *metricset.Measure) (mounts []core.VolumeMount, volumes []core.Volume) {
	for i := range m.Addons {
		e := &m.Addons[i]
		if e.Family != "volume" {
			continue
		}
		name, mount := e.Values["name"], path.Clean(e.Values["path"])
		v, readOnly := core.Volume{Name: name}, e.Values.On("readOnly")
		switch e.Name {
		case "volume-pvc":
			v.PersistentVolumeClaim = &core.PersistentVolumeClaimVolumeSource{ClaimName: e.Values["claimName"], ReadOnly: readOnly}
		case "volume-hostpath":
			v.HostPath = &core.HostPathVolumeSource{Path: e.Values["hostPath"]}
		case "volume-secret":
			v.Secret = &core.SecretVolumeSource{SecretName: e.Values["secretName"]}
		case "volume-empty":
			v.EmptyDir = &core.EmptyDirVolumeSource{}
		case "volume-cm":
			v.ConfigMap = &core.ConfigMapVolumeSource{LocalObjectReference: core.LocalObjectReference{Name: e.Values["configMapName"]}}
			for _, key := range slices.Sorted(maps.Keys(e.Maps["items"])) {
				file := e.Maps["items"][key]
				v.ConfigMap.Items = append(v.ConfigMap.Items, core.KeyToPath{Key: key, Path: file})
				if path.Base(mount) == file { // the file is named, and its folder is meant
					mount = path.Dir(mount)
				}
			}
			readOnly = true
		}
		volumes = append(volumes, v)
		mounts = append(mounts, core.VolumeMount{Name: name, MountPath: mount, ReadOnly: readOnly})
	}
	return mounts, volumes
}

// scriptVolume mounts the scripts of a part.
func (b *builder) scriptVolume(items map[string]string) (core.Volume, core.VolumeMount) {
	source := &core.ConfigMapVolumeSource{LocalObjectReference: core.LocalObjectReference{Name: b.set.Name}}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		source.Items = append(source.Items, core.KeyToPath{Key: key, Path: items[key], Mode: ptr.To(int32(0o777))})
	}
	const name = "metrics-operator"
	return core.Volume{Name: name, VolumeSource: core.VolumeSource{ConfigMap: source}},
		core.VolumeMount{Name: name, MountPath: scriptFolder, ReadOnly: true}
}

// spreadNodes returns an affinity that prefers one zone and different nodes for the pods of a set.
func spreadNodes(set string) *core.Affinity {
	term := func(topology string) []core.WeightedPodAffinityTerm {
		return []core.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: core.PodAffinityTerm{
			TopologyKey: topology,
			LabelSelector: &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{
				{Key: "app.kubernetes.io/name", Operator: meta.LabelSelectorOpIn, Values: []string{set}}}},
		}}}
	}
	return &core.Affinity{
		PodAffinity:     &core.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: term("topology.kubernetes.io/zone")},
		PodAntiAffinity: &core.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: term("kubernetes.io/hostname")},
	}
}

func parseResources(limits, requests v1alpha2.ContainerResource) (out core.ResourceRequirements, err error) {
	if out.Limits, err = parseQuantities(limits); err != nil {
		return out, err
	}
	out.Requests, err = parseQuantities(requests)
	return out, err
}

func parseQuantities(list v1alpha2.ContainerResource) (core.ResourceList, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := core.ResourceList{}
	for name, v := range list {
		q, err := resource.ParseQuantity(v.String())
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", name, err)
		}
		out[core.ResourceName(name)] = q
	}
	return out, nil
}

func envVars(pairs ...string) (out []core.EnvVar) {
	for i := 0; i+1 < len(pairs); i += 2 {
		// $(NAME) in a value would be replaced by the kubelet.
		out = append(out, core.EnvVar{Name: pairs[i], Value: strings.ReplaceAll(pairs[i+1], "$(", "$$(")})
	}
	return out
}
