package metricset

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"reckon/kubernetes/operator/api/v1alpha2"
)

// checkPairs rejects unsupported combinations of options, and decides how a metric attaches.
func checkPairs(m *Measure, given *v1alpha2.Metric, at string) (warnings []string, problems []Problem) {
	has := func(name string) bool {
		return slices.ContainsFunc(m.Addons, func(e Extra) bool { return e.Name == name })
	}
	if m.Shape == Application {
		problems = append(problems, checkAttach(m, given, at, has("application"))...)
	}
	if m.Shape == Storage {
		w, p := checkStorage(m, at)
		warnings, problems = append(warnings, w...), append(problems, p...)
	}
	for j, e := range m.Addons {
		field := fmt.Sprintf("%s.addons[%d]", at, j)
		scripted := m.Shape == Launcher || m.Shape == System || m.Shape == Storage && m.Image != ""
		switch {
		case (e.Family == "performance" || e.Name == "commands" || e.Name == "perf-commands") && !scripted:
			problems = append(problems, Problem{field + ".name", e.Name + " edits the script of a metric, and " + m.Name + " has none",
				"put it into the command of the application, or use an app- metric"})
		case e.Family == "workload" && m.Shape != Launcher:
			problems = append(problems, Problem{field + ".name",
				e.Name + " needs a metric with a launcher and workers, and " + m.Name + " has none", "use an app- metric"})
		}
		if t := e.Values["target"]; t != "" && !slices.Contains(m.Targets(), t) {
			problems = append(problems, Problem{field + ".options.target", fmt.Sprintf("there is no job %q", shorten(t)),
				"one of " + strings.Join(m.Targets(), ", ")})
		}
		if t := e.Values["containerTarget"]; t != "" && !slices.Contains(m.Containers(), t) {
			problems = append(problems, Problem{field + ".options.containerTarget", fmt.Sprintf("there is no container %q", shorten(t)),
				"one of " + strings.Join(m.Containers(), ", ")})
		}
	}
	return warnings, problems
}

// Targets returns the names that add-ons may use for a job of the metric. These are the names in the metrics-operator
// and the actual names.
func (m *Measure) Targets() []string {
	switch {
	case m.Shape != Launcher:
		return []string{"m", m.Job}
	case m.Name == "network-netmark":
		return []string{"n", "w", m.Job, m.Workers()}
	}
	return []string{"l", "w", m.Job, m.Workers()}
}

// Workers returns the name of the ReplicatedJob of the workers of a launcher.
func (m *Measure) Workers() string { return m.Job + "-w" }

// Containers returns the names of the containers of the metric itself.
func (m *Measure) Containers() []string {
	switch m.Shape {
	case Launcher:
		return []string{"launcher", "workers"}
	case Storage:
		return []string{"storage"}
	}
	return []string{"app"}
}

func checkAttach(m *Measure, given *v1alpha2.Metric, at string, application bool) (problems []Problem) {
	m.Attach = Attach(m.Values["attach"])
	perProcess := ""
	for _, name := range []string{"threads", "pids"} {
		if m.Values.On(name) {
			perProcess = name
		}
	}
	if len(given.MapOptions["commands"]) > 0 {
		perProcess = "commands"
	}
	if m.Attach == AttachNone {
		m.Attach = AttachAgent
		switch {
		case m.Values["selector"] != "":
			m.Attach = AttachEphemeral
		case perProcess != "":
			m.Attach = AttachSidecar
		}
	}
	if perProcess != "" && m.Attach == AttachAgent {
		problems = append(problems, Problem{at + ".options.attach",
			"the node's agent measures pods as a whole, and " + perProcess + " asks for their processes",
			"write attach: sidecar, or leave out " + perProcess})
	}
	selector := at + ".options.selector"
	switch {
	case m.Attach == AttachEphemeral && m.Values["selector"] == "":
		problems = append(problems, Problem{selector, "is required by attach: ephemeral, which measures pods that run already",
			"write labels such as app=web"})
	case m.Attach == AttachEphemeral && application:
		problems = append(problems, Problem{at + ".addons",
			"attach: ephemeral measures pods that run already, and the add-on application starts one", "leave out one of them"})
	case m.Attach == AttachEphemeral:
		problems = append(problems, checkSelector(m.Values["selector"], selector)...)
		if m.Values["completions"] == "0" {
			problems = append(problems, Problem{at + ".options.completions",
				"an ephemeral container cannot be taken out of a pod again, so that its measurement needs an end",
				"write the number of samples"})
		}
	case m.Values["selector"] != "":
		problems = append(problems, Problem{selector, "only attach: ephemeral selects pods that run already",
			"leave it out, or write attach: ephemeral"})
	case !application:
		problems = append(problems, Problem{at + ".addons", "there is no application to measure",
			"add the add-on application with its image and command, or write attach: ephemeral with a selector"})
	}
	return problems
}

