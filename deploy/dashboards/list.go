package dashboards

// Links of panels to the dashboard and the page of a line.
const (
	toNode     = "/d/reckon-node?var-node=${__field.labels.node}&${source:queryparam}&${__url_time_range}"
	toWorkload = "/d/reckon-workload?var-workload=${__field.labels.workload}&${source:queryparam}&${__url_time_range}"
	toOwner    = "/d/reckon-owner?var-owner=${__field.labels.owner}&${source:queryparam}&${__url_time_range}"
	pageOfJob  = "${reckon}/workload?id=${__field.labels.workload:percentencode}"
)

// The choices and their label conditions in a query.
const (
	onSite  = `site=~"$site"`
	onNode  = onSite + `,node=~"$node"`
	onWork  = `workload=~"$workload"`
	onOwner = onSite + `,owner=~"$owner"`
)

var (
	siteVar = Var{Name: "site", Metric: "reckon_agent_info", Label: "site"}
	nodeVar = Var{Name: "node", Metric: "reckon_agent_info", Label: "node", Filter: onSite}
)

// List returns all dashboards.
func List() []Dashboard {
	list := []Dashboard{siteDashboard(), nodeDashboard(), workloadDashboard(), ownerDashboard(), gpuDashboard(), energyDashboard(),
		slurmDashboard(), agentDashboard(), serverDashboard()}
	for i := range list {
		list[i] = withNames(list[i])
	}
	return list
}

func asQuery(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend}} }

// rateExpr returns the rate of a counter over Grafana's step; sumBy sums rates.
func rateExpr(metric, of string) string { return "rate(" + metric + "{" + of + "}[$__rate_interval])" }

func sumBy(labels, metric, of string) string {
	return "sum by (" + labels + ") (" + rateExpr(metric, of) + ")"
}

func statPanel(title, unit, expr string) Panel {
	return Panel{Title: title, Unit: unit, Kind: "stat", Width: 4, Queries: asQuery(expr, "")}
}

func siteDashboard() Dashboard {
	return Dashboard{Name: "site", Title: "Site", Description: "A site at a glance: what it has, what is used, who uses it.",
		Vars: []Var{siteVar}, Rows: []Row{
			{Title: "Now", Panels: []Panel{
				statPanel("Nodes up", "short", `count(group by (site, node) (reckon_agent_info{`+onSite+`}))`),
				statPanel("Workloads", "short", `count(group by (workload) (reckon_workload_start_time_seconds{`+onSite+`}))`),
				statPanel("Cores", "short", `count(node_cpu_seconds_total{`+onSite+`,mode="idle"})`),
				statPanel("CPU in use", "percentunit", `1 - avg(rate(node_cpu_seconds_total{`+onSite+`,mode="idle"}[$__rate_interval]))`),
				statPanel("Memory in use", "percentunit",
					`1 - sum(node_memory_MemAvailable_bytes{`+onSite+`}) / sum(node_memory_MemTotal_bytes{`+onSite+`})`),
				statPanel("Power", "watt", `sum(`+rateExpr(`reckon_node_attributed_energy_joules_total`, onSite)+`)`),
			}},
			{Title: "Use", Panels: []Panel{
				{Title: "Cores by owner", Unit: "short", Stack: true, Link: toOwner,
					Queries: asQuery(`topk(12, `+sumBy("owner", `reckon_workload_cpu_seconds_total`, onSite)+`)`, "{{owner}}")},
				{Title: "Memory by owner", Unit: "bytes", Stack: true, Link: toOwner,
					Queries: asQuery(`topk(12, sum by (owner) (reckon_workload_memory_bytes{`+onSite+`}))`, "{{owner}}")},
				{Title: "CPU in use by node", Unit: "percentunit", Link: toNode,
					Queries: asQuery(`topk(20, 1 - avg by (node) (rate(node_cpu_seconds_total{`+onSite+`,mode="idle"}[$__rate_interval])))`,
						"{{node}}")},
				{Title: "Available memory by node, the least", Unit: "percentunit", Link: toNode,
					Queries: asQuery(`bottomk(20, node_memory_MemAvailable_bytes{`+onSite+`} / node_memory_MemTotal_bytes{`+onSite+`})`,
						"{{node}}")},
				{Title: "Workloads that use most", Unit: "short", Kind: "bargauge", Link: toWorkload, Queries: []Query{
					{Expr: `topk(15, ` + sumBy("workload, owner", `reckon_workload_cpu_seconds_total`, onSite) + `)`,
						Legend: "{{workload}} of {{owner}}", Instant: true}}},
				{Title: "Waiting for a processor", Help: "Pressure (PSI): share of time in which something waited for CPU.",
					Unit: "percentunit", Link: toNode,
					Queries: asQuery(`topk(20, `+rateExpr(`node_pressure_cpu_waiting_seconds_total`, onSite)+`)`, "{{node}}")},
			}},
		}}
}

