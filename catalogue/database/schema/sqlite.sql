-- The catalogue in SQLite. Times are milliseconds since the Unix epoch, 0 for never. A figure that was
-- never measured is NULL. Columns of figures that are not here are added when the database is opened.

-- One row for each workload. until_ms is the end, or 9007199254740991 (2^53-1) while the workload runs and
-- 9007199254740990 while it waits, so that "existed in an interval" is two comparisons. submit_ms is NULL when unknown.
-- exactness has the figures that are not exact, as JSON by key: {"cpu_seconds":"at least"}; empty for none. ended_by,
-- ended_by_user and qos are empty when nobody named them. lost is 1 for a run of which only the last report is known.
CREATE TABLE workloads (
	key INTEGER PRIMARY KEY,
	site TEXT NOT NULL,
	id TEXT NOT NULL,
	start_ms BIGINT NOT NULL,
	seen_ms BIGINT NOT NULL,
	until_ms BIGINT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	owner TEXT NOT NULL,
	account TEXT NOT NULL,
	partition_name TEXT NOT NULL,
	command TEXT NOT NULL,
	nodes TEXT NOT NULL,
	exit_code BIGINT,
	cpu_seconds DOUBLE PRECISION,
	cpu_user_seconds DOUBLE PRECISION,
	cpu_system_seconds DOUBLE PRECISION,
	cpu_wait_seconds DOUBLE PRECISION,
	cores_mean DOUBLE PRECISION,
	cores_p50 DOUBLE PRECISION,
	cores_p95 DOUBLE PRECISION,
	cores_max DOUBLE PRECISION,
	memory_bytes DOUBLE PRECISION,
	memory_peak_bytes DOUBLE PRECISION,
	memory_byte_seconds DOUBLE PRECISION,
	memory_mean_bytes DOUBLE PRECISION,
	io_read_bytes DOUBLE PRECISION,
	io_write_bytes DOUBLE PRECISION,
	network_bytes DOUBLE PRECISION,
	gpu_seconds DOUBLE PRECISION,
	gpu_memory_peak_bytes DOUBLE PRECISION,
	energy_joules DOUBLE PRECISION,
	processes DOUBLE PRECISION,
	threads DOUBLE PRECISION,
	request_cores DOUBLE PRECISION,
	request_memory_bytes DOUBLE PRECISION,
	request_gpus DOUBLE PRECISION,
	request_seconds DOUBLE PRECISION,
	state TEXT NOT NULL DEFAULT '',
	reason TEXT NOT NULL DEFAULT '',
	submit_ms BIGINT,
	request_nodes DOUBLE PRECISION,
	oom_kills DOUBLE PRECISION,
	cpu_throttled_seconds DOUBLE PRECISION,
	major_faults DOUBLE PRECISION,
	swap_peak_bytes DOUBLE PRECISION,
	exactness TEXT NOT NULL DEFAULT '',
	ended_by TEXT NOT NULL DEFAULT '',
	ended_by_user TEXT NOT NULL DEFAULT '',
	qos TEXT NOT NULL DEFAULT '',
	lost BIGINT NOT NULL DEFAULT 0,
	UNIQUE (id, start_ms, site)
);
CREATE INDEX workloads_until ON workloads (until_ms);
-- What was asked for by what began when, of workloads that are known to have been submitted: waits of comparable ones.
CREATE INDEX workloads_waits ON workloads (start_ms, request_cores, request_memory_bytes, request_gpus) WHERE submit_ms IS NOT NULL;

