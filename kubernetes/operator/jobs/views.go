package jobs

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/metricset"
)

// addView adds the software of another image to a pod. An init container copies the Spack view of that image to a folder
// that all containers mount, and ends before the other containers start.
func (b *builder) addView(m *metricset.Measure, e *metricset.Extra, p *jobPart, pod *core.PodSpec, items map[string]string, command bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(e.Name, "perf-"), "workload-")
	mount, image := path.Clean(e.Values["mount"]), e.Values["image"]
	image = cmp.Or(image, e.Image)
	setup := ""
	if e.Name == "workload-flux" {
		setup = fluxSetup
	}
	file := name + "-entrypoint.sh"
	key := p.job + "-" + name + ".sh"
	b.scripts[key] = (&script{pre: joinLines("set -e", setup), command: copyView}).render(false)
	items[key] = file
	env := append(envVars("RECKON_VIEW", mount), b.fluxEnv(m, e)...)
	pod.Volumes = append(pod.Volumes,
		core.Volume{Name: "view-" + name, VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}})
	shared := core.VolumeMount{Name: "view-" + name, MountPath: mount}
	pod.InitContainers = append(pod.InitContainers, core.Container{
		Name: name, Image: image, ImagePullPolicy: core.PullIfNotPresent, Command: []string{"/bin/bash", scriptFolder + file}, Env: env,
		VolumeMounts: []core.VolumeMount{shared}, SecurityContext: securityContext(v1alpha2.SecurityContext{}),
	})
	p.main.env = append(append([]core.EnvVar{}, p.main.env...), env...)
	s := p.main.script
	s.pre = joinLines(s.pre, useView)
	p.main.mounts = append(p.main.mounts, shared)
	switch e.Name {
	case "perf-hpctoolkit":
		s.addHPCToolkit(e, command)
	case "perf-mpitrace":
		s.pre = joinLines(s.pre, workdir(e))
		if command {
			s.command = joinLines(`export LD_PRELOAD="$RECKON_VIEW/view/lib/libmpitrace.so"`, s.command, "reckon_status=$?",
				"unset LD_PRELOAD",
				"(exit $reckon_status)")
		}
	case "workload-flux":
		pod.SetHostnameAsFQDN = new(bool) // brokers know each other by their short names
		s.runUnderFlux(e, p, *b.set.Spec.Pods, command)
	}
}

const (
	copyView = `reckon_from=$(ls -d /opt/views/._view/* | head -1)
mkdir -p "$RECKON_VIEW/view"
cp -R "$reckon_from"/* "$RECKON_VIEW/view"
cp -R /opt/software "$RECKON_VIEW/"`
	// useView makes the software reachable under the path that it was built for.
	useView = `export PATH=$PATH:$RECKON_VIEW/view/bin
if [ ! -e /opt/software ]; then cp -R "$RECKON_VIEW/software" /opt/software; fi`
)

func workdir(e *metricset.Extra) string {
	if e.Values["workdir"] == "" {
		return ""
	}
	return `cd "$RECKON_WORKDIR"`
}

// postRun is a script that writes another script, which creates the HPCToolkit database on each host. Variables are
// quoted with %q, because the shell of that host reads the written script.
const postRun = `printf '#!/bin/bash\ncd %q\n%q %q\n%q -o %q %q\n' "$(pwd)" "$RECKON_VIEW/view/bin/hpcstruct" "$RECKON_OUTPUT" ` +
	`"$RECKON_VIEW/view/bin/hpcprof" "$RECKON_OUTPUT-database" "$RECKON_OUTPUT" > ./post-run.sh`

// addHPCToolkit puts hpcrun before the command, and the creation of a database from its measurements after it.
func (s *script) addHPCToolkit(e *metricset.Extra, command bool) {
	s.pre = joinLines(s.pre, postRun, "chmod +x ./post-run.sh", workdir(e))
	if !command {
		return
	}
	s.command = joinWords(e.Values["prefix"], `"$RECKON_VIEW/view/bin/hpcrun" -o "$RECKON_OUTPUT" $RECKON_EVENTS`, s.command)
	if e.Values.On("postAnalysis") {
		s.post = joinLines(s.post, `for reckon_host in $(cat ./hostlist.txt 2> /dev/null || hostname); do
  if [ "$reckon_host" = "$(hostname)" ]; then bash ./post-run.sh; else ssh "$reckon_host" "$(pwd)/post-run.sh"; fi
done
echo "METRICS-OPERATOR HPCTOOLKIT Post analysis done."`)
	}
}

// fluxEnv returns the variables of an add-on with a view.
func (b *builder) fluxEnv(m *metricset.Measure, e *metricset.Extra) []core.EnvVar {
	v := e.Values
	switch e.Name {
	case "perf-hpctoolkit":
		return envVars("RECKON_OUTPUT", v["output"], "RECKON_EVENTS", v["events"], "RECKON_WORKDIR", v["workdir"])
	case "perf-mpitrace":
		return envVars("RECKON_WORKDIR", v["workdir"])
	}
	quorum := v["quorum"]
	quorum = cmp.Or(quorum, strconv.Itoa(int(*b.set.Spec.Pods)))
	lead := fmt.Sprintf("%s-%s-%s-0", b.set.Name, m.Job, v["launcherIndex"])
	hosts := lead
	if n := *b.set.Spec.Pods - 1; n > 0 {
		hosts += fmt.Sprintf(",%s-%s-%s-[0-%d]", b.set.Name, m.Workers(), v["workerIndex"], n-1)
	}
	domain := b.set.Domain()
	return envVars("RECKON_WORKDIR", v["workdir"], "RECKON_LEAD", lead, "RECKON_FLUX_HOSTS", hosts, "RECKON_DOMAIN", domain,
		"RECKON_FLUX_USER", v["fluxUser"], "RECKON_FLUX_UID", v["fluxUid"], "RECKON_QUORUM", quorum, "RECKON_TIMEOUT", v["connectTimeout"],
		"RECKON_LOG_LEVEL", v["logLevel"])
}
