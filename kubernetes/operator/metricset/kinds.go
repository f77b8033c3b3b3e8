// Package metricset defines the valid contents of a MetricSet: the metrics and add-ons with their
// options, their valid combinations, and the conversion of older files. It is pure and safe for
// concurrent use.
package metricset

// Shape is the layout of the pods of a metric.
type Shape int

// Shapes.
const (
	// Application is any number of equal pods with a measured application.
	Application Shape = iota
	// System is any number of equal pods with a program that measures the machine.
	System
	// Storage is any number of like pods that exercise a volume.
	Storage
	// Launcher is one pod that starts work on the other pods.
	Launcher
	// Mesh is any number of equal pods that measure the network between them.
	Mesh
)

// Type is the notation of an option's value.
type Type int

// Types of options. A text may be written as a number; a number may not be written as a text.
const (
	Text Type = iota
	Int
	Bool    // "true", "yes", "false", "no"
	Present // switched on by being there, "false" and "no" switch it off
	Script  // text that runs in the image's shell
)

// Option is one option of a metric or an add-on.
type Option struct {
	Name     string
	Type     Type
	Default  string
	Required bool
	Min      int64    // of an Int
	OneOf    []string // of a Text
	Alias    string   // another name that files use
	Ignored  string   // why it has no effect, as a warning
}

// Kind is a metric.
type Kind struct {
	Name    string
	Summary string
	Family  string
	Shape   Shape
	Image   string // empty: our own
	MinPods int32
	Options []Option
	Lists   []Option
	Maps    []string
	// SoleTenancy is the default of the option of that name: pods rather on different nodes.
	SoleTenancy bool
	// ImageRequired means that the kind has no default image.
	ImageRequired bool
}

const images = "ghcr.io/converged-computing/metric-"

func sampling(more ...Option) []Option {
	return append([]Option{{Name: "rate", Type: Int, Default: "10", Min: 1}, {Name: "completions", Type: Int, Default: "0"}}, more...)
}

func text(name, value string) Option   { return Option{Name: name, Default: value} }
func number(name, value string) Option { return Option{Name: name, Type: Int, Default: value} }
func script(name, value string) Option { return Option{Name: name, Type: Script, Default: value} }
func toggle(name, value string) Option { return Option{Name: name, Type: Bool, Default: value} }

// launcherKind has the options of the family app-*.
func launcherKind(name, image, family, command, prefix, workdir string, more ...Option) Kind {
	return Kind{Name: name, Family: family, Shape: Launcher, Image: image, MinPods: 2,
		Options: append([]Option{script("command", command), script("prefix", prefix), text("workdir", workdir)}, more...)}
}

// Kinds returns all metrics.
func Kinds() []Kind {
	hosts := "mpirun --hostfile ./hostlist.txt"
	one := func(k Kind) Kind { k.MinPods = 1; return k }
	kinds := append([]Kind{}, perfKinds()...)
	kinds = append(kinds, networkKinds()...)
	return append(kinds,
		launcherKind("app-amg", images+"amg:latest", "solver", "amg", hosts, "/opt/AMG"),
		launcherKind("app-bdas", images+"bdas:latest", "machine-learning",
			"mpirun --allow-run-as-root -np 4 --hostfile ./hostlist.txt Rscript /opt/bdas/benchmarks/r/princomp.r 250 50", "/bin/bash",
			"/opt/bdas/benchmarks/r"),
		one(launcherKind("app-cabanapic", images+"cabanapic:latest", "simulation", "cbnpic", "/bin/bash", "/opt/cabanaPIC/build")),
		customKind(),
		hplKind(),
		launcherKind("app-kripke", images+"kripke:latest", "solver", "kripke", hosts, "/opt/kripke"),
		launcherKind("app-laghos", images+"laghos:latest", "solver", "mpirun -np 4 --hostfile ./hostlist.txt ./laghos", "/bin/bash",
			"/workflow/laghos"),
		lammpsKind(),
		launcherKind("app-nekbone", images+"nekbone:latest", "solver", "mpiexec --hostfile ./hostlist.txt -np 2 ./nekbone", "/bin/bash",
			"/root/nekbone-3.0/test/example2"),
		launcherKind("app-pennant", images+"pennant:latest", "simulation", "pennant /opt/pennant/test/sedovsmall/sedovsmall.pnt", hosts,
			"/opt/pennant/test"),
		launcherKind("app-quicksilver", images+"quicksilver:latest", "simulation",
			"qs /opt/quicksilver/Examples/CORAL2_Benchmark/Problem1/Coral2_P1.inp", hosts, "/opt/quicksilver/Examples"),
	)
}

