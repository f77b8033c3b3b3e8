package dashboards

func gpu() Dashboard {
	return Dashboard{Name: "gpu", Title: "GPU", Description: "Graphics processors and accelerators of every vendor.",
		Vars: []Var{siteVar, nodeVar}, Rows: []Row{
			{Title: "Now", Panels: []Panel{
				stat("Devices", "short", `count(reckon_gpu_info{`+onNode+`})`),
				stat("Busy", "percentunit", `avg(`+rate(`reckon_gpu_busy_seconds_total`, onNode)+`)`),
				stat("Memory in use", "percentunit",
					`sum(reckon_gpu_memory_bytes{`+onNode+`}) / sum(reckon_gpu_memory_size_bytes{`+onNode+`})`),
				stat("Power", "watt", `sum(reckon_gpu_power_watts{`+onNode+`})`),
				stat("Errors not corrected, last day", "short",
					`sum(increase(reckon_gpu_ecc_errors_total{`+onNode+`,type="uncorrected"}[1d]))`),
			}},
			{Title: "Devices", Panels: []Panel{
				{Title: "Busy", Unit: "percentunit", Link: toNode,
					Queries: single(rate(`reckon_gpu_busy_seconds_total`, onNode), "{{node}} {{index}}")},
				{Title: "Memory", Unit: "percentunit", Link: toNode,
					Queries: single(`reckon_gpu_memory_bytes{`+onNode+`} / reckon_gpu_memory_size_bytes{`+onNode+`}`,
						"{{node}} {{index}}")},
				{Title: "Power", Unit: "watt", Queries: single(`reckon_gpu_power_watts{`+onNode+`}`, "{{node}} {{index}}")},
				{Title: "Temperature", Unit: "celsius",
					Queries: single(`reckon_gpu_temperature_celsius{`+onNode+`}`, "{{node}} {{index}} {{place}}")},
				{Title: "Held back, by reason", Unit: "percentunit", Queries: single(rate(`reckon_gpu_throttled_seconds_total`, onNode),
					"{{node}} {{index}} {{reason}}")},
				{Title: "Clocks", Unit: "hertz", Queries: single(`reckon_gpu_clock_hertz{`+onNode+`}`, "{{node}} {{index}} {{clock}}")},
			}},
			{Title: "Who uses them", Panels: []Panel{
				{Title: "Devices by workload", Unit: "short", Stack: true, Link: toWorkload,
					Queries: single(`topk(15, `+sumBy("workload", `reckon_workload_gpu_seconds_total`, onNode)+`)`, "{{workload}}")},
				{Title: "Device memory by workload", Unit: "bytes", Stack: true, Link: toWorkload,
					Queries: single(`topk(15, sum by (workload) (reckon_workload_gpu_memory_bytes{`+onNode+`}))`, "{{workload}}")},
				{Title: "Devices asked for by workload", Unit: "short", Link: toWorkload,
					Queries: single(`topk(15, sum by (workload) (reckon_workload_request_gpus{`+onNode+`}))`, "{{workload}}")},
			}},
		}}
}

func energy() Dashboard {
	return Dashboard{Name: "energy", Title: "Energy",
		Description: "Where energy goes, measured or modelled, and who causes it. Each joule counts once.", Vars: []Var{siteVar, nodeVar},
		Rows: []Row{
			{Title: "Energy", Panels: []Panel{
				stat("Power now", "watt", `sum(`+rate(`reckon_node_attributed_energy_joules_total`, onNode)+`)`),
				stat("Energy of the last day", "joule", `sum(increase(reckon_node_attributed_energy_joules_total{`+onNode+`}[1d]))`),
				stat("Of it idle", "percentunit",
					`sum(increase(reckon_node_attributed_energy_joules_total{`+onNode+
						`,share="idle"}[1d])) / sum(increase(reckon_node_attributed_energy_joules_total{`+onNode+`}[1d]))`),
				{Title: "Power by domain and share", Unit: "watt", Stack: true,
					Queries: single(sumBy("domain, share, method", `reckon_node_attributed_energy_joules_total`, onNode),
						"{{domain}} {{share}} ({{method}})")},
				{Title: "Power by node", Unit: "watt", Stack: true, Link: toNode,
					Queries: single(`topk(20, `+sumBy("node", `reckon_node_attributed_energy_joules_total`, onNode)+`)`, "{{node}}")},
				{Title: "Power by owner", Unit: "watt", Stack: true, Link: toOwner,
					Queries: single(`topk(12, `+sumBy("owner", `reckon_workload_energy_joules_total`, onNode)+`)`, "{{owner}}")},
				{Title: "Power by workload", Unit: "watt", Stack: true, Link: toWorkload,
					Queries: single(`topk(15, `+sumBy("workload", `reckon_workload_energy_joules_total`, onNode)+`)`, "{{workload}}")},
				{Title: "Meters", Help: "Domains overlap: they are not to be added up.", Unit: "watt",
					Queries: single(rate(`reckon_node_energy_joules_total`, onNode), "{{node}} {{domain}} {{zone}} ({{method}})")},
				{Title: "Batteries", Unit: "percentunit", Queries: single(`reckon_battery_charge_ratio{`+onNode+`}`,
					"{{node}} {{supply}}")},
			}},
		}}
}