-- Small things to remember: the watermark, and the state of the catalogue's builder.
CREATE TABLE state (
	key TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID;

-- Counts the writes to the workloads, so that a program knows whether another one wrote.
CREATE TABLE generation (n BIGINT NOT NULL);
INSERT INTO generation (n) VALUES (0);

-- The steps of runs as the batch system accounts for them; key is that of workloads, and a
-- step goes with its run. What was not reported is NULL.
CREATE TABLE steps (
	key BIGINT NOT NULL,
	step TEXT NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	nodes TEXT NOT NULL,
	start_ms BIGINT,
	end_ms BIGINT,
	exit_code BIGINT,
	cpu_seconds DOUBLE PRECISION,
	memory_peak_bytes DOUBLE PRECISION,
	cores DOUBLE PRECISION,
	PRIMARY KEY (key, step)
) WITHOUT ROWID;
CREATE TRIGGER steps_of_deleted AFTER DELETE ON workloads BEGIN
	DELETE FROM steps WHERE key = old.key;
END;

-- Cases of misuse, and what people said of them. Not a view of the series: dropping the
-- catalogue leaves them.
CREATE TABLE findings (
	id TEXT NOT NULL PRIMARY KEY,
	rule TEXT NOT NULL,
	severity TEXT NOT NULL,
	site TEXT NOT NULL,
	owner TEXT NOT NULL,
	workload TEXT NOT NULL,
	node TEXT NOT NULL,
	part TEXT NOT NULL,
	text TEXT NOT NULL,
	evidence TEXT NOT NULL,
	first_ms BIGINT NOT NULL,
	last_ms BIGINT NOT NULL,
	found_ms BIGINT NOT NULL,
	seen_ms BIGINT NOT NULL,
	state TEXT NOT NULL,
	ack_by TEXT NOT NULL,
	ack_ms BIGINT NOT NULL,
	muted_until_ms BIGINT NOT NULL,
	mute_reason TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX findings_seen ON findings (seen_ms);
CREATE INDEX findings_owner ON findings (owner, seen_ms);
CREATE INDEX findings_workload ON findings (workload);

-- What was used, by hour ('h'), day ('d') and month ('m') in UTC: days and months are the
-- sums of their hours, kept so that a year answers at once. A figure that was never
-- measured is NULL.
CREATE TABLE use_groups (
	id INTEGER PRIMARY KEY,
	site TEXT NOT NULL,
	kind TEXT NOT NULL,
	owner TEXT NOT NULL,
	account TEXT NOT NULL,
	partition_name TEXT NOT NULL,
	command TEXT NOT NULL,
	UNIQUE (site, kind, owner, account, partition_name, command)
);

CREATE TABLE uses (
	span TEXT NOT NULL,
	at_ms BIGINT NOT NULL,
	group_id BIGINT NOT NULL,
	cpu_seconds DOUBLE PRECISION,
	cpu_wait_seconds DOUBLE PRECISION,
	memory_byte_seconds DOUBLE PRECISION,
	gpu_seconds DOUBLE PRECISION,
	io_read_bytes DOUBLE PRECISION,
	io_write_bytes DOUBLE PRECISION,
	network_bytes DOUBLE PRECISION,
	energy_joules DOUBLE PRECISION,
	processes DOUBLE PRECISION,
	held_core_seconds DOUBLE PRECISION,
	started DOUBLE PRECISION,
	waited DOUBLE PRECISION,
	wait_seconds DOUBLE PRECISION,
	wait_core_seconds DOUBLE PRECISION,
	PRIMARY KEY (span, at_ms, group_id)
) WITHOUT ROWID;

CREATE TABLE node_uses (
	span TEXT NOT NULL,
	at_ms BIGINT NOT NULL,
	site TEXT NOT NULL,
	node TEXT NOT NULL,
	up_seconds DOUBLE PRECISION,
	core_seconds DOUBLE PRECISION,
	core_used_seconds DOUBLE PRECISION,
	node_memory_byte_seconds DOUBLE PRECISION,
	node_memory_used_byte_seconds DOUBLE PRECISION,
	node_joules DOUBLE PRECISION,
	cpu_seconds DOUBLE PRECISION,
	cpu_wait_seconds DOUBLE PRECISION,
	memory_byte_seconds DOUBLE PRECISION,
	gpu_seconds DOUBLE PRECISION,
	io_read_bytes DOUBLE PRECISION,
	io_write_bytes DOUBLE PRECISION,
	network_bytes DOUBLE PRECISION,
	energy_joules DOUBLE PRECISION,
	processes DOUBLE PRECISION,
	held_core_seconds DOUBLE PRECISION,
	started DOUBLE PRECISION,
	waited DOUBLE PRECISION,
	wait_seconds DOUBLE PRECISION,
	wait_core_seconds DOUBLE PRECISION,
	PRIMARY KEY (span, at_ms, site, node)
) WITHOUT ROWID;

-- What was expected. Not a view of the series: it says what was known then, and dropping the catalogue leaves it.
-- Times are milliseconds since the Unix epoch. steps holds point, low and high of each step, 32-bit floats, little endian.
CREATE TABLE IF NOT EXISTS forecasts (
	subject TEXT NOT NULL,
	site TEXT NOT NULL,
	name TEXT NOT NULL,
	figure TEXT NOT NULL,
	made_ms BIGINT NOT NULL,
	owner TEXT NOT NULL,
	step_ms BIGINT NOT NULL,
	length BIGINT NOT NULL,
	steps BLOB NOT NULL,
	models TEXT NOT NULL,
	flags TEXT NOT NULL,
	backtest DOUBLE PRECISION,
	naive DOUBLE PRECISION,
	judged_steps BIGINT,
	judged_inside BIGINT NOT NULL DEFAULT 0,
	judged_error DOUBLE PRECISION NOT NULL DEFAULT 0,
	judged_naive_error DOUBLE PRECISION NOT NULL DEFAULT 0,
	judged_naive_steps BIGINT NOT NULL DEFAULT 0,
	judged_error_there DOUBLE PRECISION NOT NULL DEFAULT 0,
	PRIMARY KEY (subject, site, name, figure, made_ms)
) WITHOUT ROWID;
-- Those of one time, and what is to be judged or forgotten.
CREATE INDEX IF NOT EXISTS forecasts_made ON forecasts (made_ms);

-- The knowledge graph. No view of the series: others write it too, and building the catalogue anew leaves it.
-- A term is as N-Triples writes it; hash is the first 8 bytes of its SHA-256. g, s, p and o are ids of terms.
CREATE TABLE IF NOT EXISTS graph_terms (
	id INTEGER PRIMARY KEY,
	hash BIGINT NOT NULL,
	term TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS graph_terms_hash ON graph_terms (hash);
-- A deleted subgraph keeps its row, so that its version never falls. changed is the number of the change in the whole store.
CREATE TABLE IF NOT EXISTS graph_subgraphs (
	id TEXT NOT NULL PRIMARY KEY,
	g BIGINT NOT NULL,
	origin TEXT NOT NULL,
	owner TEXT NOT NULL,
	time_ms BIGINT NOT NULL,
	version BIGINT NOT NULL,
	quads BIGINT NOT NULL,
	deleted BIGINT NOT NULL,
	changed BIGINT NOT NULL,
	reads BIGINT NOT NULL DEFAULT 0,
	writes BIGINT NOT NULL DEFAULT 0,
	read_ms BIGINT NOT NULL DEFAULT 0,
	write_ms BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS graph_subgraphs_g ON graph_subgraphs (g);
CREATE INDEX IF NOT EXISTS graph_subgraphs_changed ON graph_subgraphs (changed);
CREATE TABLE IF NOT EXISTS graph_quads (
	g BIGINT NOT NULL,
	s BIGINT NOT NULL,
	p BIGINT NOT NULL,
	o BIGINT NOT NULL,
	PRIMARY KEY (g, s, p, o)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS graph_quads_pos ON graph_quads (p, o, g, s);
CREATE INDEX IF NOT EXISTS graph_quads_osp ON graph_quads (o, g, s, p);
-- The number of the last change, and which store it is.
CREATE TABLE IF NOT EXISTS graph_state (
	one BIGINT NOT NULL PRIMARY KEY,
	changed BIGINT NOT NULL,
	instance TEXT NOT NULL
);
INSERT INTO graph_state (one, changed, instance) VALUES (1, 0, '') ON CONFLICT DO NOTHING;

-- Runs of MetricSets. No view of the series: who ran them sends them, and building the catalogue anew leaves them.
-- Documents are JSON of package client; times are milliseconds since the Unix epoch, but those of samples microseconds.
CREATE TABLE IF NOT EXISTS metric_runs (
	namespace TEXT NOT NULL,
	name TEXT NOT NULL,
	site TEXT NOT NULL,
	set_name TEXT NOT NULL,
	outcome TEXT NOT NULL,
	started_ms BIGINT NOT NULL,
	finished_ms BIGINT NOT NULL,
	document BLOB NOT NULL,
	PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS metric_runs_started ON metric_runs (started_ms);
CREATE TABLE IF NOT EXISTS metric_run_pods (
	namespace TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	samples BIGINT NOT NULL,
	document BLOB NOT NULL,
	PRIMARY KEY (namespace, name, uid)
) WITHOUT ROWID;
-- One row for each sample; its number keeps it from being there twice.
CREATE TABLE IF NOT EXISTS metric_run_samples (
	namespace TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	seq BIGINT NOT NULL,
	from_us BIGINT NOT NULL,
	to_us BIGINT NOT NULL,
	document BLOB NOT NULL,
	PRIMARY KEY (namespace, name, uid, seq)
) WITHOUT ROWID;
