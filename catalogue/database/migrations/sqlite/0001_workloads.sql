-- One row for each workload. Times are milliseconds since the Unix epoch; until_ms is
-- the end, or 9007199254740991 (2^53-1) while the workload runs, so that "existed in an
-- interval" is two comparisons. A figure that was never measured is NULL.
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
	UNIQUE (id, start_ms, site)
);

-- Sorting without a filter, or with one that leaves many rows.
CREATE INDEX workloads_start ON workloads (start_ms, until_ms);
CREATE INDEX workloads_until ON workloads (until_ms);
CREATE INDEX workloads_wall ON workloads ((CASE WHEN until_ms = 9007199254740991 THEN seen_ms ELSE until_ms END - start_ms));
CREATE INDEX workloads_cpu ON workloads (cpu_seconds);
CREATE INDEX workloads_cores_mean ON workloads (cores_mean);
CREATE INDEX workloads_cores_p95 ON workloads (cores_p95);
CREATE INDEX workloads_memory ON workloads (memory_peak_bytes);
CREATE INDEX workloads_read ON workloads (io_read_bytes);
CREATE INDEX workloads_write ON workloads (io_write_bytes);
CREATE INDEX workloads_gpu ON workloads (gpu_seconds);
CREATE INDEX workloads_energy ON workloads (energy_joules);
CREATE INDEX workloads_name ON workloads (name);
-- Sorting within an owner or a kind.
CREATE INDEX workloads_owner_start ON workloads (owner, start_ms);
CREATE INDEX workloads_owner_cpu ON workloads (owner, cpu_seconds);
CREATE INDEX workloads_kind_start ON workloads (kind, start_ms);
CREATE INDEX workloads_kind_cpu ON workloads (kind, cpu_seconds);
-- Workloads longer than a day are few; with them apart, "existed in an interval" looks
-- at one day more than the interval only.
CREATE INDEX workloads_long ON workloads (until_ms, start_ms) WHERE until_ms - start_ms > 86400000;

CREATE TABLE workload_nodes (
	node TEXT NOT NULL,
	key BIGINT NOT NULL,
	PRIMARY KEY (node, key)
) WITHOUT ROWID;

-- How many rows there are by what is filtered most, kept up to date by every write, so
-- that a total need not be counted.
CREATE TABLE workload_counts (
	kind TEXT NOT NULL,
	owner TEXT NOT NULL,
	running INTEGER NOT NULL,
	n BIGINT NOT NULL,
	PRIMARY KEY (kind, owner, running)
) WITHOUT ROWID;

-- Names repeat: a pattern is held against each once. Names are forgotten only by Drop.
CREATE TABLE workload_names (
	name TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- Small things to remember: the watermark, and the state of the catalogue's builder.
CREATE TABLE state (
	key TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID;
