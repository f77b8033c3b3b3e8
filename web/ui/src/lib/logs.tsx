// The log of a workload, which the server asks for where it lies; fetched when somebody wants to see it.
import { useState } from "preact/hooks";
import { useAsk } from "./api";
import { logged } from "./names";
import { clean, Section, Show, When } from "./parts";
import { has } from "./state";
import { utc } from "./units";

interface Line {
  time: string;
  pod?: string;
  container?: string;
  text: string;
}
interface Answer {
  source: string;
  query?: string;
  from: string;
  to: string;
  more: boolean;
  lines: Line[];
  missing?: string[];
}

const sources: Record<string, string> = {
  loki: "Loki",
  kubernetes: "the API server of the cluster",
};

export function Log({
  id,
  owner,
  start,
  site,
}: {
  id: string;
  owner?: string;
  start: string;
  site?: string;
}) {
  const [limit, setLimit] = useState(0);
  const q = new URLSearchParams({ start, limit: String(limit), ...(site ? { site } : {}) });
  const a = useAsk<Answer>(
    limit > 0
      ? `/api/reckon/v1/logs/${id.split("/").map(encodeURIComponent).join("/")}?${q}`
      : null,
  );
  if (!has("logs") || !logged(id, owner)) return null;
  return (
    <Section
      title="Log"
      aside={limit > 0 ? <button onClick={a.again}>Ask again</button> : undefined}
    >
      {limit === 0 ? (
        <p>
          <button onClick={() => setLimit(200)}>Show the last lines</button>
        </p>
      ) : (
        <Show a={a}>
          {(d) =>
            d.lines.length === 0 ? (
              <p class="quiet">
                {sources[d.source] ?? d.source} has no line from <When t={d.from} /> to{" "}
                <When t={d.to} />
                {d.query && (
                  <>
                    : <code>{clean(d.query)}</code>
                  </>
                )}
                .
              </p>
            ) : (
              <>
                <pre class="log" tabIndex={0} role="region" aria-label="Log">
                  {d.lines.map((l) => (
                    <>
                      <time dateTime={l.time} title={utc(l.time)}>
                        {new Date(l.time).toLocaleTimeString()}
                      </time>{" "}
                      <b>
                        <bdi>{clean([l.pod, l.container].filter(Boolean).join("/")) || "–"}</bdi>
                      </b>{" "}
                      <bdi>{clean(l.text)}</bdi>
                      {"\n"}
                    </>
                  ))}
                </pre>
                <p class="quiet">
                  From {sources[d.source] ?? d.source}.{" "}
                  {d.more && (
                    <>
                      There are more lines.{" "}
                      {limit < 5000 && (
                        <button onClick={() => setLimit(5000)}>Show up to 5,000</button>
                      )}
                    </>
                  )}
                </p>
              </>
            )
          }
        </Show>
      )}
    </Section>
  );
}