func checkStorage(m *Measure, at string) (warnings []string, problems []Problem) {
	var mounts []string
	for _, e := range m.Addons {
		if e.Family == "volume" && e.Name != "volume-cm" && e.Name != "volume-secret" {
			mounts = append(mounts, path.Clean(e.Values["path"]))
			if e.Values.On("readOnly") && m.Name != "io-sysstat" {
				problems = append(problems, Problem{at + ".addons",
					"the volume " + e.Values["name"] + " is read-only, and " + m.Name + " writes", `write readOnly: "false"`})
			}
		}
	}
	if len(mounts) == 0 {
		return nil, []Problem{
			{at + ".addons", m.Name + " measures a volume, and there is none", "add volume-pvc, volume-hostpath or volume-empty"}}
	}
	option := map[string]string{"io-fio": "directory", "io-ior": "workdir"}[m.Name]
	if m.Name == "io-probe" && m.Values["directory"] == "" {
		m.Values["directory"] = mounts[0]
	}
	if m.Name == "io-probe" {
		option = "directory"
	}
	if dir := path.Clean(m.Values[option]); option != "" &&
		!slices.ContainsFunc(mounts, func(mount string) bool { return isInside(dir, mount) }) {
		warnings = append(
			warnings, fmt.Sprintf("%s.options.%s: %s is on no volume of this metric, so that the container's own file system is measured",
				at, option, dir))
	}
	return warnings, problems
}

func isInside(dir, mount string) bool { return dir == mount || strings.HasPrefix(dir, mount+"/") }

// lastHost returns the longest host name of the pods of a metric.
func (m *Measure) lastHost(set string, pods int32) string {
	job := m.Job
	if m.Shape == Launcher || m.Shape == Mesh {
		job = m.Workers()
	}
	return fmt.Sprintf("%s-%s-0-%d", set, job, max(0, pods-1))
}

// maxHostname is the longest host name of Linux (uname(2), without the end). The kubelet does not start a pod with a longer full name.
const maxHostname = 64

// Domain follows the host name of a pod of the set.
func (s *Set) Domain() string {
	return fmt.Sprintf("%s.%s.svc.cluster.local", s.Spec.ServiceName, cmp.Or(s.Namespace, "default"))
}

// FQDN reports whether the pods of a metric use their full name as host name.
func (s *Set) FQDN(m *Measure) bool {
	return !s.Spec.DontSetFQDN && len(m.lastHost(s.Name, *s.Spec.Pods))+1+len(s.Domain()) <= maxHostname
}

// checkNames holds the names of jobs and pods against the limit of host names.
func checkNames(set string, pods int32, m Measure, at string) (problems []Problem) {
	// A pod of an indexed job is named SET-JOB-0-INDEX-xxxxx.
	name := m.lastHost(set, pods) + "-00000"
	if len(name) > validation.DNS1123LabelMaxLength {
		return []Problem{
			{
				"metadata.name", fmt.Sprintf("the pods of %s would be named %s..., %d characters long, and %d are allowed", at, name[:20],
					len(name), validation.DNS1123LabelMaxLength),
				fmt.Sprintf("shorten the name by %d", len(name)-validation.DNS1123LabelMaxLength)}}
	}
	return nil
}
