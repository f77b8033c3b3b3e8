// What a workload or a node is connected to, as the knowledge graph has it: each thing is a button that leads on, each can be copied.
import { useEffect, useRef, useState } from "preact/hooks";
import { useAsk } from "./api";
import { connections, nameOf, relationOf, tail, type Connections, type Link } from "./links";
import { clean, copy, Empty, Show, Table } from "./parts";
import { has } from "./state";

/** The panel; the graph is asked when it is opened. */
export function ConnectionsPanel({ of }: { of: Record<string, string | undefined> }) {
  const [open, setOpen] = useState(false);
  if (!has("graph")) return null;
  const q = new URLSearchParams(Object.entries(of).filter((e): e is [string, string] => !!e[1]));
  return (
    <details class="later" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Connected to</summary>
      {open && <Walk key={String(q)} first={String(q)} />}
    </details>
  );
}

/** Goes from thing to thing; the way back stays. */
function Walk({ first }: { first: string }) {
  const [way, setWay] = useState<{ q: string; name: string }[]>([{ q: first, name: "here" }]);
  const now = way[way.length - 1],
    a = useAsk<Connections>("/graph/links?" + now.q),
    heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (way.length > 1) heading.current?.focus();
  }, [a.data?.iri]);
  const go = (l: Link) =>
    setWay([...way, { q: String(new URLSearchParams({ iri: l.to! })), name: nameOf(l) }]);
  return (
    <>
      {way.length > 1 && (
        <nav aria-label="The way here">
          <p>
            {way.slice(0, -1).map((w, i) => (
              <>
                <button class="quiet" onClick={() => setWay(way.slice(0, i + 1))}>
                  {clean(w.name)}
                </button>{" "}
                ›{" "}
              </>
            ))}
            <b>{clean(now.name)}</b>
          </p>
        </nav>
      )}
      <Show a={a}>
        {(c) => (
          <>
            <h3 ref={heading} tabIndex={-1}>
              <code>{clean(c.iri).slice(0, 200)}</code> <Copy text={c.iri} as="IRI" />
            </h3>
            <Links c={c} go={go} />
            <Queries c={c} />
          </>
        )}
      </Show>
    </>
  );
}

function Links({ c, go }: { c: Connections; go: (l: Link) => void }) {
  const [all, setAll] = useState(false),
    list = connections(c.links),
    shown = all ? list : list.slice(0, 50),
    facts = c.links.filter((l) => !l.to && !l.back);
  return (
    <>
      {facts.length > 0 && (
        <p class="quiet">
          {facts.map((l, i) => (
            <>
              {i > 0 && " · "}
              {tail(l.relation)} <bdi>{clean(l.value ?? "").slice(0, 200)}</bdi>
            </>
          ))}
        </p>
      )}
      {list.length === 0 ? (
        <Empty>It is connected to nothing.</Empty>
      ) : (
        <Table
          caption="Connections"
          rows={shown}
          keyOf={(l) => l.relation + l.to + (l.back ? "-" : "")}
          cols={[
            { title: "How", cell: (l) => relationOf(l) },
            {
              title: "To what",
              cell: (l) => (
                <button class="quiet" onClick={() => go(l)}>
                  <bdi>{clean(nameOf(l)).slice(0, 120)}</bdi>
                </button>
              ),
            },
            { title: "Copy", cell: (l) => <Copy text={l.to!} as="IRI" of={nameOf(l)} /> },
          ]}
        />
      )}
      {shown.length < list.length && (
        <p>
          <button onClick={() => setAll(true)}>Show all {list.length}</button>
        </p>
      )}
    </>
  );
}

function Queries({ c }: { c: Connections }) {
  const rows = [
    ...c.figures.map((f) => ({
      what: f.title || f.name,
      where: f.url,
      query: f.query,
      as: "PromQL",
    })),
    ...c.logs.map((l) => ({
      what: "Logs",
      where: l.url || l.source,
      query: l.query,
      as: "log query",
    })),
  ];
  if (rows.length === 0) return null;
  return (
    <Table
      caption="Figures and logs"
      rows={rows}
      keyOf={(r) => r.as + r.query}
      cols={[
        { title: "Figures and logs", cell: (r) => r.what },
        { title: "At", cell: (r) => <bdi>{clean(r.where ?? "").slice(0, 80)}</bdi> },
        { title: "Query", cell: (r) => <code class="wrap">{clean(r.query).slice(0, 300)}</code> },
        { title: "Copy", cell: (r) => <Copy text={r.query} as={r.as} of={r.what} /> },
      ]}
    />
  );
}

function Copy({ text, as, of }: { text: string; as: string; of?: string }) {
  const [said, setSaid] = useState("");
  return (
    <>
      <button
        class="quiet copy"
        aria-label={`Copy ${as}${of ? " of " + clean(of).slice(0, 80) : ""}`}
        onClick={() => copy(text, (ok) => setSaid(ok ? "copied" : "not copied"))}
      >
        {as}
      </button>{" "}
      <span role="status">{said}</span>
    </>
  );
}
