package simulate

// programKind is a kind of program and its behaviour.
type programKind struct {
	name    string // of its jobs
	program string
	home    string  // the account that runs it most
	often   float64 // how often it is chosen

	nodes    []int     // possible requests
	cores    []float64 // possible shares of a node
	gpus     []int     // likewise; nil for none
	hours    float64   // the usual length
	spread   float64   // of its logarithm
	memory   float64   // peak as a share of the requested memory
	limit    float64   // the time asked for, in usual lengths
	array    int       // usual number of tasks; 0 for no array
	ranks    int       // processes on a node, at most
	steps    bool      // the work runs as a step of its own
	busy     float64   // cores in use, of those asked for, while it computes
	jitter   float64   // by how much that moves, as a share
	shorts   float64   // short processes a second for each core
	tools    []string  // their names
	gpuBusy  float64   // share of time that its GPUs compute
	gpuBytes float64   // device memory that it holds, as a share
	phases   []programPhase

	fails, runsOut, overdue, cancelled float64 // how often each happens
}

// programPhase is a phase in the run of a program. The shares of all phases sum to one.
type programPhase struct {
	share       float64
	busy        float64 // times kind.busy
	memory      float64 // at its end, of the peak
	read, write float64 // bytes a second and node
	repeat      float64 // seconds after which a burst of writing comes, 0 for none
}

const mb = 1e6

