package dashboards

func gpuDashboard() Dashboard {
	return Dashboard{Name: "gpu", Title: "GPU", Description: "Graphics processors and accelerators of every vendor.",
		Vars: []Var{siteVar, nodeVar}, Rows: []Row{
			{Title: "Now", Panels: []Panel{
				statPanel("Devices", "short", `count(reckon_gpu_info{`+onNode+`})`),
				statPanel("Busy", "percentunit", `avg(`+rateExpr(`reckon_gpu_busy_seconds_total`, onNode)+`)`),
				statPanel("Memory in use", "percentunit",
					`sum(reckon_gpu_memory_bytes{`+onNode+`}) / sum(reckon_gpu_memory_size_bytes{`+onNode+`})`),
				statPanel("Power", "watt", `sum(reckon_gpu_power_watts{`+onNode+`})`),
				statPanel("Errors not corrected, last day", "short",
					`sum(increase(reckon_gpu_ecc_errors_total{`+onNode+`,type="uncorrected"}[1d]))`),
			}},
			{Title: "Devices", Panels: []Panel{
				{Title: "Busy", Unit: "percentunit", Link: toNode,
					Queries: asQuery(rateExpr(`reckon_gpu_busy_seconds_total`, onNode), "{{node}} {{index}}")},
				{Title: "Memory", Unit: "percentunit", Link: toNode,
					Queries: asQuery(`reckon_gpu_memory_bytes{`+onNode+`} / reckon_gpu_memory_size_bytes{`+onNode+`}`,
						"{{node}} {{index}}")},
				{Title: "Power", Unit: "watt", Queries: asQuery(`reckon_gpu_power_watts{`+onNode+`}`, "{{node}} {{index}}")},
				{Title: "Temperature", Unit: "celsius",
					Queries: asQuery(`reckon_gpu_temperature_celsius{`+onNode+`}`, "{{node}} {{index}} {{place}}")},
				{Title: "Held back, by reason", Unit: "percentunit", Queries: asQuery(rateExpr(`reckon_gpu_throttled_seconds_total`,
					onNode),
					"{{node}} {{index}} {{reason}}")},
				{Title: "Clocks", Unit: "hertz", Queries: asQuery(`reckon_gpu_clock_hertz{`+onNode+`}`, "{{node}} {{index}} {{clock}}")},
			}},
			{Title: "Who uses them", Panels: []Panel{
				{Title: "Devices by workload", Unit: "short", Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(15, `+sumBy("workload", `reckon_workload_gpu_seconds_total`, onNode)+`)`, "{{workload}}")},
				{Title: "Device memory by workload", Unit: "bytes", Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(15, sum by (workload) (reckon_workload_gpu_memory_bytes{`+onNode+`}))`, "{{workload}}")},
				{Title: "Devices asked for by workload", Unit: "short", Link: toWorkload,
					Queries: asQuery(`topk(15, sum by (workload) (reckon_workload_request_gpus{`+onNode+`}))`, "{{workload}}")},
			}},
		}}
}

func energyDashboard() Dashboard {
	return Dashboard{Name: "energy", Title: "Energy",
		Description: "Where energy goes, measured or modelled, and who causes it. Each joule counts once.", Vars: []Var{siteVar, nodeVar},
		Rows: []Row{
			{Title: "Energy", Panels: []Panel{
				statPanel("Power now", "watt", `sum(`+rateExpr(`reckon_node_attributed_energy_joules_total`, onNode)+`)`),
				statPanel("Energy of the last day", "joule", `sum(increase(reckon_node_attributed_energy_joules_total{`+onNode+`}[1d]))`),
				statPanel("Of it idle", "percentunit",
					`sum(increase(reckon_node_attributed_energy_joules_total{`+onNode+
						`,share="idle"}[1d])) / sum(increase(reckon_node_attributed_energy_joules_total{`+onNode+`}[1d]))`),
				{Title: "Power by domain and share", Unit: "watt", Stack: true,
					Queries: asQuery(sumBy("domain, share, method", `reckon_node_attributed_energy_joules_total`, onNode),
						"{{domain}} {{share}} ({{method}})")},
				{Title: "Power by node", Unit: "watt", Stack: true, Link: toNode,
					Queries: asQuery(`topk(20, `+sumBy("node", `reckon_node_attributed_energy_joules_total`, onNode)+`)`, "{{node}}")},
				{Title: "Power by owner", Unit: "watt", Stack: true, Link: toOwner,
					Queries: asQuery(`topk(12, `+sumBy("owner", `reckon_workload_energy_joules_total`, onNode)+`)`, "{{owner}}")},
				{Title: "Power by workload", Unit: "watt", Stack: true, Link: toWorkload,
					Queries: asQuery(`topk(15, `+sumBy("workload", `reckon_workload_energy_joules_total`, onNode)+`)`, "{{workload}}")},
				{Title: "Meters", Help: "Domains overlap: they are not to be added up.", Unit: "watt",
					Queries: asQuery(rateExpr(`reckon_node_energy_joules_total`, onNode), "{{node}} {{domain}} {{zone}} ({{method}})")},
				{Title: "Batteries", Unit: "percentunit", Queries: asQuery(`reckon_battery_charge_ratio{`+onNode+`}`,
					"{{node}} {{supply}}")},
			}},
		}}
}