func slurm() Dashboard {
	return Dashboard{Name: "slurm", Title: "Slurm", Description: "Reports of a cluster's controller.",
		Vars: []Var{{Name: "site", Metric: "reckon_slurm_up", Label: "site"}}, Rows: []Row{
			{Title: "Cluster", Panels: []Panel{
				stat("Controller answers", "bool_yes_no", `min(reckon_slurm_up{`+onSite+`})`),
				stat("Cores held", "percentunit",
					`sum(reckon_slurm_node_allocated_cores{`+onSite+`}) / sum(reckon_slurm_node_cores{`+onSite+`})`),
				stat("Memory held", "percentunit",
					`sum(reckon_slurm_node_allocated_memory_bytes{`+onSite+`}) / sum(reckon_slurm_node_memory_bytes{`+onSite+`})`),
				stat("Nodes that take jobs", "short", `count(group by (node) (reckon_slurm_node_state{`+onSite+`} == 1))`),
				{Title: "Jobs by partition and state", Unit: "short", Stack: true,
					Queries: single(`sum by (partition, state) (reckon_slurm_partition_jobs{`+onSite+`})`, "{{partition}} {{state}}")},
				{Title: "Cores asked for by partition", Unit: "short", Stack: true,
					Queries: single(`sum by (partition, state) (reckon_slurm_partition_requested_cores{`+onSite+`})`,
						"{{partition}} {{state}}")},
				{Title: "Nodes by state", Unit: "short", Stack: true,
					Queries: single(`count by (state) (reckon_slurm_node_state{`+onSite+`})`, "{{state}}")},
				{Title: "Cores held and used", Help: "Allocated by Slurm, used as measured on the nodes.", Unit: "short",
					Queries: []Query{{Expr: `sum(reckon_slurm_node_allocated_cores{` + onSite + `})`, Legend: "held"},
						{Expr: `sum(rate(reckon_workload_cpu_seconds_total{` + onSite + `,kind="slurm"}[$__rate_interval]))`,
							Legend: "used"}}},
				{Title: "Jobs by why they wait", Unit: "short",
					Queries: single(`count by (reason) (reckon_workload_state{`+onSite+`,state="pending"})`, "{{reason}}")},
				{Title: "Nodes that take no jobs", Kind: "table",
					Queries: []Query{{Expr: `reckon_slurm_node_state{` + onSite + `} == 0`, Instant: true}}},
			}},
		}}
}

func agent() Dashboard {
	return Dashboard{Name: "agent", Title: "Agents", Description: "What reckon itself takes, and whether it works.",
		Vars: []Var{siteVar, nodeVar}, Rows: []Row{
			{Title: "Agents", Panels: []Panel{
				stat("Agents", "short", `count(reckon_agent_info{`+onNode+`})`),
				stat("CPU of the largest", "percentunit", `max(`+rate(`reckon_agent_cpu_seconds_total`, onNode)+`)`),
				stat("Memory of the largest", "bytes", `max(reckon_agent_memory_bytes{`+onNode+`})`),
				{Title: "CPU", Unit: "percentunit", Link: toNode,
					Queries: single(`topk(20, `+rate(`reckon_agent_cpu_seconds_total`, onNode)+`)`, "{{node}}")},
				{Title: "Memory", Unit: "bytes", Link: toNode, Queries: single(`topk(20, reckon_agent_memory_bytes{`+onNode+`})`,
					"{{node}}")},
				{Title: "Time of a tick", Unit: "s",
					Queries: single(`topk(20, `+rate(`reckon_agent_tick_seconds_total`, onNode)+` / `+rate(`reckon_agent_ticks_total`,
						onNode)+
						`)`, "{{node}}")},
				{Title: "Ticks that were late or failed", Unit: "short", Queries: []Query{
					{Expr: `topk(20, increase(reckon_agent_ticks_late_total{` + onNode + `}[$__rate_interval]))`,
						Legend: "{{node}} late"}, {
						Expr:   `topk(20, increase(reckon_agent_ticks_failed_total{` + onNode + `}[$__rate_interval]))`,
						Legend: "{{node}} failed"}}},
				{Title: "Unsent requests", Unit: "short",
					Queries: single(`topk(20, reckon_agent_push_queue_requests{`+onNode+`})`, "{{node}} {{endpoint}}")},
				{Title: "Samples sent", Unit: "short", Queries: single(sumBy("endpoint", `reckon_agent_push_samples_total`, onNode),
					"{{endpoint}}")},
				{Title: "Versions", Kind: "table",
					Queries: []Query{{Expr: `count by (version, source, exits) (reckon_agent_info{` + onNode + `})`, Instant: true}}},
				{Title: "Sensors that do not work", Kind: "table",
					Queries: []Query{{Expr: `count by (sensor, reason) (reckon_sensor_up{` + onNode + `} == 0)`, Instant: true}}},
			}},
		}}
}