// programKinds are the programs of the site.
var programKinds = []programKind{
	{
		name: "cfd-run", program: "simpleFoam", home: "cfd", often: 2, nodes: []int{1, 1, 2, 2, 4, 8}, cores: []float64{1}, hours: 6,
		spread: 0.9, memory: 0.6,
		limit: 2, ranks: 8, steps: true, busy: 0.97, jitter: 0.02, fails: 0.05, overdue: 0.06, cancelled: 0.04,
		phases: []programPhase{{0.04, 0.15, 0.3, 180 * mb, 0, 0}, {0.92, 1, 0.9, 0.2 * mb, 2 * mb, 900}, {0.04, 0.3, 1, 0, 160 * mb, 0}},
	},
	{
		name: "wrf", program: "wrf.exe", home: "climate", often: 1.5, nodes: []int{1, 2, 4, 4, 8}, cores: []float64{1}, hours: 4,
		spread: 0.6, memory: 0.45,
		limit: 1.6, ranks: 8, steps: true, busy: 0.92, jitter: 0.06, fails: 0.04, overdue: 0.08, cancelled: 0.03,
		phases: []programPhase{{0.03, 0.2, 0.5, 220 * mb, 0, 0}, {0.97, 1, 1, 1 * mb, 8 * mb, 600}},
	},
	{
		name: "md", program: "gmx", home: "chem", often: 1.5, nodes: []int{1}, cores: []float64{0.25, 0.5, 0.5, 1}, hours: 8, spread: 0.8,
		memory: 0.15,
		limit:  2.5, ranks: 1, busy: 0.98, jitter: 0.01, fails: 0.03, overdue: 0.1, cancelled: 0.05,
		phases: []programPhase{{0.01, 0.3, 0.8, 20 * mb, 0, 0}, {0.99, 1, 1, 0, 0.6 * mb, 1200}},
	},
	{
		name: "sweep", program: "python3", home: "physics", often: 3, nodes: []int{1}, cores: []float64{0}, hours: 0.7, spread: 0.9,
		memory: 0.4,
		limit:  4, array: 12, ranks: 1, busy: 0.99, jitter: 0.02, fails: 0.06, runsOut: 0.02, overdue: 0.02, cancelled: 0.01,
		phases: []programPhase{{0.05, 0.8, 0.4, 10 * mb, 0, 0}, {0.9, 1, 1, 0.1 * mb, 0.1 * mb, 0}, {0.05, 0.7, 0.6, 0, 6 * mb, 0}},
	},
	{
		name: "align", program: "snakemake", home: "bio", often: 2.5, nodes: []int{1}, cores: []float64{0.25, 0.5}, hours: 2, spread: 0.8,
		memory: 0.7,
		limit:  3, ranks: 2, busy: 0.6, jitter: 0.35, shorts: 0.02, tools: []string{"samtools", "bwa", "sort", "gzip", "awk", "bash"},
		fails: 0.1, runsOut: 0.05, overdue: 0.03, cancelled: 0.03,
		phases: []programPhase{{0.1, 0.15, 0.2, 150 * mb, 1 * mb, 0}, {0.6, 1.4, 0.7, 60 * mb, 30 * mb, 0}, {0.2, 0.3, 1, 20 * mb, 60 * mb,
			0}, {0.1, 0.05, 0.3, 0, 90 * mb, 0}},
	},
	{
		name: "train", program: "python3", home: "ml", often: 6, nodes: []int{1}, cores: []float64{0.25, 0.25, 0.5, 1},
		gpus: []int{1, 1, 2, 4}, hours: 7, spread: 0.8, memory: 0.5,
		limit: 2.2, ranks: 4, busy: 0.45, jitter: 0.2, gpuBusy: 0.88, gpuBytes: 0.8, fails: 0.1, runsOut: 0.03, overdue: 0.12,
		cancelled: 0.08,
		phases:    []programPhase{{0.03, 0.4, 0.5, 250 * mb, 0, 0}, {0.97, 1, 1, 40 * mb, 1 * mb, 1800}},
	},
	{
		name: "infer", program: "python3", home: "ml", often: 3, nodes: []int{1}, cores: []float64{0.25}, gpus: []int{1}, hours: 1.5,
		spread: 0.7, memory: 0.3,
		limit: 3, ranks: 1, busy: 0.3, jitter: 0.3, gpuBusy: 0.35, gpuBytes: 0.4, fails: 0.06, cancelled: 0.05,
		phases: []programPhase{{0.1, 0.5, 0.8, 120 * mb, 0, 0}, {0.9, 1, 1, 5 * mb, 2 * mb, 0}},
	},
	{
		// A user holds a GPU for a day and uses it now and then.
		name: "jupyter", program: "jupyter-lab", home: "ml", often: 2, nodes: []int{1}, cores: []float64{0.25}, gpus: []int{1, 1, 2},
		hours: 9, spread: 0.3, memory: 0.1,
		limit: 1.1, ranks: 1, busy: 0.02, jitter: 0.9, gpuBusy: 0.004, gpuBytes: 0.3, overdue: 0.5, cancelled: 0.2,
		phases: []programPhase{{1, 1, 1, 0.05 * mb, 0.05 * mb, 0}},
	},
	{
		// One core of many, because the program knows no threads.
		name: "matlab-fit", program: "MATLAB", home: "geo", often: 1, nodes: []int{1}, cores: []float64{0.5, 1}, hours: 3, spread: 0.7,
		memory: 0.12,
		limit:  4, ranks: 1, busy: 0.06, jitter: 0.1, fails: 0.05, cancelled: 0.05,
		phases: []programPhase{{0.05, 0.6, 0.4, 30 * mb, 0, 0}, {0.95, 1, 1, 0.5 * mb, 0.5 * mb, 0}},
	},
	{
		// More threads than cores: they wait for each other.
		name: "assemble", program: "spades", home: "bio", often: 0.6, nodes: []int{1}, cores: []float64{0.25, 0.5}, hours: 5, spread: 0.8,
		memory: 0.95,
		limit:  2, ranks: 1, busy: 1.8, jitter: 0.1, fails: 0.05, runsOut: 0.25, overdue: 0.05,
		phases: []programPhase{{0.1, 0.2, 0.2, 100 * mb, 0, 0}, {0.5, 1, 0.8, 10 * mb, 30 * mb, 0}, {0.4, 0.8, 1, 5 * mb, 10 * mb, 0}},
	},
}
