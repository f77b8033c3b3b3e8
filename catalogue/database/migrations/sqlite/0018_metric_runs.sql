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
