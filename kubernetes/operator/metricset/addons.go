package metricset

// AddonKind is an add-on that can be given to a metric in addition to its own options.
type AddonKind struct {
	Name    string
	Summary string
	Family  string // application, volume, performance or workload
	Image   string
	Options []Option
	Maps    []string
	// MapsRequired are those that must have an entry.
	MapsRequired []string
	// AnyOf are options; one must be given.
	AnyOf []string
}

func required(name string) Option { return Option{Name: name, Required: true} }

func targets(more ...Option) []Option {
	return append(more, Option{Name: "target"}, Option{Name: "containerTarget"})
}

func volume(name, summary string, more ...Option) AddonKind {
	return AddonKind{Name: name, Summary: summary, Family: "volume",
		Options: append([]Option{required("name"), required("path"), toggle("readOnly", "false")}, more...)}
}

// Addons returns all add-ons.
func Addons() []AddonKind {
	block := targets(script("preBlock", ""), script("prefix", ""), script("suffix", ""), script("postBlock", ""))
	any := []string{"preBlock", "prefix", "suffix", "postBlock"}
	configMap := volume("volume-cm", "a ConfigMap", required("configMapName"))
	configMap.Maps, configMap.MapsRequired = []string{"items"}, []string{"items"}
	return []AddonKind{
		{Name: "application", Summary: "the application that is measured", Family: "application",
			Options: []Option{required("image"), {Name: "command", Type: Text, Required: true}, text("workdir", ""),
				{Name: "entrypoint", Ignored: "the command is what runs"}, text("pullSecret", ""), toggle("privileged", "false")},
			Maps: []string{"resourceLimits", "resourceRequests"}},
		volume("volume-pvc", "a PersistentVolumeClaim", required("claimName")),
		volume("volume-hostpath", "a folder of the node", required("hostPath")),
		volume("volume-secret", "a Secret", required("secretName")),
		configMap,
		volume("volume-empty", "an empty folder for as long as the pod lives"),
		{Name: "commands", Summary: "text before, around and after the command", Family: "application", Options: block, AnyOf: any},
		{Name: "perf-commands", Summary: "the same with SYS_PTRACE and SYS_ADMIN", Family: "application", Options: block, AnyOf: any},
		{Name: "perf-hpctoolkit", Summary: "HPCToolkit around the command", Family: "performance", Image: images + "hpctoolkit-view:ubuntu",
			Options: targets(required("events"), text("output", "hpctoolkit-result"), text("mount", "/opt/share"), text("image", ""),
				script("prefix", ""), text("workdir", ""), toggle("postAnalysis", "true"))},
		{Name: "perf-mpitrace", Summary: "IBM's MPI trace library in front of the command", Family: "performance",
			Image:   images + "mpitrace:rocky",
			Options: targets(text("mount", "/opt/share"), text("image", ""), text("workdir", ""))},
		{Name: "workload-flux", Summary: "the command under a tree of Flux brokers", Family: "workload",
			Image: "ghcr.io/rse-ops/spack-flux-rocky-view:tag-8",
			Options: targets(text("mount", "/opt/share"), text("image", ""), script("preCommand", ""), text("workerIndex", "0"),
				text("launcherIndex", "0"),
				Option{Name: "submit", Type: Script, Default: "submit", Alias: "submitCommand"}, number("tasks", "0"),
				text("fluxUid", "1004"), text("fluxUser", "flux"), text("workdir", ""), text("logLevel", "6"),
				text("quorum", ""), text("connectTimeout", "5s"), script("optionFlags", ""), toggle("interactive", "false"),
				toggle("debugZeroMQ", "false"))},
	}
}