func server() Dashboard {
	v := Var{Name: "server", Metric: "reckon_server_start_time_seconds", Label: "server"}
	const on = `server=~"$server"`
	return Dashboard{Name: "server", Title: "Server",
		Description: "What the reckon server takes, answers and needs, and whether it keeps up.", Vars: []Var{v}, Rows: []Row{
			{Title: "Now", Panels: []Panel{
				stat("Accounted", "percentunit", `min(reckon_server_proof_accounted_ratio{`+on+`})`),
				stat("Agents", "short", `sum(reckon_server_senders{`+on+`})`),
				stat("Samples a second", "short", `sum(`+rate(`reckon_server_store_samples_total`, on)+`)`),
				stat("Memory", "bytes", `max(reckon_server_memory_bytes{`+on+`,kind="resident"})`),
				stat("Disk left", "bytes", `min(reckon_server_disk_free_bytes{`+on+`})`),
				stat("Behind", "s", `max(reckon_server_catalogue_lag_seconds{`+on+`})`),
			}},
			{Title: "What comes", Panels: []Panel{
				{Title: "Samples", Unit: "short",
					Queries: single(sumBy("protocol", `reckon_server_ingest_samples_total`, on), "{{protocol}}")},
				{Title: "Requests by status", Unit: "short",
					Queries: single(sumBy("protocol, status", `reckon_server_ingest_requests_total`, on), "{{protocol}} {{status}}")},
				{Title: "Refused samples", Unit: "short",
					Queries: single(`topk(20, `+sumBy("sender, reason", `reckon_server_ingest_refused_samples_total`, on)+`)`,
						"{{sender}} {{reason}}")},
				{Title: "Waiting for a store elsewhere", Unit: "short",
					Queries: single(`reckon_server_store_queue_requests{`+on+`}`, "{{server}}")},
			}},
			{Title: "What is made of it", Panels: []Panel{
				{
					Title: "Behind", Unit: "s", Queries: []Query{
						{Expr: `reckon_server_catalogue_lag_seconds{` + on + `}`, Legend: "{{server}} lists"},
						{Expr: `reckon_server_rollup_lag_seconds{` + on + `}`, Legend: "{{server}} usage"}}},
				{Title: "Hours to be made again", Unit: "short", Queries: single(`reckon_server_dirty_rollups{`+on+`}`, "{{server}}")},
				{Title: "Rules", Unit: "s", Queries: single(`reckon_server_rule_group_seconds{`+on+`}`, "{{group}}")},
				{Title: "Time of an answer", Unit: "s",
					Queries: single(sumBy("what", `reckon_server_request_seconds_total`, on)+` / `+
						sumBy("what", `reckon_server_requests_total`, on), "{{what}}")},
			}},
			{Title: "What it takes", Panels: []Panel{
				{Title: "Memory", Unit: "bytes", Queries: single(`reckon_server_memory_bytes{`+on+`}`, "{{server}} {{kind}}")},
				{
					Title: "CPU", Unit: "short", Queries: single(rate(`reckon_server_cpu_seconds_total`, on), "{{server}}")},
				{Title: "Series in memory", Unit: "short", Stack: true,
					Queries: single(`sum by (state) (reckon_server_store_series{`+on+`})`, "{{state}}")},
				{Title: "Store on disk", Unit: "bytes",
					Queries: []Query{{Expr: `reckon_server_store_bytes{` + on + `}`, Legend: "{{server}} {{part}}"},
						{Expr: `reckon_server_disk_free_bytes{` + on + `}`, Legend: "{{server}} free"}}},
			}},
		}}
}