func slurmDashboard() Dashboard {
	return Dashboard{Name: "slurm", Title: "Slurm", Description: "Reports of a cluster's controller.",
		Vars: []Var{{Name: "site", Metric: "reckon_slurm_up", Label: "site"}}, Rows: []Row{
			{Title: "Cluster", Panels: []Panel{
				statPanel("Controller answers", "bool_yes_no", `min(reckon_slurm_up{`+onSite+`})`),
				statPanel("Cores held", "percentunit",
					`sum(reckon_slurm_node_allocated_cores{`+onSite+`}) / sum(reckon_slurm_node_cores{`+onSite+`})`),
				statPanel("Memory held", "percentunit",
					`sum(reckon_slurm_node_allocated_memory_bytes{`+onSite+`}) / sum(reckon_slurm_node_memory_bytes{`+onSite+`})`),
				statPanel("Nodes that take jobs", "short", `count(group by (node) (reckon_slurm_node_state{`+onSite+`} == 1))`),
				{Title: "Jobs by partition and state", Unit: "short", Stack: true,
					Queries: asQuery(`sum by (partition, state) (reckon_slurm_partition_jobs{`+onSite+`})`, "{{partition}} {{state}}")},
				{Title: "Cores asked for by partition", Unit: "short", Stack: true,
					Queries: asQuery(`sum by (partition, state) (reckon_slurm_partition_requested_cores{`+onSite+`})`,
						"{{partition}} {{state}}")},
				{Title: "Nodes by state", Unit: "short", Stack: true,
					Queries: asQuery(`count by (state) (reckon_slurm_node_state{`+onSite+`})`, "{{state}}")},
				{Title: "Cores held and used", Help: "Allocated by Slurm, used as measured on the nodes.", Unit: "short",
					Queries: []Query{{Expr: `sum(reckon_slurm_node_allocated_cores{` + onSite + `})`, Legend: "held"},
						{Expr: `sum(rate(reckon_workload_cpu_seconds_total{` + onSite + `,kind="slurm"}[$__rate_interval]))`,
							Legend: "used"}}},
				{Title: "Jobs by why they wait", Unit: "short",
					Queries: asQuery(`count by (reason) (reckon_workload_state{`+onSite+`,state="pending"})`, "{{reason}}")},
				{Title: "Nodes that take no jobs", Kind: "table",
					Queries: []Query{{Expr: `reckon_slurm_node_state{` + onSite + `} == 0`, Instant: true}}},
			}},
		}}
}

func agentDashboard() Dashboard {
	return Dashboard{Name: "agent", Title: "Agents", Description: "What reckon itself takes, and whether it works.",
		Vars: []Var{siteVar, nodeVar}, Rows: []Row{
			{Title: "Agents", Panels: []Panel{
				statPanel("Agents", "short", `count(reckon_agent_info{`+onNode+`})`),
				statPanel("CPU of the largest", "percentunit", `max(`+rateExpr(`reckon_agent_cpu_seconds_total`, onNode)+`)`),
				statPanel("Memory of the largest", "bytes", `max(reckon_agent_memory_bytes{`+onNode+`})`),
				{Title: "CPU", Unit: "percentunit", Link: toNode,
					Queries: asQuery(`topk(20, `+rateExpr(`reckon_agent_cpu_seconds_total`, onNode)+`)`, "{{node}}")},
				{Title: "Memory", Unit: "bytes", Link: toNode, Queries: asQuery(`topk(20, reckon_agent_memory_bytes{`+onNode+`})`,
					"{{node}}")},
				{Title: "Time of a tick", Unit: "s",
					Queries: asQuery(`topk(20, `+rateExpr(`reckon_agent_tick_seconds_total`,
						onNode)+` / `+rateExpr(`reckon_agent_ticks_total`,
						onNode)+
						`)`, "{{node}}")},
				{Title: "Ticks that were late or failed", Unit: "short", Queries: []Query{
					{Expr: `topk(20, increase(reckon_agent_ticks_late_total{` + onNode + `}[$__rate_interval]))`,
						Legend: "{{node}} late"}, {
						Expr:   `topk(20, increase(reckon_agent_ticks_failed_total{` + onNode + `}[$__rate_interval]))`,
						Legend: "{{node}} failed"}}},
				{Title: "Unsent requests", Unit: "short",
					Queries: asQuery(`topk(20, reckon_agent_push_queue_requests{`+onNode+`})`, "{{node}} {{endpoint}}")},
				{Title: "Samples sent", Unit: "short", Queries: asQuery(sumBy("endpoint", `reckon_agent_push_samples_total`, onNode),
					"{{endpoint}}")},
				{Title: "Versions", Kind: "table",
					Queries: []Query{{Expr: `count by (version, source, exits) (reckon_agent_info{` + onNode + `})`, Instant: true}}},
				{Title: "Sensors that do not work", Kind: "table",
					Queries: []Query{{Expr: `count by (sensor, reason) (reckon_sensor_up{` + onNode + `} == 0)`, Instant: true}}},
			}},
		}}
}