func nodeDashboard() Dashboard {
	return Dashboard{Name: "node", Title: "Node", Description: "One machine: who uses it, and how close to its limits it is.",
		Vars: []Var{siteVar, nodeVar}, Rows: []Row{
			{Title: "Who uses it", Panels: []Panel{
				{Title: "Cores by workload", Help: "Workloads and other add up to what the machine was busy.", Unit: "short", Stack: true,
					Width: 24, Link: toWorkload, Queries: asQuery(`topk(15, `+sumBy("workload", `reckon_workload_cpu_seconds_total`,
						onNode)+
						`)`, "{{workload}}")},
				{Title: "Memory by workload", Unit: "bytes", Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(15, sum by (workload) (reckon_workload_memory_bytes{`+onNode+`}))`, "{{workload}}")},
				{Title: "Storage by workload", Unit: "Bps", Link: toWorkload,
					Queries: asQuery(`topk(15, `+sumBy("workload, direction", `reckon_workload_io_bytes_total`, onNode)+`)`,
						"{{workload}} {{direction}}")},
				{Title: "Network by workload", Help: "Payload at sockets, without loopback.", Unit: "Bps", Link: toWorkload,
					Queries: asQuery(`topk(15, `+sumBy("workload, direction", `reckon_workload_network_bytes_total`, onNode)+`)`,
						"{{workload}} {{direction}}")},
				{Title: "Page faults that wait for storage",
					Help: "Major faults per second: memory that had to be read from disk. A steady rate means that memory is short.",
					Unit: "short", Queries: asQuery(rateExpr(`node_vmstat_pgmajfault`, onNode), "{{node}}")},
			}},
			{Title: "Memory traffic and interconnects, where the hardware counts them", Collapsed: true, Panels: []Panel{
				{Title: "Cores in use", Unit: "short",
					Queries: asQuery(`sum by (node) (rate(node_cpu_seconds_total{`+onNode+`,mode!~"idle|iowait"}[$__rate_interval]))`,
						"{{node}}")},
				{Title: "Memory traffic by socket", Help: "Bytes that the memory controllers moved.", Unit: "Bps", Queries: asQuery(
					sumBy("node, socket, direction", `reckon_node_memory_traffic_bytes_total`, onNode),
					"{{node}} socket {{socket}} {{direction}}")},
				{Title: "Memory traffic by workload", Help: "Counted by resctrl, or estimated from cache misses.", Unit: "Bps",
					Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(15, `+sumBy("workload", `reckon_workload_memory_traffic_bytes_total`, onNode)+`)`,
						"{{workload}}")},
				{Title: "Memory traffic of the caches, local and remote",
					Help: "Between the last-level caches of a socket and the memory of its own and of other sockets, by resctrl.",
					Unit: "Bps", Queries: asQuery(sumBy("node, socket, memory", `reckon_node_cache_memory_bytes_total`, onNode),
						"{{node}} socket {{socket}} {{memory}}")},
				{Title: "Memory of workloads by NUMA node", Help: "On machines with several NUMA nodes.", Unit: "bytes", Stack: true,
					Queries: asQuery(`sum by (node, numa_node) (reckon_workload_memory_numa_bytes{`+onNode+`})`,
						"{{node}} NUMA node {{numa_node}}")},
				{Title: "Interconnects", Help: "Octets at ports of InfiniBand, Omni-Path, RoCE and Slingshot.", Unit: "Bps",
					Queries: []Query{
						{Expr: rateExpr(`node_infiniband_port_data_received_bytes_total`, onNode),
							Legend: "{{node}} {{device}} {{port}} received"},
						{Expr: rateExpr(`node_infiniband_port_data_transmitted_bytes_total`, onNode),
							Legend: "{{node}} {{device}} {{port}} sent"}}},
			}},
			{Title: "The machine", Panels: []Panel{
				{Title: "CPU by mode", Unit: "short", Stack: true,
					Queries: asQuery(`sum by (node, mode) (rate(node_cpu_seconds_total{`+onNode+`,mode!="idle"}[$__rate_interval]))`,
						"{{node}} {{mode}}")},
				{Title: "Memory", Unit: "bytes",
					Queries: []Query{{Expr: `node_memory_MemTotal_bytes{` + onNode + `}`, Legend: "{{node}} total"},
						{Expr: `node_memory_MemAvailable_bytes{` + onNode + `}`, Legend: "{{node}} available"}}},
				{Title: "Load and running", Unit: "short", Queries: []Query{{Expr: `node_load1{` + onNode + `}`, Legend: "{{node}} load"},
					{Expr: `node_procs_running{` + onNode + `}`, Legend: "{{node}} running"}}},
				{Title: "Pressure", Unit: "percentunit", Queries: []Query{
					{Expr: rateExpr(`node_pressure_cpu_waiting_seconds_total`, onNode), Legend: "{{node}} CPU"},
					{Expr: rateExpr(`node_pressure_memory_waiting_seconds_total`, onNode), Legend: "{{node}} memory"}, {
						Expr: rateExpr(`node_pressure_io_waiting_seconds_total`, onNode), Legend: "{{node}} storage"}}},
				{Title: "Free on file systems", Unit: "percentunit",
					Queries: asQuery(`node_filesystem_avail_bytes{`+onNode+`,fstype!~"tmpfs|ramfs|overlay"} / node_filesystem_size_bytes{`+
						onNode+`,fstype!~"tmpfs|ramfs|overlay"}`, "{{node}} {{mountpoint}}")},
				{
					Title: "Disks", Unit: "Bps", Queries: []Query{
						{Expr: rateExpr(`node_disk_read_bytes_total`, onNode), Legend: "{{node}} {{device}} read"},
						{Expr: rateExpr(`node_disk_written_bytes_total`, onNode), Legend: "{{node}} {{device}} written"}}},
				{Title: "Response time of disks",
					Help: "95 % of the requests were answered within this time, waiting in the queue of the kernel included.", Unit: "s",
					Queries: asQuery(`histogram_quantile(0.95, `+sumBy("node, device, operation", `reckon_node_disk_response_seconds`,
						onNode)+
						`)`, "{{node}} {{device}} {{operation}}")},
				{Title: "Threads that wait for disks",
					Help: "How many threads of a workload slept on average until a disk had answered.", Unit: "short", Link: toWorkload,
					Queries: asQuery(`topk(15, `+sumBy("node, workload, device", `reckon_workload_disk_wait_seconds_total`, onNode)+`)`,
						"{{workload}} {{device}}")},
				{Title: "Delay in the run queue", Help: "95 % of the waits of threads for a processor were shorter.",
					Unit: "s", Queries: asQuery(`histogram_quantile(0.95, `+sumBy("node", `reckon_workload_run_queue_seconds`, onNode)+`)`,
						"{{node}}")},
				{Title: "Network", Unit: "Bps", Queries: []Query{
					{Expr: `rate(node_network_receive_bytes_total{` + onNode + `,device!="lo"}[$__rate_interval])`,
						Legend: "{{node}} {{device}} in"},
					{Expr: `rate(node_network_transmit_bytes_total{` + onNode + `,device!="lo"}[$__rate_interval])`,
						Legend: "{{node}} {{device}} out"}}},
				{Title: "Power", Unit: "watt", Queries: asQuery(sumBy("node, domain", `reckon_node_attributed_energy_joules_total`,
					onNode),
					"{{node}} {{domain}}")},
			}},
		}}
}

