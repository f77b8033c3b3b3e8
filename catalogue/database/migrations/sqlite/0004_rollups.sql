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

-- Filters and sorts by what a batch system says.
CREATE INDEX workloads_account_start ON workloads (account, start_ms);
CREATE INDEX workloads_partition_start ON workloads (partition_name, start_ms);
CREATE INDEX workloads_state_start ON workloads (state, start_ms);
CREATE INDEX workloads_command_start ON workloads (command, start_ms);
CREATE INDEX workloads_submit ON workloads (submit_ms);
CREATE INDEX workloads_seen ON workloads (seen_ms);