func serverDashboard() Dashboard {
	v := Var{Name: "server", Metric: "reckon_server_start_time_seconds", Label: "server"}
	const on = `server=~"$server"`
	return Dashboard{Name: "server", Title: "Server",
		Description: "What the reckon server takes, answers and needs, and whether it keeps up.", Vars: []Var{v}, Rows: []Row{
			{Title: "Now", Panels: []Panel{
				statPanel("Accounted", "percentunit", `min(reckon_server_proof_accounted_ratio{`+on+`})`),
				statPanel("Agents", "short", `sum(reckon_server_senders{`+on+`})`),
				statPanel("Samples a second", "short", `sum(`+rateExpr(`reckon_server_store_samples_total`, on)+`)`),
				statPanel("Memory", "bytes", `max(reckon_server_memory_bytes{`+on+`,kind="resident"})`),
				statPanel("Disk left", "bytes", `min(reckon_server_disk_free_bytes{`+on+`})`),
				statPanel("Behind", "s", `max(reckon_server_catalogue_lag_seconds{`+on+`})`),
			}},
			{Title: "What comes", Panels: []Panel{
				{Title: "Samples", Unit: "short",
					Queries: asQuery(sumBy("protocol", `reckon_server_ingest_samples_total`, on), "{{protocol}}")},
				{Title: "Requests by status", Unit: "short",
					Queries: asQuery(sumBy("protocol, status", `reckon_server_ingest_requests_total`, on), "{{protocol}} {{status}}")},
				{Title: "Refused samples", Unit: "short",
					Queries: asQuery(`topk(20, `+sumBy("sender, reason", `reckon_server_ingest_refused_samples_total`, on)+`)`,
						"{{sender}} {{reason}}")},
				{Title: "Waiting for a store elsewhere", Unit: "short",
					Queries: asQuery(`reckon_server_store_queue_requests{`+on+`}`, "{{server}}")},
			}},
			{Title: "What is made of it", Panels: []Panel{
				{
					Title: "Behind", Unit: "s", Queries: []Query{
						{Expr: `reckon_server_catalogue_lag_seconds{` + on + `}`, Legend: "{{server}} lists"},
						{Expr: `reckon_server_rollup_lag_seconds{` + on + `}`, Legend: "{{server}} usage"}}},
				{Title: "Hours to be made again", Unit: "short", Queries: asQuery(`reckon_server_dirty_rollups{`+on+`}`, "{{server}}")},
				{Title: "Rules", Unit: "s", Queries: asQuery(`reckon_server_rule_group_seconds{`+on+`}`, "{{group}}")},
				{Title: "Time of an answer", Unit: "s",
					Queries: asQuery(sumBy("what", `reckon_server_request_seconds_total`, on)+` / `+
						sumBy("what", `reckon_server_requests_total`, on), "{{what}}")},
			}},
			{Title: "What it takes", Panels: []Panel{
				{Title: "Memory", Unit: "bytes", Queries: asQuery(`reckon_server_memory_bytes{`+on+`}`, "{{server}} {{kind}}")},
				{
					Title: "CPU", Unit: "short", Queries: asQuery(rateExpr(`reckon_server_cpu_seconds_total`, on), "{{server}}")},
				{Title: "Series in memory", Unit: "short", Stack: true,
					Queries: asQuery(`sum by (state) (reckon_server_store_series{`+on+`})`, "{{state}}")},
				{Title: "Store on disk", Unit: "bytes",
					Queries: []Query{{Expr: `reckon_server_store_bytes{` + on + `}`, Legend: "{{server}} {{part}}"},
						{Expr: `reckon_server_disk_free_bytes{` + on + `}`, Legend: "{{server}} free"}}},
			}},
		}}
}
