-- Filters meet in the indexes that lead to them: what else is asked for is read from the index,
-- and the row only of what matches. How many rows there are is counted by all that batch
-- systems tell, so that no total of those is counted row by row.
DROP INDEX workloads_owner_start;
DROP INDEX workloads_kind_start;
DROP INDEX workloads_kind_cpu;
DROP INDEX workloads_account_start;
DROP INDEX workloads_partition_start;
DROP INDEX workloads_state_start;
DROP INDEX workloads_command_start;
DROP INDEX workloads_start;
DROP INDEX workloads_until;
CREATE INDEX workloads_owner_start ON workloads (owner, start_ms, until_ms, account, kind, partition_name, state, command);
CREATE INDEX workloads_kind_start ON workloads (kind, start_ms, until_ms, owner, account, partition_name, state, command);
CREATE INDEX workloads_account_start ON workloads (account, start_ms, until_ms, owner, kind, partition_name, state, command);
CREATE INDEX workloads_partition_start ON workloads (partition_name, start_ms, until_ms, owner, account, kind, state, command);
CREATE INDEX workloads_state_start ON workloads (state, start_ms, until_ms, owner, account, kind, partition_name, command);
CREATE INDEX workloads_command_start ON workloads (command, start_ms, until_ms, owner, account, kind, partition_name, state);
CREATE INDEX workloads_start ON workloads (start_ms, until_ms, owner, account, kind, partition_name, state, command);
CREATE INDEX workloads_until ON workloads (until_ms, start_ms, owner, account, kind, partition_name, state, command);
DROP TABLE workload_counts;
CREATE TABLE workload_counts (
	owner TEXT NOT NULL,
	account TEXT NOT NULL,
	kind TEXT NOT NULL,
	partition_name TEXT NOT NULL,
	state TEXT NOT NULL,
	command TEXT NOT NULL,
	running INTEGER NOT NULL,
	n BIGINT NOT NULL,
	PRIMARY KEY (owner, account, kind, partition_name, state, command, running)
) WITHOUT ROWID;
INSERT INTO workload_counts (owner, account, kind, partition_name, state, command, running, n)
	SELECT owner, account, kind, partition_name, state, command, CASE WHEN until_ms = 9007199254740991 THEN 1 ELSE 0 END, count(*)
	FROM workloads GROUP BY 1, 2, 3, 4, 5, 6, 7;