func workloadDashboard() Dashboard {
	v := Var{Name: "workload", Metric: "reckon_workload_start_time_seconds", Label: "workload"}
	return Dashboard{Name: "workload", Title: "Workload",
		Description: "One job, pod, service or session: requested against used, over time.", Vars: []Var{v}, Rows: []Row{
			{Title: "Requested and used", Panels: []Panel{
				{Title: "Cores", Unit: "short", Link: pageOfJob, Queries: []Query{
					{Expr: sumBy("workload", `reckon_workload_cpu_seconds_total`, onWork), Legend: "{{workload}} used"}, {
						Expr:   `sum by (workload) (max by (workload, node) (reckon_workload_request_cores{` + onWork + `}))`,
						Legend: "{{workload}} requested"}}},
				{Title: "Memory", Unit: "bytes", Link: pageOfJob, Queries: []Query{
					{Expr: `sum by (workload) (reckon_workload_memory_bytes{` + onWork + `})`, Legend: "{{workload}} held"},
					{Expr: `sum by (workload) (max by (workload, node) (reckon_workload_request_memory_bytes{` + onWork + `}))`,
						Legend: "{{workload}} requested"}}},
				{Title: "Cores, p95 over seconds", Help: "From the native histogram: one observation a second.", Unit: "short",
					Queries: asQuery(`histogram_quantile(0.95, `+sumBy("workload", `reckon_workload_cores`, onWork)+`)`, "{{workload}}")},
				{Title: "Threads that wait for a processor", Unit: "short",
					Queries: asQuery(sumBy("workload", `reckon_workload_cpu_wait_seconds_total`, onWork), "{{workload}}")},
				{Title: "Threads that wait for disks", Help: "How many of its threads slept on average until a disk had answered.",
					Unit: "short", Queries: asQuery(sumBy("workload, device", `reckon_workload_disk_wait_seconds_total`, onWork),
						"{{workload}} {{device}}")},
				{Title: "Delay in the run queue",
					Help: "How long a thread waited before it got a processor: half of the waits, 95 % and 99 % were shorter.", Unit: "s",
					Queries: []Query{
						{Expr: `histogram_quantile(0.5, sum by (workload) (` + rateExpr(`reckon_workload_run_queue_seconds`, onWork) + `))`,
							Legend: "{{workload}} half"},
						{
							Expr: `histogram_quantile(0.95, sum by (workload) (` + rateExpr(`reckon_workload_run_queue_seconds`, onWork) +
								`))`,
							Legend: "{{workload}} 95 %"},
						{
							Expr: `histogram_quantile(0.99, sum by (workload) (` + rateExpr(`reckon_workload_run_queue_seconds`, onWork) +
								`))`,
							Legend: "{{workload}} 99 %"}}},
			}},
			{Title: "Where and by what", Panels: []Panel{
				{Title: "Cores by node", Unit: "short", Stack: true, Link: toNode,
					Queries: asQuery(sumBy("node", `reckon_workload_cpu_seconds_total`, onWork), "{{node}}")},
				{Title: "Cores by program", Unit: "short", Stack: true,
					Queries: asQuery(`topk(12, `+sumBy("command", `reckon_command_cpu_seconds_total`, onWork)+`)`, "{{command}}")},
				{Title: "Storage", Unit: "Bps", Queries: asQuery(sumBy("workload, direction", `reckon_workload_io_bytes_total`, onWork),
					"{{workload}} {{direction}}")},
				{Title: "Network", Help: "Payload at sockets, without loopback.", Unit: "Bps",
					Queries: asQuery(sumBy("workload, direction", `reckon_workload_network_bytes_total`, onWork),
						"{{workload}} {{direction}}")},
				{Title: "Page faults", Help: "Per second: major faults waited for storage, minor ones did not.", Unit: "short",
					Queries: asQuery(sumBy("workload, type", `reckon_workload_page_faults_total`, onWork), "{{workload}} {{type}}")},
				{Title: "Power", Unit: "watt",
					Queries: asQuery(sumBy("workload, domain, method", `reckon_workload_energy_joules_total`, onWork),
						"{{workload}} {{domain}} ({{method}})")},
				{Title: "GPUs", Unit: "short", Queries: asQuery(sumBy("workload, device", `reckon_workload_gpu_seconds_total`, onWork),
					"{{workload}} {{device}}")},
				{
					Title: "Kind of GPU use", Help: "Share of the time in which units of its GPUs were busy, mean of them while it " +
						"computed there; of a shared GPU, others are in it.", Unit: "percentunit", Queries: asQuery(
						`avg by (engine) (rate(reckon_gpu_engine_busy_seconds_total{engine=~"sm|tensor|fp64|fp32|fp16|`+
							`dram"}[$__rate_interval]) and on (node, device) (sum by (node, device) (`+
							rateExpr(`reckon_workload_gpu_seconds_total`, onWork)+`) > 0))`, "{{engine}}")},
				{Title: "Processes and threads", Unit: "short", Queries: []Query{
					{Expr: `sum by (workload) (reckon_workload_processes{` + onWork + `})`, Legend: "{{workload}} processes"},
					{Expr: `sum by (workload) (reckon_workload_threads{` + onWork + `})`, Legend: "{{workload}} threads"}}},
			}},
			{Title: "Memory traffic, where the hardware counts it", Collapsed: true, Panels: []Panel{
				{Title: "Cores in use", Unit: "short", Queries: asQuery(sumBy("workload", `reckon_workload_cpu_seconds_total`, onWork),
					"{{workload}}")},
				{
					Title: "Memory traffic", Help: "Between caches and memory: counted by resctrl, or estimated from cache misses.",
					Unit: "Bps", Queries: asQuery(sumBy("workload, method", `reckon_workload_memory_traffic_bytes_total`, onWork),
						"{{workload}} ({{method}})")},
				{Title: "Memory by NUMA node", Help: "On machines with several NUMA nodes.", Unit: "bytes", Stack: true,
					Queries: asQuery(`sum by (workload, numa_node) (reckon_workload_memory_numa_bytes{`+onWork+`})`,
						"{{workload}} NUMA node {{numa_node}}")},
				{Title: "Interconnects", Help: "Octets of RDMA adapters while this workload alone used them: at least what it moved.",
					Unit: "Bps", Queries: asQuery(sumBy("workload, device, direction", `reckon_workload_interconnect_bytes_total`, onWork),
						"{{workload}} {{device}} {{direction}}")},
			}},
		}}
}

