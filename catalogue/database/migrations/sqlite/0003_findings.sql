-- Cases of misuse, and what people said of them. Not a view of the series: dropping the
-- catalogue leaves them. Times are milliseconds since the Unix epoch, 0 for never.
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
