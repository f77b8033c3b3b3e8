// Links of the knowledge graph, in words.
export interface Link {
  relation: string;
  to?: string;
  value?: string;
  back?: boolean;
  name?: string;
  kind?: string;
}
export interface Figure {
  name: string;
  title?: string;
  unit?: string;
  query: string;
  url?: string;
}
export interface Logs {
  source: string;
  query: string;
  url?: string;
}
export interface Connections {
  iri: string;
  links: Link[];
  figures: Figure[];
  logs: Logs[];
}

const words: Record<string, [string, string]> = {
  runsOn: ["runs on", "runs"],
  partOf: ["part of", "has"],
  hasNode: ["has node", "node of"],
  reads: ["reads", "read by"],
  request: ["requests", "requested by"],
  limit: ["limited to", "limit of"],
  allocatable: ["offers", "offered by"],
  telemetry: ["telemetry", "telemetry of"],
  source: ["source", "source of"],
  scheduler: ["placed by", "places"],
};
export const tail = (iri: string) =>
  decode(iri.slice(Math.max(iri.lastIndexOf("#"), iri.lastIndexOf("/")) + 1)) || iri;
const decode = (s: string) => {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
};
export const relationOf = (l: Link) => {
  const w = words[tail(l.relation)];
  return w ? w[l.back ? 1 : 0] : (l.back ? "← " : "") + tail(l.relation);
};
export const nameOf = (l: Link) =>
  l.name ? (l.kind ? `${l.kind} ${l.name}` : l.name) : tail(l.to ?? "");

/** What is said of the thing itself, such as its classes, is left out: the panel is about connections. */
export const connections = (links: Link[]) => {
  const seen = new Set<string>();
  return links.filter((l) => {
    const key = relationOf(l) + "\n" + l.to;
    return !!l.to && tail(l.relation) !== "type" && !seen.has(key) && !!seen.add(key);
  });
};