func ownerDashboard() Dashboard {
	v := Var{Name: "owner", Metric: "reckon_workload_start_time_seconds", Label: "owner", Filter: onSite}
	return Dashboard{Name: "owner", Title: "Owner", Description: "What a person or namespace uses, and what it holds unused.",
		Vars: []Var{siteVar, v}, Rows: []Row{
			{Title: "Use", Panels: []Panel{
				statPanel("Workloads", "short", `count(group by (workload) (reckon_workload_start_time_seconds{`+onOwner+`}))`),
				statPanel("Core hours of the last day", "short",
					`sum(increase(reckon_workload_cpu_seconds_total{`+onOwner+`}[1d])) / 3600`),
				statPanel("Energy of the last day", "joule", `sum(increase(reckon_workload_energy_joules_total{`+onOwner+`}[1d]))`),
				{Title: "Cores by workload", Unit: "short", Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(12, `+sumBy("workload", `reckon_workload_cpu_seconds_total`, onOwner)+`)`, "{{workload}}")},
				{Title: "Memory by workload", Unit: "bytes", Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(12, sum by (workload) (reckon_workload_memory_bytes{`+onOwner+`}))`, "{{workload}}")},
				{Title: "Cores by node", Unit: "short", Stack: true, Link: toNode,
					Queries: asQuery(sumBy("node", `reckon_workload_cpu_seconds_total`, onOwner), "{{node}}")},
				{Title: "Power", Unit: "watt", Queries: asQuery(sumBy("owner, domain", `reckon_workload_energy_joules_total`, onOwner),
					"{{owner}} {{domain}}")},
				{Title: "Cores requested and used", Unit: "short", Queries: []Query{
					{Expr: `sum by (owner) (reckon_workload_request_cores{` + onOwner + `})`, Legend: "{{owner}} requested"},
					{Expr: sumBy("owner", `reckon_workload_cpu_seconds_total`, onOwner), Legend: "{{owner}} used"}}},
				{Title: "GPUs in use", Unit: "short",
					Queries: asQuery(sumBy("owner", `reckon_workload_gpu_seconds_total`, onOwner), "{{owner}}")},
			}},
		}}
}
