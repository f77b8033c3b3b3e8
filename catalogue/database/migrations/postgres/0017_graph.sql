-- The knowledge graph. No view of the series: others write it too, and building the catalogue anew leaves it.
-- A term is as N-Triples writes it; hash is the first 8 bytes of its SHA-256. g, s, p and o are ids of terms.
CREATE TABLE IF NOT EXISTS graph_terms (
	id BIGSERIAL PRIMARY KEY,
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
);
CREATE INDEX IF NOT EXISTS graph_subgraphs_g ON graph_subgraphs (g);
CREATE INDEX IF NOT EXISTS graph_subgraphs_changed ON graph_subgraphs (changed);
CREATE TABLE IF NOT EXISTS graph_quads (
	g BIGINT NOT NULL,
	s BIGINT NOT NULL,
	p BIGINT NOT NULL,
	o BIGINT NOT NULL,
	PRIMARY KEY (g, s, p, o)
);
CREATE INDEX IF NOT EXISTS graph_quads_pos ON graph_quads (p, o, g, s);
CREATE INDEX IF NOT EXISTS graph_quads_osp ON graph_quads (o, g, s, p);
-- The number of the last change, and which store it is.
CREATE TABLE IF NOT EXISTS graph_state (
	one BIGINT NOT NULL PRIMARY KEY,
	changed BIGINT NOT NULL,
	instance TEXT NOT NULL
);
INSERT INTO graph_state (one, changed, instance) VALUES (1, 0, '') ON CONFLICT DO NOTHING;
