-- Who or what ended a run, and its quality of service; empty when nobody said.
ALTER TABLE workloads ADD COLUMN ended_by TEXT NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN ended_by_user TEXT NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN qos TEXT NOT NULL DEFAULT '';

-- 1 for a run of which only is known when it was last heard of; of rows of before, those that
-- were left in a state that a job leaves again.
ALTER TABLE workloads ADD COLUMN lost BIGINT NOT NULL DEFAULT 0;
UPDATE workloads SET lost = 1 WHERE kind = 'slurm' AND until_ms < 9007199254740990
	AND state IN ('running', 'suspended', 'stopped', 'completing', 'configuring', 'resizing', 'signaling', 'stage_out');

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
