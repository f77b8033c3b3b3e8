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
	steps BYTEA NOT NULL,
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
);
-- Those of one time, and what is to be judged or forgotten.
CREATE INDEX IF NOT EXISTS forecasts_made ON forecasts (made_ms);