func perfKinds() []Kind {
	return []Kind{
		{Name: "perf-sysstat", Summary: "statistics of tasks: processor time, I/O, memory, switches", Family: "performance",
			Shape: Application, MinPods: 1,
			Options: sampling(
				Option{Name: "command"}, Option{Name: "pids", Type: Present}, Option{Name: "threads", Type: Present},
				Option{Name: "color", Type: Present, Ignored: "results are not text of a terminal"},
				Option{Name: "attach", OneOf: []string{"agent", "sidecar", "ephemeral"}}, Option{Name: "selector"}),
			Maps: []string{"commands"}},
		{Name: "sys-hwloc", Summary: "the topology of the machine", Family: "system", Shape: System, MinPods: 1,
			Image: images + "hwloc:latest",
			Lists: []Option{{Name: "commands", Alias: "command", Type: Script}}},
		{Name: "app-ldms", Summary: "metric sets of LDMS", Family: "performance", Shape: System, MinPods: 1,
			Image:   images + "ovis-hpc:latest",
			Options: sampling(script("command", "ldms_ls -h localhost -x sock -p 10444 -l -v"), text("workdir", "/opt"))},
		{Name: "io-sysstat", Summary: "statistics of the devices under a volume", Family: "storage", Shape: Storage, MinPods: 1,
			Image:   images + "sysstat:latest",
			Options: sampling(toggle("human", "false"), script("pre", ""), script("prefix", ""), script("post", ""))},
		{Name: "io-fio", Summary: "the Flexible I/O Tester", Family: "storage", Shape: Storage, MinPods: 1, Image: images + "fio:latest",
			Options: []Option{text("testname", "test"), text("blocksize", "4k"), {Name: "iodepth", Type: Int, Default: "64", Min: 1},
				text("size", "4G"),
				text("directory", "/tmp"), script("command", ""), script("prefix", ""), script("pre", ""), script("post", "")}},
		{Name: "io-ior", Summary: "the parallel I/O benchmark IOR", Family: "storage", Shape: Storage, MinPods: 1,
			Image: images + "ior:latest",
			Options: []Option{script("command", "ior -w -r -o testfile"), text("workdir", "/opt/ior"), script("prefix", ""),
				script("pre", ""), script("post", "")}},
		{Name: "io-probe", Summary: "writes, syncs and reads files by the probe, in any cluster", Family: "storage", Shape: Storage,
			MinPods: 1,
			Options: []Option{text("directory", ""), text("size", "64Mi"), text("blocksize", "4Ki"),
				{Name: "seconds", Type: Int, Default: "10", Min: 1}}},
	}
}

func networkKinds() []Kind {
	tasks, sole := number("tasks", "0"), Option{Name: "soleTenancy", Type: Bool, Default: "true", Alias: "sole-tenancy"}
	return []Kind{
		{Name: "network-osu-benchmark", Summary: "the OSU micro-benchmarks of MPI", Family: "network", Shape: Launcher, MinPods: 2,
			SoleTenancy: true, Image: images + "osu-benchmark:latest",
			Options: []Option{tasks, number("sleep", "60"), sole, toggle("all", "false"), toggle("timed", "false"), script("flags", "")},
			Lists:   []Option{{Name: "commands", OneOf: osuNames()}}},
		{Name: "network-netmark", Summary: "round trips between all ranks", Family: "network", Shape: Launcher, MinPods: 2,
			SoleTenancy: true, Image: "vanessa/netmark:latest",
			Options: []Option{tasks, number("warmups", "10"), number("trials", "20"), number("sendReceiveCycles", "20"),
				number("messageSize", "0"), toggle("storeEachTrial", "true"), sole}},
		{Name: "network-chatterbug", Summary: "communication proxies", Family: "network", Shape: Launcher, MinPods: 2, SoleTenancy: true,
			Image: images + "chatterbug:latest",
			Options: []Option{{Name: "command", Default: "stencil3d", OneOf: chatterbugNames()},
				script("args", "./stencil3d.x 2 2 2 10 10 10 4 1"), script("mpirun", "-N 8"), tasks, sole}},
		{Name: "network-probe", Summary: "latency and bandwidth between all pairs of pods by the probe", Family: "network", Shape: Mesh,
			MinPods: 2, SoleTenancy: true,
			Options: []Option{{Name: "port", Type: Int, Default: "9879", Min: 1}, {Name: "trials", Type: Int, Default: "100", Min: 1},
				{Name: "messageSize", Type: Int, Default: "64", Min: 1},
				{Name: "seconds", Type: Int, Default: "2", Min: 1}, sole}},
	}
}

func customKind() Kind {
	k := launcherKind("app-custom", "", "proxyapp", "", "", "", toggle("soleTenancy", "false"))
	k.MinPods, k.ImageRequired = 1, true
	k.Options[0].Required = true
	return k
}

func lammpsKind() Kind {
	k := launcherKind("app-lammps", images+"lammps:latest", "simulation",
		"mpirun --hostfile ./hostlist.txt -np 2 --map-by socket lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite", "",
		"/opt/lammps/examples/reaxff/HNS", toggle("soleTenancy", "false"))
	k.MinPods = 1
	return k
}

func hplKind() Kind {
	k := Kind{Name: "app-hpl", Summary: "High-Performance Linpack", Family: "solver", Shape: Launcher, MinPods: 2,
		Image:   images + "hpl-spack:latest",
		Options: []Option{script("mpiargs", ""), number("tasks", "0"), text("ratio", "0.3"), text("workdir", "")}}
	for _, o := range [][2]string{{"memory", "0"}, {"blocksize", "1"}, {"row_or_colmajor_pmapping", "0"}, {"pfact", "0"}, {"nbmin", "1"},
		{"ndiv", "2"}, {"rfact", "0"}, {"bcast", "0"},
		{"depth", "0"}, {"swap", "0"}, {"swappingThreshold", "64"}, {"l1transposed", "0"}, {"utransposed", "0"}, {"memAlignment", "4"}} {
		k.Options = append(k.Options, number(o[0], o[1]))
	}
	return k
}
