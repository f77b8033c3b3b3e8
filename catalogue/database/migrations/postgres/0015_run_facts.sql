-- Who or what ended a run, and its quality of service; empty when nobody said.
ALTER TABLE workloads ADD COLUMN ended_by TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN ended_by_user TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN qos TEXT COLLATE "C" NOT NULL DEFAULT '';

-- 1 for a run of which only is known when it was last heard of; of rows of before, those that
-- were left in a state that a job leaves again.
ALTER TABLE workloads ADD COLUMN lost BIGINT NOT NULL DEFAULT 0;
UPDATE workloads SET lost = 1 WHERE kind = 'slurm' AND until_ms < 9007199254740990
	AND state IN ('running', 'suspended', 'stopped', 'completing', 'configuring', 'resizing', 'signaling', 'stage_out');

-- The steps of runs as the batch system accounts for them; a step goes with its run. What was
-- not reported is NULL.
CREATE TABLE steps (
	key BIGINT NOT NULL REFERENCES workloads (key) ON DELETE CASCADE,
	step TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	state TEXT COLLATE "C" NOT NULL,
	nodes TEXT COLLATE "C" NOT NULL,
	start_ms BIGINT,
	end_ms BIGINT,
	exit_code BIGINT,
	cpu_seconds DOUBLE PRECISION,
	memory_peak_bytes DOUBLE PRECISION,
	cores DOUBLE PRECISION,
	PRIMARY KEY (key, step)
);
